"""What every predictor is asked about a device, whatever it makes of it.

`Shell` asks `Executions`; `headway` answers by rolling the device forward, any `ExecutionModel` by
being shown a scene of each batch.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headway.predict.book import Device, Running, Stay
from headway.predict.outlook import Backlog, Piece
from headway.predict.scene import Neighbour, Scene

__all__ = ["Executions", "Look", "Moment", "Passage", "scene_of"]


class Moment(NamedTuple):
    """A device at an instant."""

    device: Device
    candidate: Running | None
    """A batch that would start now."""
    backlog: Backlog
    """What waits for the device."""
    waiting_count: int
    """Requests that wait in the whole server."""
    now_ns: int
    is_closed: bool = False
    """Nothing that waits or may yet arrive counts: what runs and the candidate are all."""


class Look(NamedTuple):
    """What is expected of one batch."""

    execution_ns: float
    """What is left of its execution, neighbours included."""
    slowdown: float
    """By shares alone, before anything learnt was applied; at least 1."""


class Passage(NamedTuple):
    """How a request gets through."""

    start_ns: float
    """Until its batch is dispatched."""
    execution_ns: float
    """From then on."""


class Executions(Protocol):
    """How long batches execute beside one another."""

    name: str

    def look(self, moment: Moment) -> Sequence[Look]:
        """Of the candidate, if there is one, then of each batch on the device in its order."""

    def passage(self, moment: Moment, last: Piece) -> Passage:
        """Of the candidate, were it to wait behind the whole backlog; `last` is its work."""

    def learn(self, stay: Stay, execution_ns: int) -> None:
        """A batch whose start was predicted has run."""

    def state(self) -> dict[str, object]:
        """All that was learnt, as plain JSON values."""

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave; what does not fit is ignored."""


def scene_of(moment: Moment, batch: Running, others: Sequence[Running]) -> Scene:
    """A batch among others, as a model is shown it."""
    device = moment.device
    neighbours = tuple(
        [Neighbour(o.run, o.base_ns, device.elapsed_left_ns(o, moment.now_ns)) for o in others]
    )
    return Scene(
        batch.run,
        max(batch.base_ns, 1.0),
        neighbours,
        device.slot_lanes,
        moment.waiting_count,
        moment.now_ns,
    )
