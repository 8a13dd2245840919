"""The kernel's laws, checked from outside after every event in tests and never in production."""

from headway.core.fleet import ReplicaState
from headway.core.kernel import Kernel
from headway.core.ports import Hold
from headway.core.request import RequestState
from headway.errors import InvariantError

__all__ = ["check_invariants"]


def check_invariants(kernel: Kernel) -> None:
    """Every law of the kernel, or the first that does not hold.

    Raises:
        InvariantError: naming the law and the numbers.
    """
    _check_conservation(kernel)
    _check_limits(kernel)
    _check_queues(kernel)
    _check_slots(kernel)
    _check_replicas(kernel)
    _check_work_conserving(kernel)
    _check_timers(kernel)


def _require(holds: bool, law: str) -> None:
    if not holds:
        raise InvariantError(law)


def _check_conservation(kernel: Kernel) -> None:
    waiting = [e for e in kernel.ledger.live.values() if e.state is RequestState.WAITING]
    running = [e for e in kernel.ledger.live.values() if e.state is RequestState.RUNNING]
    _require(len(waiting) + len(running) == len(kernel.ledger.live), "a live request waits or runs")
    _require(
        kernel.ledger.arrived_count == len(kernel.ledger.live) + kernel.ledger.ended_count,
        f"arrived {kernel.ledger.arrived_count} = waiting {len(waiting)} + running {len(running)}"
        f" + ended {kernel.ledger.ended_count}",
    )
    _require(kernel.room.count == len(waiting), "the room counts the waiting")
    _require(
        kernel.room.payload_bytes == sum(e.request.payload_bytes for e in waiting),
        "the room sums the waiting payloads",
    )
    away = [e for e in running if e.is_away]
    _require(kernel.room.away_count == len(away), "the room keeps the places of those away")
    in_batches = sum(b.live_count for b in kernel.fleet.batches.values())
    _require(in_batches == len(running), "every running request is in a batch, once")
    in_line = [entry.key for entry in kernel.room.line.entries()]
    _require(in_line == sorted(e.key for e in waiting), "the line holds the waiting, in order")
    _require(kernel.room.line.count == len(in_line), "the line counts those in it")
    queued = sum(q.count for q in kernel.queues.values())
    _require(queued == len(waiting), "every waiting request is in a queue, once")


def _check_limits(kernel: Kernel) -> None:
    room, params = kernel.room, kernel.params
    _require(room.count + room.away_count <= params.requests_max, "requests_max holds")
    _require(room.payload_bytes + room.away_bytes <= params.bytes_max, "bytes_max holds")
    for name, queue in kernel.queues.items():
        buckets = queue.buckets.values()
        _require(queue.count == sum(b.count for b in buckets), f"`{name}` counts its buckets")
        _require(queue.rows == sum(b.rows for b in buckets), f"`{name}` sums its rows")
        _require(all(b.count > 0 for b in buckets), f"`{name}` keeps no empty bucket")
    for batch in kernel.fleet.batches.values():
        _require(
            batch.rows == sum(batch.rows_of(e) for e in batch.members),
            "batch rows are its members'",
        )
        _require(not batch.is_segment or len(batch.members) == 1, "a segment is alone")
        _require(
            batch.live_count == sum(e.batch is batch for e in batch.members),
            "live_count counts members that have not ended",
        )


def _check_queues(kernel: Kernel) -> None:
    line = list(kernel.room.line.entries())
    away = [e for e in kernel.ledger.live.values() if e.is_away]
    for name, queue in kernel.queues.items():
        own_away = [e for e in away if e.batch is not None and e.batch.queue is queue]
        _require(queue.away_count == len(own_away), f"`{name}` counts those away")
        away_bytes = sum(e.request.payload_bytes for e in own_away)
        _require(queue.away_bytes == away_bytes, f"`{name}` sums the payloads of those away")
        own = [e for e in line if e.bucket is not None and e.bucket.model is queue]
        newest = sorted(own, key=lambda e: (-e.request.priority, -e.key[-1]))
        is_so = list(queue.less_important_than(-1)) == newest
        _require(is_so, f"`{name}` knows the least important and newest of who waits")
        for bucket in queue.buckets.values():
            here = [e.request for e in own if e.bucket is bucket]
            _require(bucket.front(bucket.count) == here, f"a bucket of `{name}` is in order")
            oldest_at_ns = min(r.arrived_at_ns for r in here)
            _require(bucket.oldest_arrived_at_ns == oldest_at_ns, "a bucket knows its oldest")
            tightest_at_ns = min(r.deadline_at_ns for r in here)
            _require(bucket.tightest_deadline_at_ns <= tightest_at_ns, "no deadline is missed")


def _check_slots(kernel: Kernel) -> None:
    for device in kernel.fleet.devices.values():
        held = [b for b in device.slots if b is not None]
        _require(device.free == len(device.slots) - len(held), f"`{device.name}` counts free slots")
        for batch in held:
            _require(kernel.fleet.batches.get(batch.batch_id) is batch, "a held slot runs a batch")
    held_count = sum(b is not None for d in kernel.fleet.devices.values() for b in d.slots)
    _require(held_count == len(kernel.fleet.batches), "no slot is leaked, none held twice")
    free_count = kernel.fleet.slots - held_count
    _require(kernel.fleet.free_slots == free_count, "the fleet counts its free slots")


def _check_replicas(kernel: Kernel) -> None:
    for replica in kernel.fleet.replicas.values():
        running = sum(b.replica is replica for b in kernel.fleet.batches.values())
        _require(replica.running == running, "a replica counts its batches")
        _require(replica.state is not ReplicaState.STOPPED, "a stopped replica is forgotten")
        if replica.is_unloading:
            _require(running == 0, "a replica that unloads runs nothing")


def _check_work_conserving(kernel: Kernel) -> None:
    """What is due beside a free slot is held, and where this step asked the policy says so again.

    In a step that did not ask, time has passed or something was learnt, so it might not.
    """
    place = kernel.policy.placement.place
    for queue in kernel.queues.values():
        for _, bucket in queue.due_buckets():
            options = kernel.fleet.options(queue.params.name, bucket.version)
            if not options:
                continue
            is_held = bucket.is_held
            if kernel.dispatcher.has_asked:
                placing = place(bucket, queue.params, options, kernel.fleet, kernel.now_ns)
                is_held = is_held and isinstance(placing, Hold)
            _require(is_held, f"due work of `{queue.params.name}` waits beside a free slot")


def _check_timers(kernel: Kernel) -> None:
    for entry in kernel.ledger.live.values():
        _require(entry.expiry is not None, "every live request has its expiry timer")
    for name, queue in kernel.queues.items():
        for bucket in queue.buckets.values():
            _require(bucket.is_due or bucket.linger is not None, f"`{name}` will be due some time")
            _require(
                bucket.linger is None or bucket.linger.item is bucket, "a linger timer is alive"
            )
    head_at_ns = kernel.timers.head_at_ns()
    if head_at_ns is not None:
        is_armed = kernel.armed_at_ns is not None and kernel.armed_at_ns <= head_at_ns
        _require(is_armed, "the driver was asked to wake for the earliest timer")
