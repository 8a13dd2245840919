"""A limit on what predicting may cost: so many looks a second, the rest repeat the last answer.

A forecast among neighbours takes as long as a small batch does. Where requests are few and long
that is nothing; where they are many and short it would be most of the work, for a prediction that
nobody can use. So looks are rationed, apart for short and for long work: what takes long is looked
at whatever the short does.

Knows another predictor, and instants. Refuses to know what a forecast is made of.
"""

from collections.abc import Hashable, Sequence
from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from headway.core import (
    UNKNOWN,
    BatchId,
    DeviceName,
    Forecast,
    ModelName,
    Predictor,
    QueueView,
    Request,
    Run,
    Stages,
)
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["Followed", "Thrifty"]

_LONG_NS: Final = 4 * NS_PER_MS
"""Expected service from which work is long."""
_BURST_RATIO: Final = 0.1
"""Of a second's looks that may be taken at once."""
_KINDS_MAX: Final = 4096

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _Ration:
    """Looks that may be taken: refilled by time, up to a burst."""

    __slots__ = ("_at_ns", "_left", "_max", "_per_ns")

    def __init__(self, looks_per_s: int) -> None:
        self._per_ns = looks_per_s / NS_PER_S
        self._max = max(1.0, looks_per_s * _BURST_RATIO)
        self._left = self._max
        self._at_ns = 0

    def take(self, now_ns: int) -> bool:
        """One look, if there is one."""
        left = min(self._max, self._left + (now_ns - self._at_ns) * self._per_ns)
        self._at_ns = now_ns
        is_granted = left >= 1.0
        self._left = left - 1.0 if is_granted else left
        return is_granted


class Followed(Predictor, Protocol):
    """A predictor that can be told of what it is not asked about."""

    def arrived(self, request: Request, now_ns: int) -> None:
        """A request is let in of which nothing is to be said."""

    def began(self, run: Run, now_ns: int) -> None:
        """A batch starts of which nothing is to be said."""

    def went(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """It has run."""


class Thrifty:
    """A predictor that looks no more often than it may.

    It is told of everything that arrives, starts and ends, so that what it looks at is seen among
    all its neighbours. What it does not look at repeats the last answer of the same kind, and is
    not learnt from, but for its being the fastest, which decides what is hopeless.

    Args:
        inner: what is asked.
        looks_per_s: looks a second at arrivals and starts, for short and for long work each.

    Invariants: at most `_KINDS_MAX` last answers are kept; `foresee` and `forecast` change nothing.
    """

    def __init__(self, inner: Followed, looks_per_s: int) -> None:
        self._inner = inner
        self._short = _Ration(looks_per_s)
        self._long = _Ration(looks_per_s)
        self._answers = _Ration(looks_per_s)
        self._said_of_starts: dict[Hashable, Forecast] = {}
        self._said_of_arrivals: dict[Hashable, Forecast] = {}
        self._unseen: dict[BatchId, Run] = {}
        """Batches that run and were not looked at."""
        self._floors: dict[tuple[ModelName, int], int] = {}
        """Of the unseen."""

    def service_ns(self, model: ModelName, rows: int) -> int:
        """As the inner predictor has it."""
        return self._inner.service_ns(model, rows)

    def solo_ns(self, model: ModelName, rows: int) -> int:
        """As the inner predictor has it."""
        return self._inner.solo_ns(model, rows)

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """The fastest service of this size, looked at or not; 0 before the first."""
        floor_ns = self._inner.floor_ns(model, rows)
        return min(floor_ns, self._floors.get((model, rows), floor_ns))

    def forecast(
        self, candidate: Run | None, device: DeviceName, queue: QueueView, now_ns: int
    ) -> Sequence[Forecast]:
        """As the inner predictor has it: whoever asks for this decides by it."""
        return self._inner.forecast(candidate, device, queue, now_ns)

    def beside(self, candidate: Run | None, device: DeviceName, now_ns: int) -> Sequence[Forecast]:
        """As the inner predictor has it."""
        return self._inner.beside(candidate, device, now_ns)

    def foresee(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """As the inner predictor has it."""
        return self._inner.foresee(request, queue, now_ns)

    def admitted(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """A look if one is left, else what was said last of such a request."""
        kind = (request.model, request.bucket, request.rows, request.priority, request.slot_class)
        said = self._said_of_arrivals.get(kind)
        if self._may_look(said, now_ns):
            said = self._inner.admitted(request, queue, now_ns)
            _keep(self._said_of_arrivals, kind, said)
            return said
        self._inner.arrived(request, now_ns)
        return said or UNKNOWN

    def started(self, run: Run, queue: QueueView, now_ns: int) -> Forecast:
        """A look if one is left, else what was said last of such a batch."""
        kind = (run.model, run.bucket, run.rows, run.slot_class)
        said = self._said_of_starts.get(kind)
        if self._may_look(said, now_ns):
            said = self._inner.started(run, queue, now_ns)
            _keep(self._said_of_starts, kind, said)
            return said
        self._unseen[run.batch_id] = run
        self._inner.began(run, now_ns)
        return replace(said or UNKNOWN, batch_id=run.batch_id)

    def finished(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """What was looked at is learnt from; of the others only how fast they were."""
        run = self._unseen.pop(batch_id, None)
        if run is None:
            self._inner.finished(batch_id, stages, now_ns)
            return
        self._inner.went(batch_id, stages, now_ns)
        key = (run.model, run.rows)
        if key in self._floors:
            self._floors[key] = min(self._floors[key], stages.service_ns)
        else:
            _keep(self._floors, key, stages.service_ns)

    def dropped(self, batch_id: BatchId, now_ns: int) -> None:
        """A batch failed or was lost."""
        self._unseen.pop(batch_id, None)
        self._inner.dropped(batch_id, now_ns)

    def answered(self, request: Request, foreseen: Forecast, now_ns: int) -> None:
        """Some are learnt from, repeated answers too: bounds are to hold for whatever was said."""
        if self._answers.take(now_ns):
            self._inner.answered(request, foreseen, now_ns)

    def install(self, count: int) -> None:
        """For the inner predictor."""
        self._inner.install(count)

    def state(self) -> dict[str, object]:
        """The inner predictor's."""
        return self._inner.state()

    def restore(self, state: object) -> bool:
        """For the inner predictor."""
        return self._inner.restore(state)

    def _may_look(self, said: Forecast | None, now_ns: int) -> bool:
        """Whether a look is left for work such as was said; of a new kind it may be long."""
        is_long = said is None or said.execution_ns + said.transfer_ns >= _LONG_NS
        return (self._long if is_long else self._short).take(now_ns)


def _keep(kept: dict[Key, Value], key: Key, value: Value) -> None:
    """Remember one more; the oldest kind goes where there are too many."""
    if key not in kept and len(kept) >= _KINDS_MAX:
        del kept[next(iter(kept))]
    kept[key] = value
