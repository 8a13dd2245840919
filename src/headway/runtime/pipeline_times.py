"""How long the steps of a pipeline take, learnt from its calls; and what a call still has ahead.

Knows durations by step. Refuses to know what runs now: that is the predictor's. What a step was
foreseen to take is taken where the server foresaw it, else what it took.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from headway.core import Forecast
from headway.runtime.pipeline_plan import Part

__all__ = ["Ahead", "PathTimes", "StepTimes"]

_WEIGHT: Final = 0.2
"""Of the newest call in a mean."""
_RECENT: Final = 16
"""Calls of which the shortest and the longest count."""
_SHAPES_MAX: Final = 64
"""Shapes of inputs that are told apart; of others only what is known of all is known."""

ShapesKey = tuple[tuple[int, ...], ...]


class StepTimes:
    """What a step took in earlier calls."""

    __slots__ = ("_services_ns", "_tooks_ns", "queue_ns", "service_ns")

    def __init__(self) -> None:
        self.queue_ns = 0.0
        """Until its first request had a slot, a running mean."""
        self.service_ns = 0.0
        """From there to the end of its last."""
        self._services_ns: deque[int] = deque(maxlen=_RECENT)
        self._tooks_ns: deque[int] = deque(maxlen=_RECENT)

    @property
    def is_known(self) -> bool:
        """It has run."""
        return bool(self._tooks_ns)

    @property
    def least_ns(self) -> int:
        """The shortest of late, without waiting; 0 while it is not known."""
        return min(self._services_ns, default=0)

    @property
    def most_ns(self) -> int:
        """The longest of late."""
        return max(self._tooks_ns, default=0)

    def learn(self, queue_ns: int, took_ns: int, foreseen: Forecast) -> None:
        """A step has ended.

        Args:
            queue_ns: of this, until it had a slot.
            took_ns: from being asked for to its end.
            foreseen: of its one request; unknown for several.
        """
        service_ns = took_ns - queue_ns
        is_first = not self._tooks_ns
        self._services_ns.append(service_ns)
        self._tooks_ns.append(took_ns)
        if foreseen.bound_ns:
            queue_ns, service_ns = foreseen.queue_ns, foreseen.mean_ns - foreseen.queue_ns
        weight = 1.0 if is_first else _WEIGHT
        self.queue_ns += weight * (queue_ns - self.queue_ns)
        self.service_ns += weight * (service_ns - self.service_ns)


class PathTimes:
    """What the steps of one pipeline take, by the shapes of the call's inputs."""

    def __init__(self) -> None:
        self._all: dict[str, StepTimes] = {}
        self._by_shapes: dict[ShapesKey, dict[str, StepTimes]] = {}

    def of(self, shapes: ShapesKey, part: Part) -> Mapping[str, StepTimes]:
        """Of calls of these shapes; where they are new, of all."""
        found = self.met(shapes)
        return found if found.keys() >= part.steps.keys() else self._all

    def met(self, shapes: ShapesKey) -> Mapping[str, StepTimes]:
        """Of the steps that ran for calls of these shapes."""
        return self._by_shapes.get(shapes, {})

    def knows(self, shapes: ShapesKey, part: Part) -> bool:
        """Whether all the steps have run for calls of these shapes."""
        return self.met(shapes).keys() >= part.steps.keys()

    def learn(
        self, shapes: ShapesKey, step: str, queue_ns: int, took_ns: int, foreseen: Forecast
    ) -> None:
        """A step of a call has ended; see `StepTimes.learn`."""
        times = self._by_shapes.get(shapes)
        if times is None:
            if len(self._by_shapes) >= _SHAPES_MAX:
                del self._by_shapes[next(iter(self._by_shapes))]
            times = self._by_shapes[shapes] = {}
        for each in (times, self._all):
            each.setdefault(step, StepTimes()).learn(queue_ns, took_ns, foreseen)


class Ahead:
    """What lies before each step of a call: along the longest path from it to the end.

    Args:
        part: the steps.
        times: what is known of them; a step that is not known is taken to be as long as those are.
        own: what is known of them for calls of the same shapes. Only that a call must allow for:
            what large inputs take at the least is no reason to give up a small one.
    """

    __slots__ = ("_mean_ns", "_takers", "least_after_ns", "path_ns")

    def __init__(
        self, part: Part, times: Mapping[str, StepTimes], own: Mapping[str, StepTimes]
    ) -> None:
        known = [
            times[name].queue_ns + times[name].service_ns
            for name in part.steps.keys() & times.keys()
        ]
        usual_ns = max(1.0, sum(known) / len(known)) if known else 1.0
        self._takers = part.takers
        self._mean_ns = {
            name: max(1.0, each.queue_ns + each.service_ns)
            if (each := times.get(name)) is not None
            else usual_ns
            for name in part.steps
        }
        self.path_ns = longest(part, self._mean_ns.__getitem__)
        """From the beginning of a step to the end of the call."""
        least = longest(part, lambda name: own[name].least_ns if name in own else 0)
        self.least_after_ns = {
            name: int(max((least[taker] for taker in part.takers[name]), default=0))
            for name in part.steps
        }
        """From the end of a step to the end of the call, at the best."""

    def share_ns(self, step: str, left_ns: int) -> int:
        """The step's part of what is left of the budget."""
        if not self._takers[step]:
            return left_ns  # what a float would round off
        return int(left_ns * (self._mean_ns[step] / self.path_ns[step]))


def longest(part: Part, length: Callable[[str], float]) -> dict[str, float]:
    """Of the paths from each step to the end, itself included, how long the longest is."""
    path: dict[str, float] = {}
    for name in reversed(part.steps):
        after = max((path[taker] for taker in part.takers[name]), default=0.0)
        path[name] = length(name) + after
    return path
