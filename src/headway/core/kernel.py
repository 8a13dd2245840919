"""The scheduler as a pure state machine: `handle(event, now_ns) -> list[Command]`.

Knows requests, queues, slots and a policy's five decisions. Never a clock, a loop, a tensor or a
socket: drivers tell it what happened and when, and carry out what it says. The same object runs
under asyncio and in the simulator, and the same events give the same commands in both.

The life of a request here: `_arrive` refuses or queues it; the `Dispatcher` forms a batch when a
slot is free and the policy agrees; `_finish` answers its rows, or lets the rest of them wait for
another batch. Its deadline ends it wherever it is, as does its client (`_cancel`). What ended early
inside a running batch keeps its place in it, so that every other row still goes to its own caller.
"""

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from headway.core.commands import CancelBatch, Command, KeepSegment, SetTimer
from headway.core.dispatcher import Dispatcher
from headway.core.door import Door
from headway.core.endings import Endings
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
from headway.core.names import ModelName, RequestId
from headway.core.params import KernelParams, ModelParams
from headway.core.ports import Aging, Policy
from headway.core.request import ExpireReason, RejectReason, Request
from headway.core.room import WaitingRoom
from headway.core.timers import TimerQueue
from headway.core.waiting import (
    Bucket,
    Entry,
    HangCheck,
    ModelQueue,
    Promotion,
    Recheck,
    TimerItem,
)

__all__ = ["Estimate", "Kernel"]


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
        self.fleet = Fleet(params.devices, has_classes=policy.class_slots)
        self.room = WaitingRoom(params)
        self.queues = self.room.queues
        self.timers: TimerQueue[TimerItem] = TimerQueue()
        self.ledger = Ledger(self.room, self.timers)
        self.foresight = Foresight(policy.predictor, self.room)
        self.lifecycle = Lifecycle(params, self.fleet, self.timers)
        self._hangs = HangWatch(self.fleet, self.timers)
        self._endings = Endings(self.ledger, policy.feedback)
        self.dispatcher = Dispatcher(
            policy,
            self.fleet,
            self.room,
            self._endings,
            self.foresight,
            self.lifecycle,
            self._hangs,
            self.timers,
        )
        self.door = Door(params, policy, self.room, self.fleet, self.lifecycle)
        self.now_ns = 0
        self.armed_at_ns: int | None = None
        """The instant of the last `SetTimer`, until it fires."""
        self.promoted: list[Request] = []
        """Whom the last `TimerFired` gave a better place to wait at; for observers of that step."""

    def handle(self, event: Event, now_ns: int) -> list[Command]:
        """Take one fact, change state, say what to do.

        Raises:
            InternalError: a bug in the kernel or a driver; the engine must stop.
        """
        assert now_ns >= self.now_ns, f"time went back from {self.now_ns} to {now_ns}"
        dispatcher = self.dispatcher
        self.now_ns = dispatcher.now_ns = now_ns
        dispatcher.has_asked = False
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
        reason, retry_after_ns, _ = self.door.judge(request, now_ns)
        key = self._key_of(request, self.ledger.arrived_count + 1)
        foreseen = self.foresight.estimate(request, key, now_ns)
        if reason is None:
            reason, retry_after_ns = self.door.ask_policy(request, foreseen, now_ns)
        return Estimate(reason, retry_after_ns, foreseen)

    def _key_of(self, request: Request, arrival: int) -> tuple[int, ...]:
        """Its place in the order of service: behind its equals, which came before it."""
        return (*self.policy.ordering.key(request), arrival)

    def _arrive(self, request: Request, out: list[Command]) -> None:
        self.ledger.arrive(request)
        reason, retry_after_ns, victims = self.door.judge(request, self.now_ns)
        if reason is None:
            key = self._key_of(request, self.ledger.arrived_count)
            foreseen = self.foresight.admit(request, key, self.now_ns)
            reason, retry_after_ns = self.door.ask_policy(request, foreseen, self.now_ns)
            if reason is None:
                if victims:
                    self._displace(victims, out)
                    # Anew: those who went for its sake may have moved the policy's accounts.
                    key = self._key_of(request, self.ledger.arrived_count)
                self._admit(request, key, foreseen, out)
                if victims:
                    self.dispatcher.dispatch(out)
                return
        self._endings.refuse(request, reason, retry_after_ns, self.now_ns, out)

    def _displace(self, victims: Iterable[Entry], out: list[Command]) -> None:
        for entry in victims:
            retry_after_ns = self.door.retry_after_ns(self.queues[entry.request.model])
            self._endings.displace(entry, retry_after_ns, self.now_ns, out)
        self.lifecycle.settle(self.queues, out)

    def _admit(
        self, request: Request, key: tuple[int, ...], foreseen: Forecast, out: list[Command]
    ) -> None:
        queue, policy = self.queues[request.model], self.policy
        bucket = self.ledger.admit(request, key, foreseen, queue)
        if policy.feedback is not None:
            policy.feedback.admitted(request, self.now_ns)
        if policy.aging is not None:
            self._let_age(self.ledger.live[request.request_id], policy.aging)
        if not bucket.is_due:
            self.dispatcher.consider(bucket, queue)
        if self.fleet.free_slots and bucket.is_due:
            self.dispatcher.offer(bucket, out)

    def _let_age(self, entry: Entry, aging: Aging) -> None:
        promotes_at_ns = aging.promotes_at_ns(entry.request)
        if promotes_at_ns is not None and promotes_at_ns < entry.expires_at_ns:
            at_ns = max(self.now_ns, promotes_at_ns)
            entry.aging = self.timers.push(at_ns, Promotion(entry))

    def _finish(self, event: BatchFinished, out: list[Command]) -> None:
        batch = self.fleet.find_batch(event.batch_id)
        if batch is None:
            return
        service_ns = self.now_ns - batch.started_at_ns
        self._charge(batch, service_ns)
        for entry in batch.members:
            if entry.batch is not batch:
                continue
            entry.service_ns += service_ns
            if entry.is_away:
                self._keep_segment(entry, batch, out)
                continue
            self.foresight.answer(entry, self.now_ns)
            self._endings.complete(entry, batch, self.now_ns, out)
        self.foresight.finish(batch, event, self.now_ns)
        batch.replica.loss_count = 0
        self._free(batch, out)

    def _charge(self, batch: Batch, service_ns: int) -> None:
        """Tell the policy whose rows a slot was held for."""
        feedback = self.policy.feedback
        if feedback is not None:
            rows = told_ns = 0
            for entry in batch.members:
                rows += batch.rows_of(entry)
                upto_ns = service_ns * rows // batch.rows  # so that the parts make up the whole
                feedback.ran(entry.request, upto_ns - told_ns, self.now_ns)
                told_ns = upto_ns

    def _keep_segment(self, entry: Entry, batch: Batch, out: list[Command]) -> None:
        """The rest of a request waits again at its old place.

        Its model is there still: while requests are away or wait, no unload goes on.
        """
        batch.live_count -= 1
        entry.rows_done += batch.rows
        out.append(KeepSegment(request_id=entry.request.request_id, batch_id=batch.batch_id))
        bucket = self.ledger.take_back(entry, batch.queue)
        if not bucket.is_due:
            self.dispatcher.consider(bucket, batch.queue)

    def _fail_batch(self, event: BatchFailed, out: list[Command]) -> None:
        batch = self.fleet.find_batch(event.batch_id)
        if batch is not None:
            self._charge(batch, self.now_ns - batch.started_at_ns)
            for entry in members_alive(batch):
                self._fail(entry, event.code, event.message, out)
            self.foresight.drop(batch, self.now_ns)
            self._free(batch, out)

    def _fail(self, entry: Entry, code: str, message: str, out: list[Command]) -> None:
        self._endings.fail(entry, code, message, self.now_ns, out)

    def _free(self, batch: Batch, out: list[Command]) -> None:
        """Give the slot back and use it."""
        self.fleet.finish(batch)
        self.lifecycle.settle(self.queues, out)
        if self.room.count:
            self.dispatcher.dispatch(out)

    def _cancel(self, request_id: RequestId, out: list[Command]) -> None:
        entry = self.ledger.live.get(request_id)
        if entry is None:
            return
        batch = entry.batch
        self._endings.cancel(entry, self.now_ns, out)
        self._after_early_end(batch, out)
        if self.room.count and self.fleet.free_slots:
            self.dispatcher.dispatch(out)  # a head that was held may have stood before others

    def _after_early_end(self, batch: Batch | None, out: list[Command]) -> None:
        if batch is not None and batch.live_count == 0:
            out.append(CancelBatch(batch_id=batch.batch_id))
        elif batch is None:
            self.lifecycle.settle(self.queues, out)

    def _wake(self, out: list[Command]) -> None:
        """Carry out every timer that is due, then start what that made startable."""
        self.armed_at_ns = None
        if self.promoted:
            self.promoted = []
        while (item := self.timers.pop_due(self.now_ns)) is not None:
            if isinstance(item, Entry):
                item.expiry = None
                batch = item.batch
                self._endings.expire(item, ExpireReason.DEADLINE_PAST, self.now_ns, out)
                self._after_early_end(batch, out)
            elif isinstance(item, Bucket):
                item.linger = None
                if item.count and not item.is_due:
                    item.model.mark_due(item)
            elif isinstance(item, Promotion):
                self._promote(item.entry)
            elif isinstance(item, Recheck):
                item.bucket.recheck = None  # it is asked about below, with all others
            elif isinstance(item, HangCheck):
                self._hangs.check(self.now_ns, out)
            else:
                self.lifecycle.restart(item, out)
        if self.room.count and self.fleet.free_slots:
            self.dispatcher.dispatch(out)

    def _promote(self, entry: Entry) -> None:
        """Give who has waited long its better place, at once or for when it waits again."""
        entry.aging = None
        aging = self.policy.aging
        assert aging is not None, "only an aging policy sets such a timer"
        key = (*aging.promoted_key(entry.request), entry.key[-1])
        bucket = entry.bucket
        if key < entry.key and (bucket is not None or entry.is_away):
            self.promoted.append(entry.request)
        if bucket is None:
            entry.key = key
            return
        self.room.rekey(entry, key)
        if not bucket.is_due:
            self.dispatcher.consider(bucket, bucket.model)

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
            self.dispatcher.dispatch(out)

    def _adopt(self, params: ModelParams | None) -> None:
        """The new load's settings hold from now on, also for what waits already."""
        if params is not None:
            queue = self.queues[params.name]
            queue.params = params
            for bucket in queue.buckets.values():
                if not bucket.is_due:
                    self.dispatcher.consider(bucket, queue)

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
            self._charge(batch, self.now_ns - batch.started_at_ns)
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
