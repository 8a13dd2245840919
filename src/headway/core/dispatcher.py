"""Starting batches: which bucket is tried, what the policy says of it, who is in the batch.

Knows queues, slots and a policy's decisions about them. Refuses to know how requests arrive and how
batches end.
"""

from typing import Final

from headway.core.commands import Command, Dispatch
from headway.core.endings import Endings
from headway.core.fleet import Batch, Fleet
from headway.core.foresight import Foresight
from headway.core.hang import HangWatch
from headway.core.lifecycle import Lifecycle
from headway.core.names import BatchId
from headway.core.params import ModelParams
from headway.core.ports import GiveUp, Hold, Policy, SlotOption, Start
from headway.core.request import ExpireReason
from headway.core.room import WaitingRoom
from headway.core.timers import TimerQueue
from headway.core.waiting import Bucket, Entry, ModelQueue, Recheck, TimerItem

__all__ = ["Dispatcher"]

_BARREN_MAX: Final = 16
"""Then one is started all the same: a floor measured too high must be able to come down."""


class Dispatcher:
    """Fills free slots.

    Invariants: after `dispatch` no free slot could take due work that the policy would start; of a
    request at most one segment runs.
    Cost: O(m) in models that wait for the first in order, O(b log b) in due buckets where that one
    is held.
    """

    __slots__ = (
        "_batch_seq",
        "_endings",
        "_fleet",
        "_foresight",
        "_hangs",
        "_held",
        "_ledger",
        "_lifecycle",
        "_policy",
        "_room",
        "_timers",
        "has_asked",
        "now_ns",
    )

    def __init__(
        self,
        policy: Policy,
        fleet: Fleet,
        room: WaitingRoom,
        endings: Endings,
        foresight: Foresight,
        lifecycle: Lifecycle,
        hangs: HangWatch,
        timers: TimerQueue[TimerItem],
    ) -> None:
        self._policy = policy
        self._fleet = fleet
        self._room = room
        self._ledger = endings.ledger
        self._endings = endings
        self._foresight = foresight
        self._lifecycle = lifecycle
        self._hangs = hangs
        self._timers = timers
        self._batch_seq = 0
        self.now_ns = 0
        """Of the step that is being taken."""
        self.has_asked = False
        """In this step, after all else, the policy was asked about whatever was due."""
        self._held: dict[Bucket, Entry | None] = {}
        """Buckets that the policy held when it was last asked about all, and their heads then."""

    def consider(self, bucket: Bucket, queue: ModelQueue) -> None:
        """Mark a bucket due, or set the instant at which it will be."""
        due_at_ns = self._policy.batching.due_at_ns(bucket, queue.params, self.now_ns)
        if bucket.linger is not None:
            self._timers.cancel(bucket.linger)
            bucket.linger = None
        if due_at_ns <= self.now_ns:
            queue.mark_due(bucket)
        else:
            bucket.linger = self._timers.push(due_at_ns, bucket)

    def dispatch(self, out: list[Command]) -> None:
        """Start batches until no free slot can be used. Never recurses.

        Whoever is held is asked once: what starts after it leaves it less room, never more.
        """
        self._held.clear()
        starts = 0
        while self._fleet.free_slots and self._dispatch_one(out):
            starts += 1
        self.has_asked = starts == 0 or not self._held

    def offer(self, bucket: Bucket, out: list[Command]) -> None:
        """Ask about one bucket that has grown; what is held besides is held for what runs."""
        if not self._held or self._ask_again(bucket, out):
            self.dispatch(out)

    def _ask_again(self, bucket: Bucket, out: list[Command]) -> bool:
        self._held.pop(bucket, None)
        return self._try_start(bucket, out)

    def _dispatch_one(self, out: list[Command]) -> bool:
        """Ask about what is due in order of service, until something was started or has ended."""
        is_served = self._fleet.is_served
        queues = [q for q in self._room.queues.values() if q.count and is_served(q.params.name)]
        heads = [head for queue in queues if (head := queue.due_head()) is not None]
        if not heads:
            return False
        _, first = heads[0] if len(heads) == 1 else min(heads)
        if self._try_start(first, out):
            return True
        rest = sorted(pair for queue in queues for pair in queue.due_buckets())
        return any(self._try_start(bucket, out) for _, bucket in rest if bucket is not first)

    def _try_start(self, bucket: Bucket, out: list[Command]) -> bool:
        """Start the bucket's batch; True when one was started, or what was due has ended."""
        queue = bucket.model
        if bucket in self._held and self._held[bucket] is bucket.head():
            return False
        options = self._fleet.options(queue.params.name, bucket.version)
        if not options:
            return False
        placing = self._policy.placement.place(
            bucket, queue.params, options, self._fleet, self.now_ns
        )
        if isinstance(placing, Hold):
            self._hold(bucket, placing)
            return False
        bucket.is_held = False
        if isinstance(placing, Start):
            self._start_batch(bucket, queue, placing, out)
        else:
            assert isinstance(placing, GiveUp), "a policy starts, holds or gives up"
            head = bucket.head()
            assert head is not None, "only who waits is due"
            self._endings.expire(head, ExpireReason.PREDICTED_LATE, self.now_ns, out)
        # Only now: while members are taken their replica has nothing to keep it loaded.
        self._lifecycle.settle(self._room.queues, out)
        return True

    def _hold(self, bucket: Bucket, hold: Hold) -> None:
        """Ask again at the instant that the policy named, if it named one."""
        self._held[bucket] = bucket.head()
        bucket.is_held = True
        if bucket.recheck is not None:
            self._timers.cancel(bucket.recheck)
            bucket.recheck = None
        if hold.until_ns is not None and hold.until_ns > self.now_ns:
            bucket.recheck = self._timers.push(hold.until_ns, Recheck(bucket))

    def _start_batch(
        self, bucket: Bucket, queue: ModelQueue, start: Start, out: list[Command]
    ) -> None:
        rows_max = start.rows
        if rows_max is None:
            rows_max = self._policy.batching.rows_max(bucket, queue.params)
        rows_max = max(1, min(rows_max, queue.params.batch_rows_max))
        is_probe = queue.barren_count >= _BARREN_MAX
        head = self._next_in_time(bucket, queue.params, rows_max, out, is_probe=is_probe)
        if head is None:
            queue.barren_count += 1
            return
        queue.barren_count = 0
        batch = self._first(head, queue, start.option, rows_max)
        if queue.params.can_batch and not batch.is_segment:
            self._fill(batch, bucket, rows_max, out)
        self._start(batch, start.option, out)
        if bucket.count:
            bucket.is_due = False
            self.consider(bucket, queue)

    def _next_in_time(
        self,
        bucket: Bucket,
        params: ModelParams,
        rows_max: int,
        out: list[Command],
        *,
        is_probe: bool = False,
    ) -> Entry | None:
        """The head, once those before it that cannot make it have ended; None if all have.

        A probe is started whatever was the fastest so far.
        """
        now_ns = self.now_ns
        while (entry := bucket.head()) is not None:
            left_ns = entry.expires_at_ns - now_ns
            if left_ns <= 0:
                reason = ExpireReason.DEADLINE_PAST
            elif is_probe or left_ns > self._least_ns(entry, params, rows_max):
                return entry
            else:
                reason = ExpireReason.HOPELESS
            self._endings.expire(entry, reason, now_ns, out)
        return None

    def _least_ns(self, entry: Entry, params: ModelParams, rows_max: int) -> int:
        """What is left of a request was never done sooner: its segments do not run at once.

        In as few batches as its model allows, and no sooner than the one that is to run now.
        """
        floor_ns = self._policy.predictor.floor_ns
        if not params.can_split:
            return floor_ns(params.name, entry.request.rows)
        rows_left = entry.rows_left
        full_count, rest = divmod(rows_left, params.batch_rows_max)
        least_ns = floor_ns(params.name, rest) if rest else 0
        if full_count:
            least_ns += full_count * floor_ns(params.name, params.batch_rows_max)
        return max(least_ns, floor_ns(params.name, min(rows_left, rows_max)))

    def _fill(self, batch: Batch, bucket: Bucket, rows_max: int, out: list[Command]) -> None:
        """Add who comes next, up to one that would make it too slow for itself or for another.

        Who has begun to run in segments goes on alone.
        """
        params, floor_ns = batch.queue.params, self._policy.predictor.floor_ns
        tightest_at_ns = batch.members[0].expires_at_ns
        while (entry := self._next_in_time(bucket, params, rows_max, out)) is not None:
            own_rows = entry.request.rows
            rows = batch.rows + own_rows
            if rows > rows_max or entry.rows_done:
                return
            tightest_at_ns = min(tightest_at_ns, entry.expires_at_ns)
            if tightest_at_ns - self.now_ns <= floor_ns(params.name, rows):
                return
            self._ledger.dispatch(entry)
            batch.add(entry, own_rows)

    def _first(self, entry: Entry, queue: ModelQueue, option: SlotOption, rows_max: int) -> Batch:
        """A batch with its first member, or with a segment of it."""
        self._batch_seq += 1
        replica = self._fleet.replicas[option.replica_id]
        batch = Batch(BatchId(self._batch_seq), queue.params.name, replica, option.slot, queue)
        self._ledger.dispatch(entry)
        if entry.rows_done and entry.generation != replica.generation:
            entry.rows_done = 0  # all rows of an answer are of one load: it starts over
        rows, params = entry.rows_left, queue.params
        if params.can_split:
            least = -(-min(entry.request.rows, params.batch_rows_max) // params.segments_max)
            rows = min(rows, max(least, rows_max))
        entry.generation = replica.generation
        batch.add(entry, rows)
        if rows < entry.rows_left:
            self._ledger.send_away(entry, queue)
        return batch

    def _start(self, batch: Batch, option: SlotOption, out: list[Command]) -> None:
        feedback, now_ns = self._policy.feedback, self.now_ns
        for entry in batch.members:
            if entry.started_at_ns < 0:
                entry.started_at_ns = now_ns
            if feedback is not None:
                feedback.started(entry.request, batch.rows_of(entry), now_ns)
        if self._policy.class_slots:
            batch.told_class = batch.slot_class
        self._fleet.start(batch, now_ns)
        forecast = self._foresight.start(batch, now_ns)
        batch.hung_at_ns = now_ns + batch.queue.params.batch_ns_max
        self._hangs.watch(batch.hung_at_ns)
        out.append(
            Dispatch(
                batch_id=batch.batch_id,
                replica_id=option.replica_id,
                model=batch.model,
                device=option.device,
                slot=option.slot,
                slot_class=batch.told_class,
                rows=batch.rows,
                request_ids=tuple([entry.request.request_id for entry in batch.members]),
                expected_ns=forecast.mean_ns,
                bound_ns=forecast.bound_ns,
                first_row=batch.first_row,
                is_segment=batch.is_segment,
            )
        )
