"""What a model of execution times is shown, and what it must answer.

A scene is a batch about to start and those that run beside it on the device. Predictors differ in
what they make of it; everything else (what runs, solo times, overheads, bounds, queues) they share.
"""

from typing import NamedTuple, Protocol

from headway.core import Run

__all__ = ["Ended", "ExecutionModel", "Neighbour", "Overlap", "Scene"]


class Neighbour(NamedTuple):
    """A batch that runs on the same device."""

    run: Run
    base_ns: float
    """Its execution alone."""
    left_ns: float
    """What is expected to remain of it as things stand, neighbours included."""


class Scene(NamedTuple):
    """A batch about to start, or that runs and is looked at again."""

    run: Run
    base_ns: float
    """Its execution alone on the device; at least 1."""
    neighbours: tuple[Neighbour, ...]
    slot_lanes: tuple[int, ...]
    """The device's lanes by slot."""
    waiting_count: int
    """Requests that wait in the whole server."""
    now_ns: int


class Overlap(NamedTuple):
    """Some batch that ran beside one that has ended."""

    run: Run
    ratio: float
    """Part of the ended batch's execution, 0 to 1."""


class Ended(NamedTuple):
    """An execution, seen from its end."""

    scene: Scene
    """As it was at the start."""
    execution_ns: int
    overlaps: tuple[Overlap, ...]
    """Everyone that ran beside it, those that started later included."""
    predicted_ns: float
    """What this model said at the start."""


class ExecutionModel(Protocol):
    """How long a batch executes beside its neighbours.

    The caller clamps: what is not finite or below the solo floor is taken for the floor.
    """

    name: str

    def execution_ns(self, scene: Scene) -> float:
        """Expected execution of the scene's batch. Changes nothing."""

    def learn(self, ended: Ended) -> None:
        """An execution ended; those of one device come in the order of their ends."""

    def state(self) -> dict[str, object]:
        """All that was learnt, as plain JSON values."""

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave; what does not fit is ignored."""
