"""The scheduler as a pure state machine: `handle(event, now_ns) -> list[Command]`.

Knows requests, queues, slots and a policy's five decisions. Never a clock, a loop, a tensor or a
socket: drivers tell it what happened and when, and carry out what it says. The same object runs
under asyncio and in the simulator, and the same events give the same commands in both.

The life of a request here: `_arrive` refuses or queues it; `_dispatch` forms a batch when a slot
is free and the policy agrees; `_finish` answers its rows. Its deadline ends it wherever it is
(`_expire`), as does its client (`_cancel`). What ended early inside a running batch keeps its
place in it, so that every other row still goes to its own caller.
"""

from typing import NamedTuple, assert_never

from headway.core.commands import (
    Cancel,
    CancelBatch,
    Command,
    Complete,
    Dispatch,
    Expire,
    Fail,
    Reject,
    SetTimer,
)
from headway.core.door import Door
from headway.core.events import (
    BatchFailed,
    BatchFinished,
    DrainStarted,
    Event,
    ModelEvent,
    ModelLoadRequested,
    ModelUnloadRequested,
    PredictorTrained,
    ReplicaLoaded,
    ReplicaLoadFailed,
    ReplicasLost,
    ReplicaStopped,
    ReplicaWarmed,
    RequestArrived,
    RequestCancelled,
    TimerFired,
)
from headway.core.fleet import Batch, Fleet
from headway.core.forecast import Forecast
from headway.core.foresight import Foresight
from headway.core.hang import HangWatch
from headway.core.ledger import Ledger
from headway.core.lifecycle import Lifecycle, members_alive
from headway.core.names import BatchId, ModelName, RequestId
from headway.core.params import KernelParams, ModelParams
from headway.core.ports import Policy, SlotOption
from headway.core.request import (
    ExpireReason,
    RejectReason,
    Request,
    RequestStep,
    SlotClass,
)
from headway.core.room import WaitingRoom
from headway.core.timers import TimerQueue
from headway.core.waiting import Bucket, Entry, HangCheck, ModelQueue, TimerItem

__all__ = ["Estimate", "Kernel"]

_BARREN_MAX = 16
"""Then one is started all the same: a floor measured too high must be able to come down."""


class Estimate(NamedTuple):
    """What would become of a request."""

    reason: RejectReason | None
    """Why it would be refused; None where it would be let in."""
    retry_after_ns: int
    foreseen: Forecast
    """What it would take; all 0 while nothing is known of its model."""


class Kernel:
    """All decisions of one engine.

    Invariants: arrived = waiting + running + ended; one outcome a request; no limit exceeded; a
    slot holds one batch; no free slot while due work could use it, unless the policy holds it.
    Cost: O(log n) in waiting requests, O(m) in models with due work when a slot frees.
    """

    def __init__(self, params: KernelParams, policy: Policy) -> None:
        self.params = params
        self.policy = policy
        self.fleet = Fleet(params.devices)
        self.room = WaitingRoom(params)
        self.queues = self.room.queues
        self.timers: TimerQueue[TimerItem] = TimerQueue()
        self.ledger = Ledger(self.room, self.timers)
        self.foresight = Foresight(policy.predictor, self.room)
        self.lifecycle = Lifecycle(params, self.fleet, self.timers)
        self._hangs = HangWatch(self.fleet, self.timers)
        self.door = Door(params, policy, self.room, self.fleet, self.lifecycle)
        self.now_ns = 0
        self.armed_at_ns: int | None = None
        """The instant of the last `SetTimer`, until it fires."""
        self._batch_seq = 0

    def handle(self, event: Event, now_ns: int) -> list[Command]:
        """Take one fact, change state, say what to do.

        Raises:
            InternalError: a bug in the kernel or a driver; the engine must stop.
        """
        assert now_ns >= self.now_ns, f"time went back from {self.now_ns} to {now_ns}"
        self.now_ns = now_ns
        out: list[Command] = []
        match event:
            case RequestArrived():
                self._arrive(event.request, out)
            case BatchFinished():
                self._finish(event, out)
            case TimerFired():
                self._wake(out)
            case RequestCancelled():
                self._cancel(event.request_id, out)
            case BatchFailed():
                self._fail_batch(event, out)
            case PredictorTrained():
                self.policy.predictor.install(event.count)
            case _:
                self._change_models(event, out)
        self._rearm(out)
        return out

    def estimate(self, request: Request, now_ns: int) -> Estimate:
        """What would become of a request that arrived now. Changes nothing."""
        verdict = self.door.judge(request, now_ns)
        key = self._key_of(request, self.ledger.arrived_count + 1)
        foreseen = self.foresight.estimate(request, key, now_ns)
        return Estimate(verdict.reason, verdict.retry_after_ns, foreseen)

    def _key_of(self, request: Request, arrival: int) -> tuple[int, ...]:
        """Its place in the order of service: behind its equals, which came before it."""
        return (*self.policy.ordering.key(request), arrival)

    def _arrive(self, request: Request, out: list[Command]) -> None:
        self.ledger.arrive(request)
        reason, retry_after_ns, victims = self.door.judge(request, self.now_ns)
        if reason is not None:
            self._reject(request, reason, retry_after_ns, out)
            return
        for victim in victims:
            self._displace(victim, out)
        self._admit(request, self.queues[request.model], out)

    def _reject(
        self, request: Request, reason: RejectReason, retry_after_ns: int, out: list[Command]
    ) -> None:
        self.ledger.refuse()
        out.append(
            Reject(request_id=request.request_id, reason=reason, retry_after_ns=retry_after_ns)
        )

    def _displace(self, entry: Entry, out: list[Command]) -> None:
        """Refuse a waiting request after all, for the sake of a more important one."""
        request = entry.request
        retry_after_ns = self.door.retry_after_ns(self.queues[request.model])
        self.ledger.end(entry, RequestStep.DISPLACE)
        out.append(
            Reject(
                request_id=request.request_id,
                reason=RejectReason.DISPLACED,
                retry_after_ns=retry_after_ns,
            )
        )

    def _admit(self, request: Request, queue: ModelQueue, out: list[Command]) -> None:
        key = self._key_of(request, self.ledger.arrived_count)
        foreseen = self.foresight.admit(request, key, self.now_ns)
        bucket = self.ledger.admit(request, key, foreseen, queue)
        if not bucket.is_due:
            self._consider(bucket, queue)
        if bucket.is_due and self.fleet.free_slots:
            self._dispatch(out)

    def _consider(self, bucket: Bucket, queue: ModelQueue) -> None:
        """Mark a bucket due, or set the instant at which it will be."""
        due_at_ns = self.policy.batching.due_at_ns(bucket, queue.params)
        if bucket.linger is not None:
            self.timers.cancel(bucket.linger)
            bucket.linger = None
        if due_at_ns <= self.now_ns:
            queue.mark_due(bucket)
        else:
            bucket.linger = self.timers.push(due_at_ns, bucket)

    def _dispatch(self, out: list[Command]) -> None:
        """Start batches until no free slot can be used. Never recurses."""
        while self.fleet.free_slots and self._dispatch_one(out):
            pass

    def _dispatch_one(self, out: list[Command]) -> bool:
        is_served = self.fleet.is_served
        queues = [q for q in self.queues.values() if q.count and is_served(q.params.name)]
        heads = [head for queue in queues if (head := queue.due_head()) is not None]
        if not heads:
            return False
        _, first = heads[0] if len(heads) == 1 else min(heads)
        if self._try_start(first, out):
            return True
        rest = sorted(pair for queue in queues for pair in queue.due_buckets())
        return any(self._try_start(bucket, out) for _, bucket in rest if bucket is not first)

    def _try_start(self, bucket: Bucket, out: list[Command]) -> bool:
        """Start the bucket's batch; True when something changed, be it only an expiry."""
        queue = bucket.model
        options = self.fleet.options(queue.params.name, bucket.version)
        head = bucket.head()
        if not options or head is None:
            return False
        choice = self.policy.placement.place(head.request, options, self.now_ns)
        if choice is None:
            return False
        entries = self._take(bucket, queue, out)
        if entries:
            self._start(entries, queue, choice, out)
        if bucket.count:
            bucket.is_due = False
            self._consider(bucket, queue)
        # Only now: while members are taken their replica has nothing to keep it loaded.
        self.lifecycle.settle(self.queues, out)
        return True

    def _take(self, bucket: Bucket, queue: ModelQueue, out: list[Command]) -> list[Entry]:
        """Pop the batch's members in order of service; those who cannot make it are expired.

        The batch ends before a member that would make it too slow for itself or for another.
        """
        rows_max = self.policy.batching.rows_max(bucket, queue.params)
        floor_ns = self.policy.predictor.floor_ns
        taken: list[Entry] = []
        rows = 0
        tightest_ns = 0
        while (entry := bucket.head()) is not None:
            request = entry.request
            left_ns = request.deadline_at_ns - self.now_ns
            if left_ns <= 0:
                self._expire(entry, ExpireReason.DEADLINE_PAST, out)
                continue
            if left_ns <= floor_ns(request.model, request.rows) and (
                taken or queue.barren_count < _BARREN_MAX
            ):
                self._expire(entry, ExpireReason.HOPELESS, out)
                continue
            grown = rows + request.rows
            tightest_ns = min(tightest_ns, left_ns) if taken else left_ns
            if taken and (grown > rows_max or tightest_ns <= floor_ns(request.model, grown)):
                break
            self.ledger.dispatch(entry)
            taken.append(entry)
            rows = grown
            if rows >= rows_max:
                break
        queue.barren_count = 0 if taken else queue.barren_count + 1
        return taken

    def _start(
        self, entries: list[Entry], queue: ModelQueue, choice: SlotOption, out: list[Command]
    ) -> None:
        self._batch_seq += 1
        replica = self.fleet.replicas[choice.replica_id]
        batch = Batch(BatchId(self._batch_seq), queue.params.name, replica, choice.slot)
        is_low = self.policy.class_slots
        for entry in entries:
            batch.add(entry)
            is_low = is_low and entry.request.slot_class is SlotClass.LOW
        if is_low:
            batch.slot_class = SlotClass.LOW
        self.fleet.start(batch, self.now_ns)
        forecast = self.foresight.start(batch, self.now_ns)
        batch.hung_at_ns = self.now_ns + queue.params.batch_ns_max
        self._hangs.watch(batch.hung_at_ns)
        out.append(
            Dispatch(
                batch_id=batch.batch_id,
                replica_id=choice.replica_id,
                model=queue.params.name,
                device=choice.device,
                slot=choice.slot,
                slot_class=batch.slot_class,
                rows=batch.rows,
                request_ids=tuple([e.request.request_id for e in entries]),
                expected_ns=forecast.mean_ns,
                bound_ns=forecast.bound_ns,
            )
        )

    def _finish(self, event: BatchFinished, out: list[Command]) -> None:
        batch = self.fleet.find_batch(event.batch_id)
        if batch is None:
            return
        service_ns = self.now_ns - batch.started_at_ns
        for entry in batch.members:
            if entry.batch is batch:
                self.foresight.answer(entry, self.now_ns)
                self.ledger.end(entry, RequestStep.COMPLETE)
                out.append(
                    Complete(
                        request_id=entry.request.request_id,
                        batch_id=batch.batch_id,
                        batch_rows=batch.rows,
                        queue_delay_ns=batch.started_at_ns - entry.request.arrived_at_ns,
                        service_ns=service_ns,
                        foreseen=entry.foreseen,
                    )
                )
        self.foresight.finish(batch, event, self.now_ns)
        batch.replica.loss_count = 0
        self._free(batch, out)

    def _fail_batch(self, event: BatchFailed, out: list[Command]) -> None:
        batch = self.fleet.find_batch(event.batch_id)
        if batch is not None:
            for entry in members_alive(batch):
                self._fail(entry, event.code, event.message, out)
            self.foresight.drop(batch, self.now_ns)
            self._free(batch, out)

    def _fail(self, entry: Entry, code: str, message: str, out: list[Command]) -> None:
        stage = self.ledger.end(entry, RequestStep.FAIL)
        out.append(
            Fail(request_id=entry.request.request_id, stage=stage, code=code, message=message)
        )

    def _free(self, batch: Batch, out: list[Command]) -> None:
        """Give the slot back and use it."""
        self.fleet.finish(batch)
        self.lifecycle.settle(self.queues, out)
        if self.room.count:
            self._dispatch(out)

    def _cancel(self, request_id: RequestId, out: list[Command]) -> None:
        entry = self.ledger.live.get(request_id)
        if entry is None:
            return
        batch = entry.batch
        stage = self.ledger.end(entry, RequestStep.CANCEL)
        out.append(Cancel(request_id=request_id, stage=stage))
        self._after_early_end(batch, out)

    def _expire(self, entry: Entry, reason: ExpireReason, out: list[Command]) -> None:
        """End it; the caller settles what that leaves behind."""
        stage = self.ledger.end(entry, RequestStep.EXPIRE)
        out.append(
            Expire(
                request_id=entry.request.request_id,
                stage=stage,
                reason=reason,
                foreseen=entry.foreseen,
            )
        )

    def _after_early_end(self, batch: Batch | None, out: list[Command]) -> None:
        if batch is not None and batch.live_count == 0:
            out.append(CancelBatch(batch_id=batch.batch_id))
        elif batch is None:
            self.lifecycle.settle(self.queues, out)

    def _wake(self, out: list[Command]) -> None:
        """Carry out every timer that is due, then start what that made startable."""
        self.armed_at_ns = None
        while (item := self.timers.pop_due(self.now_ns)) is not None:
            if isinstance(item, Entry):
                item.expiry = None
                batch = item.batch
                self._expire(item, ExpireReason.DEADLINE_PAST, out)
                self._after_early_end(batch, out)
            elif isinstance(item, Bucket):
                item.linger = None
                if item.count and not item.is_due:
                    item.model.mark_due(item)
            elif isinstance(item, HangCheck):
                self._hangs.check(self.now_ns, out)
            else:
                self.lifecycle.restart(item, out)
        if self.room.count and self.fleet.free_slots:
            self._dispatch(out)

    def _change_models(self, event: ModelEvent, out: list[Command]) -> None:
        match event:
            case ModelLoadRequested():
                self.lifecycle.load(event.model, out)
                if event.model.name not in self.queues:
                    self.queues[event.model.name] = ModelQueue(event.model)
            case ModelUnloadRequested():
                self._unload(event.model, out)
            case ReplicaLoaded():
                self.lifecycle.loaded(event)
            case ReplicaWarmed():
                self._adopt(self.lifecycle.warmed(event.replica_id, out))
            case ReplicaLoadFailed():
                failed = self.lifecycle.load_failed(
                    event.replica_id, event.message, self.now_ns, out
                )
                self._abandon_model(failed, event.message, out)
            case ReplicaStopped():
                self.lifecycle.stopped(event.replica_id)
            case ReplicasLost():
                self._lose(event, out)
            case DrainStarted():
                self.door.is_draining = True
            case _:
                assert_never(event)
        self._fail_stranded(out)
        self.lifecycle.settle(self.queues, out)
        if self.room.count:
            self._dispatch(out)

    def _adopt(self, params: ModelParams | None) -> None:
        """The new load's settings hold from now on, also for what waits already."""
        if params is not None:
            queue = self.queues[params.name]
            queue.params = params
            for bucket in queue.buckets.values():
                if not bucket.is_due:
                    self._consider(bucket, queue)

    def _unload(self, model: ModelName, out: list[Command]) -> None:
        queue = self.queues.get(model)
        if queue is None:
            return
        self.lifecycle.unload(queue, out)
        if not self.lifecycle.has_hope(model):
            self._fail_waiting(queue, "model_not_found", "the model was unloaded", out)

    def _abandon_model(self, model: ModelName | None, message: str, out: list[Command]) -> None:
        """A model with nothing left to serve it answers whoever waits, and is forgotten."""
        if model is None:
            return
        self._fail_waiting(self.queues[model], "load_failed", message, out)
        if not self.lifecycle.is_closing(model):
            del self.queues[model]

    def _fail_waiting(self, queue: ModelQueue, code: str, message: str, out: list[Command]) -> None:
        for bucket in list(queue.buckets.values()):
            self._fail_bucket(bucket, code, message, out)

    def _fail_bucket(self, bucket: Bucket, code: str, message: str, out: list[Command]) -> None:
        while (entry := bucket.head()) is not None:
            self._fail(entry, code, message, out)

    def _fail_stranded(self, out: list[Command]) -> None:
        """Whoever waits for a version that will never serve again is told at once."""
        for queue in self.queues.values():
            for bucket in [b for b in queue.buckets.values() if self.lifecycle.strands(b)]:
                message = f"version `{bucket.version}` is no longer served"
                self._fail_bucket(bucket, "model_not_found", message, out)

    def _lose(self, event: ReplicasLost, out: list[Command]) -> None:
        batches, hopeless = self.lifecycle.lose(event.replica_ids, event.message, self.now_ns, out)
        for batch in batches:
            for entry in members_alive(batch):
                self._fail(entry, "worker_lost", event.message, out)
            self.foresight.drop(batch, self.now_ns)
            self.fleet.finish(batch)
        for model in hopeless:
            self._abandon_model(model, event.message, out)

    def _rearm(self, out: list[Command]) -> None:
        """Ask for a wake-up only when the earliest instant moved forward."""
        head_at_ns = self.timers.head_at_ns()
        if head_at_ns is None:
            return
        armed_at_ns = self.armed_at_ns
        if armed_at_ns is None or head_at_ns < armed_at_ns:
            self.armed_at_ns = head_at_ns
            out.append(SetTimer(at_ns=head_at_ns))
