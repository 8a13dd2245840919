"""The kernel's dealings with its predictor: it is told every start and end, and asked.

Translates the kernel's objects into what predictors are shown. Decides nothing.
"""

from collections.abc import Iterator
from itertools import islice

from headway.core.events import BatchFinished
from headway.core.fleet import Batch
from headway.core.forecast import Forecast, Run, Stages
from headway.core.names import ModelName
from headway.core.params import ModelParams
from headway.core.ports import Predictor
from headway.core.request import Request
from headway.core.room import WaitingRoom
from headway.core.waiting import Entry

__all__ = ["Foresight"]


class _Ahead:
    """The front of the line, as `QueueView` asks for it."""

    __slots__ = ("_room", "count")

    def __init__(self, room: WaitingRoom, count: int) -> None:
        self._room = room
        self.count = count

    def requests(self) -> Iterator[Request]:
        return (entry.request for entry in islice(self._room.line.entries(), self.count))

    def params(self, model: ModelName) -> ModelParams | None:
        queue = self._room.queues.get(model)
        return None if queue is None else queue.params


class Foresight:
    """What the predictor is told of, as it happens."""

    __slots__ = ("_predictor", "_room")

    def __init__(self, predictor: Predictor, room: WaitingRoom) -> None:
        self._predictor = predictor
        self._room = room

    def estimate(self, request: Request, key: tuple[int, ...], now_ns: int) -> Forecast:
        """What a request with this key in the order of service would take. Changes nothing."""
        return self._predictor.foresee(request, self._ahead(key), now_ns)

    def admit(self, request: Request, key: tuple[int, ...], now_ns: int) -> Forecast:
        """A request is let in and does not wait yet; what is foreseen of it."""
        return self._predictor.admitted(request, self._ahead(key), now_ns)

    def _ahead(self, key: tuple[int, ...]) -> _Ahead:
        return _Ahead(self._room, self._room.line.count_before(key))

    def start(self, batch: Batch, now_ns: int) -> Forecast:
        """A batch has its slot, and its members have left the line."""
        members = batch.members
        request = members[0].request
        slot_lanes = batch.replica.device.slot_lanes
        run = Run(
            batch_id=batch.batch_id,
            model=batch.model,
            bucket=request.bucket,
            rows=batch.rows,
            payload_bytes=_payload_bytes(batch),
            device=batch.replica.device.name,
            slot=batch.slot,
            lane=slot_lanes[batch.slot],
            slot_class=batch.told_class,
            priority=batch.priority,
        )
        return self._predictor.started(run, _Ahead(self._room, self._room.count), now_ns)

    def finish(self, batch: Batch, event: BatchFinished, now_ns: int) -> None:
        """A batch has run."""
        stages = Stages(
            service_ns=now_ns - batch.started_at_ns,
            transfer_in_ns=event.transfer_in_ns,
            execution_ns=event.execution_ns,
            transfer_out_ns=event.transfer_out_ns,
        )
        self._predictor.finished(batch.batch_id, stages, now_ns)

    def drop(self, batch: Batch, now_ns: int) -> None:
        """A batch failed or was lost."""
        self._predictor.dropped(batch.batch_id, now_ns)

    def answer(self, entry: Entry, now_ns: int) -> None:
        """A request is being answered."""
        self._predictor.answered(entry.request, entry.foreseen, now_ns)


def _payload_bytes(batch: Batch) -> int:
    """Of its rows: a segment brings its part of its request's."""
    payload_bytes = sum([entry.request.payload_bytes for entry in batch.members])
    if batch.is_segment:
        payload_bytes = payload_bytes * batch.rows // batch.members[0].request.rows
    return payload_bytes
