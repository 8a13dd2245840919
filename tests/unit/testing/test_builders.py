"""Builders state only what matters, and a dialogue finds what breaks a law."""

import pytest

from headway.core import Complete, SetTimer, SlotClass
from headway.errors import InvariantError
from headway.policy import priority
from headway.testing import (
    MeanPredictor,
    a_dispatch,
    a_kernel,
    a_model,
    a_request,
    dispatched,
    without_timers,
)


def test_request_takes_text_and_numbers():
    """Durations and sizes are read as people write them."""
    request = a_request(3, at="2ms", budget="50ms", payload="1KiB", slot_class=SlotClass.LOW)
    assert (request.arrived_at_ns, request.budget_ns) == (2_000_000, 50_000_000)
    assert (request.payload_bytes, request.slot_class) == (1024, SlotClass.LOW)
    assert a_request(at=5).arrived_at_ns == 5


def test_pinned_version_has_its_own_bucket():
    """As at the edge: requests for different versions never share a batch."""
    assert a_request().bucket == ""
    assert a_request(version="2").bucket != a_request(version="1").bucket
    assert a_request(version="2", bucket="x").bucket == "x"


def test_kernel_takes_a_policy_or_its_name():
    """Both ways lead to the same order."""
    for policy in ("priority", priority(MeanPredictor())):
        talk = a_kernel(policy, models=[a_model("a"), "b"])
        assert talk.kernel.policy.name == "priority"
        assert list(talk.kernel.queues) == ["a", "b"]


def test_dialogue_goes_on_from_its_last_instant():
    """Who gives no instant speaks now; every step is kept."""
    talk = a_kernel()
    commands = talk.arrives(1, at="3ms")
    assert without_timers(commands) == [a_dispatch(1, 1)]
    assert [type(c) for c in commands if c not in without_timers(commands)] == [SetTimer]
    assert dispatched(talk.arrives(2)) == []
    assert [record.now_ns for record in talk.records[-2:]] == [3_000_000, 3_000_000]


def test_second_answer_is_found():
    """A kernel that answers a request twice is caught by the dialogue."""
    talk = a_kernel()
    talk.arrives(1)
    talk.outcomes[1] = Complete(
        request_id=1, batch_id=1, batch_rows=1, queue_delay_ns=0, service_ns=0
    )
    with pytest.raises(InvariantError, match="answered twice"):
        talk.finishes(1)


def test_broken_law_is_found_after_the_event():
    """The kernel's laws are checked without being asked for."""
    talk = a_kernel()
    talk.kernel.room.payload_bytes = 7
    with pytest.raises(InvariantError, match="sums the waiting"):
        talk.arrives(1)


def test_drain_ends_everything():
    """Batches finish and deadlines pass until nobody is left."""
    talk = a_kernel(models=[a_model(linger="10s", batch_rows_max=2), "n"])
    talk.arrives(1)
    talk.arrives(2, model="n")
    talk.drain()
    assert sorted(talk.outcomes) == [1, 2]


def test_drain_finds_a_request_that_nothing_will_end():
    """A request without batch or timer is a bug, and says so."""
    talk = a_kernel(models=[a_model(linger="10s", batch_rows_max=2)])
    talk.arrives(1)
    talk.kernel.armed_at_ns = None
    with pytest.raises(InvariantError, match="never be answered"):
        talk.drain()


def test_word_that_nobody_reads_is_refused():
    """A misspelt word is an error, not a test of something else."""
    with pytest.raises(TypeError, match="`payload_bytes` is none of"):
        a_request(1, payload_bytes=5)
    with pytest.raises(TypeError, match="`linger_ns` is none of"):
        a_model(linger_ns=5)
