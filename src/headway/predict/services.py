"""What a service takes beside its execution, and what it takes in all among today's neighbours.

Knows finished batches by model and rows. Refuses to know why they took what they took.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from math import exp, log
from typing import Final

from headway.core import ModelName, Run, Stages
from headway.predict.profile import ModelProfile
from headway.predict.stored import NS_MAX, fields_of, has_rows, rows_of, time_of

__all__ = ["Services"]

_SIZES_MAX: Final = 4096
_WEIGHT: Final = 1.0 / 16.0
_MIDDLE_REACH: Final = 0.7
_MIDDLE_FLOOR_NS: Final = 50_000.0
"""Overheads are told apart beyond this."""
_CLIP_FACTOR: Final = 3.0
"""A value this many times what is usual counts as that: one hiccup of the machine is no habit."""


class Services:
    """Running means by model and rows: service, overhead and transfers; and the fastest service.

    Overhead is what is left of a service after its stages. A size that was never seen is taken for
    the nearest of its model, its transfers in proportion to rows. A model has one overhead: that of
    today, and before the first batch the least of its profiles, for in some of them the message
    waited for a core.

    Invariants: means stay within what was observed; at most `_SIZES_MAX` sizes are kept.
    """

    def __init__(self, profiles: Iterable[ModelProfile] = ()) -> None:
        self._services: dict[tuple[ModelName, int], float] = {}
        self._transfers: dict[tuple[ModelName, int], float] = {}
        self._floors: dict[tuple[ModelName, int], int] = {}
        self._overheads: dict[ModelName, float] = {}
        for profile in profiles:
            if profile.overhead_ns > 0:
                least_ns = self._overheads.get(profile.model, float(NS_MAX))
                self._overheads[profile.model] = min(least_ns, float(profile.overhead_ns))
        self._rows: dict[ModelName, list[int]] = {}
        """Sizes seen of each model, ascending."""

    def service_ns(self, model: ModelName, rows: int) -> float:
        """Usual service; 0 while nothing of the model was seen."""
        near = self._near(model, rows)
        return 0.0 if near is None else self._services[model, near]

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """The fastest service of this size; 0 before the first."""
        return self._floors.get((model, rows), 0)

    def overhead_ns(self, model: ModelName) -> float:
        """Usual way to the worker and back; 0 while nothing of the model was seen."""
        return self._overheads.get(model, 0.0)

    def transfer_ns(self, model: ModelName, rows: int) -> float:
        """Usual transfers, both directions together; 0 while nothing of the model was seen."""
        near = self._near(model, rows)
        return 0.0 if near is None else time_of(self._transfers[model, near] * rows / near)

    def see(self, run: Run, stages: Stages, execution_ns: int) -> None:
        """A batch has run; no stage is negative."""
        key = (run.model, run.rows)
        transfer_ns = float(stages.transfer_in_ns + stages.transfer_out_ns)
        service_ns = float(stages.service_ns)
        overhead_ns = max(0.0, service_ns - execution_ns - transfer_ns)
        overhead_was_ns = self._overheads.get(run.model)
        if overhead_was_ns is not None or len(self._overheads) < _SIZES_MAX:
            self._overheads[run.model] = _middle(overhead_was_ns, overhead_ns)
        if key in self._services:
            self._services[key] = _blend(self._services[key], service_ns)
            self._transfers[key] = _blend(self._transfers[key], transfer_ns)
            self._floors[key] = min(self._floors[key], stages.service_ns)
        elif len(self._services) < _SIZES_MAX:
            self._add(run.model, run.rows, service_ns, transfer_ns, stages.service_ns)

    def _add(
        self, model: ModelName, rows: int, service_ns: float, transfer_ns: float, floor_ns: int
    ) -> None:
        self._services[model, rows] = service_ns
        self._transfers[model, rows] = transfer_ns
        self._floors[model, rows] = floor_ns
        insort(self._rows.setdefault(model, []), rows)

    def _near(self, model: ModelName, rows: int) -> int | None:
        if (model, rows) in self._services:
            return rows
        seen = self._rows.get(model)
        if not seen:
            return None
        at = bisect_left(seen, rows)
        return min(seen[max(0, at - 1) : at + 1], key=lambda size: (abs(size - rows), size))

    def state(self) -> dict[str, object]:
        """Means and floors by model and rows."""
        return {
            "sizes": [
                [*key, service_ns, self._transfers[key], self._floors[key]]
                for key, service_ns in self._services.items()
            ],
            "overheads": [[model, mean_ns] for model, mean_ns in self._overheads.items()],
        }

    def restore(self, state: object) -> None:
        """Take up what `state` gave; what does not fit is ignored."""
        fields = fields_of(state)
        for (model, rows), numbers in rows_of(fields.get("sizes"), (str, int), 3):
            is_new = (model, rows) not in self._services and has_rows(rows)
            if is_new and min(numbers) >= 0.0 and len(self._services) < _SIZES_MAX:
                service_ns, transfer_ns, floor_ns = [time_of(number) for number in numbers]
                name = ModelName(str(model))
                self._add(name, int(rows), service_ns, transfer_ns, int(floor_ns))
        for (model,), numbers in rows_of(fields.get("overheads"), (str,), 1):
            if numbers[0] >= 0.0 and len(self._overheads) < _SIZES_MAX:
                self._overheads[ModelName(str(model))] = time_of(numbers[0])


def _blend(mean_ns: float | None, value_ns: float) -> float:
    """The mean, moved a little; by no more than if the value were thrice as much."""
    if mean_ns is None:
        return value_ns
    limit_ns = _CLIP_FACTOR * mean_ns + 1e5
    return mean_ns + _WEIGHT * (min(value_ns, limit_ns) - mean_ns)


def _middle(middle_ns: float | None, value_ns: float) -> float:
    """The median, moved a little towards a value.

    An overhead is short, or some milliseconds where the message waited for a core that computes;
    the mean of the two is neither.
    """
    if middle_ns is None:
        return value_ns
    ratio = (value_ns + _MIDDLE_FLOOR_NS) / (middle_ns + _MIDDLE_FLOOR_NS)
    step = _WEIGHT * min(max(log(ratio), -_MIDDLE_REACH), _MIDDLE_REACH)
    return max(0.0, (middle_ns + _MIDDLE_FLOOR_NS) * exp(step) - _MIDDLE_FLOOR_NS)
