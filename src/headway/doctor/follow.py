"""Records become the course of a run, one after another.

Knows Records. They may begin in the middle of a run: what began before is then known only as far as
they tell of it. Memory is bounded: of a longer run the last batches and requests are kept.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    BucketKey,
    Complete,
    DeviceName,
    DeviceParams,
    Dispatch,
    Event,
    KeepSegment,
    LoadReplica,
    ModelLoadRequested,
    ModelName,
    Record,
    ReplicaId,
    ReplicaLoadFailed,
    ReplicasLost,
    ReplicaStopped,
    ReplicaWarmed,
    Request,
    RequestArrived,
    RequestId,
    UnloadReplica,
)
from headway.doctor.course import (
    BatchEnd,
    BatchPast,
    Course,
    DeviceUse,
    Loss,
    ReplicaPast,
    RequestPast,
)
from headway.observe import Outcome, cut_reasons, how_ended

__all__ = ["follow"]

_KEPT_MAX: Final = 200_000
"""Batches, and requests, that are kept: the last ones."""
_LOADS_MAX: Final = 10_000


class _Left(NamedTuple):
    """What of a model waited on when one of its batches started, and what kept it out."""

    rows: int = 0
    because: tuple[str, ...] = ()


class _Running:
    """A batch that has not ended, with what was seen at its start."""

    __slots__ = (
        "company_ns",
        "crowd_ns",
        "dispatch",
        "held_ns",
        "lane",
        "late",
        "left",
        "members",
        "order",
        "started_at_ns",
    )

    def __init__(self, dispatch: Dispatch, lane: int, members: list["_Live"], at_ns: int) -> None:
        self.dispatch = dispatch
        self.lane = lane
        self.members = members
        self.started_at_ns = at_ns
        self.company_ns = 0
        self.crowd_ns = 0
        self.held_ns = 0
        self.order: int | None = None
        self.left = _Left()
        self.late = 0


class _Live:
    """A request that has not ended."""

    __slots__ = ("batch_id", "is_waiting", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.is_waiting = True
        self.batch_id: BatchId | None = None


class _Fold:
    """Takes one record after another.

    Invariants: ``_rows`` holds, for each model and bucket, the rows of the live requests that wait,
    and no bucket with none.
    """

    def __init__(self, devices: Iterable[DeviceParams], rows_max: Mapping[ModelName, int]) -> None:
        named = {device.name: device for device in devices}
        self.course = Course(
            devices=named,
            batches=deque(maxlen=_KEPT_MAX),
            requests=deque(maxlen=_KEPT_MAX),
            replicas=[],
            losses=[],
            use={name: DeviceUse(slots=len(each.slot_lanes)) for name, each in named.items()},
            rows_max=dict(rows_max),
        )
        self._live: dict[RequestId, _Live] = {}
        self._rows: dict[ModelName, dict[BucketKey, int]] = {}
        self._lingers_ns: dict[ModelName, int] = {}
        self._running: dict[DeviceName, dict[BatchId, _Running]] = {name: {} for name in named}
        self._where: dict[BatchId, DeviceName] = {}
        self._free_since_ns: dict[DeviceName, int | None] = {}
        self._replicas: dict[ReplicaId, ReplicaPast] = {}
        self._orders: dict[ReplicaId, int] = {}
        self._models: dict[ReplicaId, ModelName] = {}
        self._now_ns: int | None = None
        self._asked_from_ns: int | None = None
        self._since_ns = {name: DeviceUse(slots=use.slots) for name, use in self.course.use.items()}
        """What slots did since the last arrival; it counts when there is another."""

    def step(self, record: Record) -> None:
        """One record."""
        if self._now_ns is None:
            self.course.from_ns = self._now_ns = record.now_ns
            self.course.is_whole = record.seq == 0
            self._free_since_ns = dict.fromkeys(self.course.devices, record.now_ns)
        self._pass(record.now_ns - self._now_ns)
        self._now_ns = self.course.to_ns = record.now_ns
        self._before(record.event)
        # Before the batches that it ends: only now is it known who was answered in time.
        for command in record.commands:
            if isinstance(command, Outcome):
                self._ended(command)
            elif isinstance(command, KeepSegment) and command.request_id in self._live:
                self._wait(self._live[command.request_id])
        self._after(record.event)
        for command in record.commands:
            if isinstance(command, Dispatch):
                self._start(command)
            elif isinstance(command, LoadReplica):
                self._load(command)
            elif isinstance(command, UnloadReplica) and command.replica_id in self._replicas:
                self._replicas[command.replica_id].leaves_at_ns = record.now_ns

    def _before(self, event: Event) -> None:
        """What an event says that is true before its commands."""
        match event:
            case RequestArrived():
                self._wait(_Live(event.request))
                self._ask()
            case ModelLoadRequested():
                model = event.model
                self.course.rows_max[model.name] = model.batch_rows_max if model.can_batch else 1
                self._lingers_ns[model.name] = model.linger_ns
            case ReplicaWarmed():
                self._warmed(event.replica_id)
            case ReplicaStopped() | ReplicaLoadFailed():
                self._stopped(event.replica_id)
            case _:
                pass

    def _after(self, event: Event) -> None:
        """What it ends, when it is known who of it was answered."""
        match event:
            case BatchFinished():
                self._end_batch(event.batch_id, BatchEnd.FINISHED, stages=event)
            case BatchFailed():
                self._end_batch(event.batch_id, BatchEnd.FAILED, error=event.code)
            case ReplicasLost():
                self._lost(event)
            case _:
                pass

    def _pass(self, passed_ns: int) -> None:
        """Time goes by over what runs and what is idle."""
        if passed_ns <= 0:
            return
        is_starved = not any(self._rows.values())
        for name, device in self.course.devices.items():
            running, use = self._running[name], self._since_ns[name]
            use.busy_ns += passed_ns * len(running)
            if is_starved:
                use.starved_ns += passed_ns * max(0, use.slots - len(running))
            lanes = Counter(batch.lane for batch in running.values())
            for batch in running.values():
                # Lanes divide nothing of a device that all its slots share.
                crowd = 0 if device.shares_all else lanes[batch.lane] - 1
                batch.crowd_ns += passed_ns * crowd
                batch.company_ns += passed_ns * (len(running) - 1 - crowd)

    # --- requests ---------------------------------------------------------------------------------

    def _ask(self) -> None:
        """One has arrived: what slots did up to now was done while requests came."""
        assert self._now_ns is not None
        is_first = self._asked_from_ns is None
        if self._asked_from_ns is None:
            self._asked_from_ns = self._now_ns
        self.course.asked_ns = self._now_ns - self._asked_from_ns
        for name, since in self._since_ns.items():
            if not is_first:
                self.course.use[name].busy_ns += since.busy_ns
                self.course.use[name].starved_ns += since.starved_ns
            since.busy_ns = since.starved_ns = 0

    def _wait(self, live: _Live) -> None:
        request = live.request
        live.is_waiting = True
        self._live[request.request_id] = live
        rows = self._rows.setdefault(request.model, {})
        rows[request.bucket] = rows.get(request.bucket, 0) + request.rows

    def _leave(self, live: _Live) -> None:
        """It no longer waits, if it did."""
        if not live.is_waiting:
            return
        live.is_waiting = False
        request, rows = live.request, self._rows[live.request.model]
        rows[request.bucket] -= request.rows
        if rows[request.bucket] <= 0:
            del rows[request.bucket]

    def _ended(self, command: Outcome) -> None:
        live = self._live.pop(command.request_id, None)
        if live is None:
            return
        self._leave(live)
        assert self._now_ns is not None
        end, reason = how_ended(command)
        past = RequestPast(
            request=live.request,
            ended_at_ns=self._now_ns,
            end=end,
            reason=reason,
            queue_delay_ns=command.queue_delay_ns if isinstance(command, Complete) else None,
            batch_id=live.batch_id,
        )
        self.course.requests.append(past)
        if past.is_violation and live.batch_id is not None:
            device = self._where.get(live.batch_id)
            if device is not None:
                self._running[device][live.batch_id].late += 1

    # --- batches ----------------------------------------------------------------------------------

    def _start(self, dispatch: Dispatch) -> None:
        members = [self._live[i] for i in dispatch.request_ids if i in self._live]
        for live in members:
            self._leave(live)
            live.batch_id = dispatch.batch_id
        device = self.course.devices.get(dispatch.device)
        if device is None or dispatch.slot >= len(device.slot_lanes):
            return
        assert self._now_ns is not None
        batch = _Running(dispatch, device.slot_lanes[dispatch.slot], members, self._now_ns)
        batch.held_ns = self._held_ns(dispatch, members)
        batch.order = self._next_order(dispatch.replica_id)
        batch.left = self._left(dispatch, members)
        self._models[dispatch.replica_id] = dispatch.model
        self._running[dispatch.device][dispatch.batch_id] = batch
        self._where[dispatch.batch_id] = dispatch.device
        if len(self._running[dispatch.device]) >= len(device.slot_lanes):
            self._free_since_ns[dispatch.device] = None

    def _held_ns(self, dispatch: Dispatch, members: list[_Live]) -> int:
        """Beyond what it was meant to linger, and only where it could have started."""
        free_since_ns = self._free_since_ns[dispatch.device]
        past = self._replicas.get(dispatch.replica_id)
        if free_since_ns is None or not members or (past and past.warmed_at_ns is None):
            return 0
        could_ns = max(free_since_ns, past.warmed_at_ns or 0 if past else 0)
        came_ns = min(live.request.arrived_at_ns for live in members)
        linger_ns = self._lingers_ns.get(dispatch.model, 0)
        assert self._now_ns is not None
        return max(0, self._now_ns - max(came_ns, could_ns) - linger_ns)

    def _next_order(self, replica_id: ReplicaId) -> int | None:
        order = self._orders.get(replica_id)
        if order is not None:
            self._orders[replica_id] = order + 1
        return order

    def _left(self, dispatch: Dispatch, members: list[_Live]) -> _Left:
        """What of its model waits on, and what kept it out."""
        waiting = self._rows.get(dispatch.model, {})
        if not waiting or not members or dispatch.is_segment:
            return _Left()
        because = cut_reasons(members[0].request.bucket, waiting)
        return _Left(sum(waiting.values()), tuple(sorted(because)))

    def _end_batch(
        self,
        batch_id: BatchId,
        end: BatchEnd,
        *,
        stages: BatchFinished | None = None,
        error: str = "",
    ) -> None:
        device = self._where.pop(batch_id, None)
        if device is None:
            return
        assert self._now_ns is not None
        batch = self._running[device].pop(batch_id)
        if self._free_since_ns[device] is None:
            self._free_since_ns[device] = self._now_ns
        dispatch = batch.dispatch
        lasted_ns = max(1, self._now_ns - batch.started_at_ns)
        members = [live.request for live in batch.members]
        self.course.batches.append(
            BatchPast(
                model=dispatch.model,
                device=device,
                slot_class=dispatch.slot_class,
                rows=dispatch.rows,
                payload_bytes=_part(dispatch, sum(each.payload_bytes for each in members), members),
                padding_bytes=_part(dispatch, sum(each.padding_bytes for each in members), members),
                started_at_ns=batch.started_at_ns,
                ended_at_ns=self._now_ns,
                end=end,
                error=error,
                transfer_in_ns=stages.transfer_in_ns if stages else 0,
                execution_ns=stages.execution_ns if stages else 0,
                transfer_out_ns=stages.transfer_out_ns if stages else 0,
                expected_ns=dispatch.expected_ns,
                bound_ns=dispatch.bound_ns,
                company=batch.company_ns / lasted_ns,
                crowd=batch.crowd_ns / lasted_ns,
                left_rows=batch.left.rows,
                left_because=batch.left.because,
                held_ns=batch.held_ns,
                order=batch.order,
                late=batch.late,
            )
        )

    # --- replicas ---------------------------------------------------------------------------------

    def _load(self, command: LoadReplica) -> None:
        assert self._now_ns is not None
        past = ReplicaPast(
            replica_id=command.replica_id, model=command.model, asked_at_ns=self._now_ns
        )
        self._replicas[command.replica_id] = past
        self._models[command.replica_id] = command.model
        if len(self.course.replicas) < _LOADS_MAX:
            self.course.replicas.append(past)

    def _warmed(self, replica_id: ReplicaId) -> None:
        self._orders[replica_id] = 0
        past = self._replicas.get(replica_id)
        if past is not None:
            past.warmed_at_ns = self._now_ns

    def _stopped(self, replica_id: ReplicaId) -> None:
        past = self._replicas.pop(replica_id, None)
        self._orders.pop(replica_id, None)
        if past is not None:
            past.stopped_at_ns = self._now_ns

    def _lost(self, event: ReplicasLost) -> None:
        lost = set(event.replica_ids)
        for device in self._running:
            for batch_id, batch in list(self._running[device].items()):
                if batch.dispatch.replica_id in lost:
                    self._end_batch(batch_id, BatchEnd.LOST)
        assert self._now_ns is not None
        models = {self._models[each] for each in lost if each in self._models}
        if len(self.course.losses) < _LOADS_MAX:
            self.course.losses.append(
                Loss(at_ns=self._now_ns, models=tuple(sorted(models)), message=event.message)
            )
        for replica_id in lost:
            self._stopped(replica_id)


def follow(
    records: Iterable[Record],
    devices: Iterable[DeviceParams],
    *,
    rows_max: Mapping[ModelName, int] | None = None,
) -> Course:
    """The course of a run.

    Args:
        records: as a journal has them, from any step on.
        devices: of the run, by the journal's header.
        rows_max: rows that a batch of a model may have, for models whose loads are not among the
            records.
    """
    fold = _Fold(devices, rows_max or {})
    for record in records:
        fold.step(record)
    return fold.course


def _part(dispatch: Dispatch, total: int, members: list[Request]) -> int:
    """Of its members' bytes those that were in it: a segment has some rows of its one request."""
    rows = sum(request.rows for request in members)
    return total * dispatch.rows // rows if dispatch.is_segment and rows else total
