"""Every law of the kernel is really checked: broken on purpose, it is named."""

import pytest

from headway.core import ReplicaState, check_invariants
from headway.errors import InvariantError
from headway.testing import a_kernel, a_model


def a_busy_kernel():
    """One batch of two runs on one slot, two requests wait, another slot is free for nobody."""
    talk = a_kernel(models=[a_model(batch_rows_max=2)])
    for request_id in range(1, 6):
        talk.arrives(request_id, payload=10)
    talk.finishes(1)
    return talk.kernel


def forget_a_request(kernel):
    kernel.ledger.live.popitem()


def count_too_many_waiting(kernel):
    kernel.room.count += 1


def count_too_many_bytes(kernel):
    kernel.room.payload_bytes += 1


def count_too_many_arrived(kernel):
    kernel.ledger.arrived_count += 1


def put_a_live_request_at_its_end(kernel):
    kernel.ledger.live[4].state = "completed"


def lose_a_member(kernel):
    kernel.fleet.batches[2].members.pop()


def count_too_few_members(kernel):
    kernel.fleet.batches[2].live_count -= 1


def count_too_many_in_the_queue(kernel):
    kernel.queues["m"].count += 1


def count_too_many_rows(kernel):
    kernel.queues["m"].rows += 1


def lose_a_slot(kernel):
    kernel.fleet.devices["cpu:0"].free = 1


def lose_a_batch(kernel):
    kernel.fleet.batches.clear()


def count_too_many_free_slots(kernel):
    kernel.fleet.free_slots += 1


def count_too_many_running(kernel):
    kernel.fleet.replicas[1].running += 1


def keep_a_stopped_replica(kernel):
    kernel.fleet.replicas[1].state = ReplicaState.STOPPED


def unload_under_a_batch(kernel):
    kernel.fleet.replicas[1].is_unloading = True


def forget_an_expiry(kernel):
    kernel.ledger.live[4].expiry = None


def forget_when_it_is_due(kernel):
    kernel.queues["m"].buckets[""].is_due = False


def forget_to_wake(kernel):
    kernel.armed_at_ns = None


def wake_too_late(kernel):
    kernel.armed_at_ns = 10**18


BREAKS = [
    (forget_a_request, "arrived 5 = waiting"),
    (count_too_many_waiting, "counts the waiting"),
    (count_too_many_bytes, "sums the waiting"),
    (count_too_many_arrived, "arrived 6"),
    (put_a_live_request_at_its_end, "waits or runs"),
    (lose_a_member, "batch rows"),
    (count_too_few_members, "in a batch, once"),
    (count_too_many_in_the_queue, "in a queue, once"),
    (count_too_many_rows, "sums its rows"),
    (lose_a_slot, "counts free slots"),
    (lose_a_batch, "in a batch, once"),
    (count_too_many_free_slots, "the fleet counts"),
    (count_too_many_running, "counts its batches"),
    (keep_a_stopped_replica, "is forgotten"),
    (unload_under_a_batch, "unloads runs nothing"),
    (forget_an_expiry, "expiry timer"),
    (forget_when_it_is_due, "will be due"),
    (forget_to_wake, "asked to wake"),
    (wake_too_late, "asked to wake"),
]


def test_sound_kernel_passes():
    """The laws hold where nothing was broken."""
    check_invariants(a_busy_kernel())


@pytest.mark.parametrize(("spoil", "law"), BREAKS, ids=lambda value: getattr(value, "__name__", ""))
def test_broken_law_is_named(spoil, law):
    """Each kind of damage is found, and the message says which law it breaks."""
    kernel = a_busy_kernel()
    spoil(kernel)
    with pytest.raises(InvariantError, match=law):
        check_invariants(kernel)


def test_idle_slot_beside_due_work_is_found():
    """A free slot that due work could use, and no policy that holds it back, is a bug."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2)
    batch = talk.kernel.fleet.batches[1]
    talk.kernel.fleet.finish(batch)
    del talk.kernel.ledger.live[1]
    talk.kernel.ledger.ended_count += 1
    with pytest.raises(InvariantError, match="beside a free slot"):
        check_invariants(talk.kernel)
