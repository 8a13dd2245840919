"""Whose the time of slots was, and what of it came to nothing: never more, never less."""

import pytest
from tests.counted import by_label, listen, series, total, value

from headway.core import BatchFailed, BatchId, ReplicaId, ReplicasLost, RequestCancelled
from headway.testing import a_device, a_kernel, a_model

NS = 1e-9
MS = 1_000_000
RAN = "headway_device_seconds_total"
WASTED = "headway_device_wasted_seconds_total"
BUSY = "headway_slots_busy_seconds_total"


def a_talk(**settings):
    """A kernel with one model of four rows, and its metrics."""
    talk = a_kernel(models=[a_model(batch_rows_max=4, **settings)])
    return talk, listen(talk)


def test_members_share_a_batch_by_their_rows():
    """One row of four is a quarter of the time; the parts make up the whole, to the nanosecond."""
    talk, metrics = a_talk()
    talk.arrives(1, rows=4)
    talk.arrives(2, rows=1, tier="bulk")
    talk.arrives(3, rows=2)
    talk.finishes(1, at=4 * MS)
    talk.finishes(2, at=4 * MS + 1001)
    assert value(metrics, RAN, device="cpu:0", model="m", tier="bulk") == pytest.approx(333 * NS)
    normal = value(metrics, RAN, device="cpu:0", model="m", tier="normal")
    assert normal == pytest.approx((4 * MS + 668) * NS)
    assert total(metrics, RAN) == pytest.approx(value(metrics, BUSY, device="cpu:0"))
    assert total(metrics, WASTED) == 0


def test_busy_slots_add_up_while_they_run():
    """Their time goes on between scrapes, and stands still while none runs."""
    talk, metrics = a_talk()
    talk.arrives(1, at=10 * MS)
    talk.now_ns = 13 * MS
    assert value(metrics, BUSY, device="cpu:0") == 0.003
    assert total(metrics, RAN) == 0
    talk.finishes(1, at=15 * MS)
    talk.now_ns = 100 * MS
    assert value(metrics, BUSY, device="cpu:0") == 0.005


def test_time_of_a_late_answer_is_wasted():
    """It was served past its deadline, as its tier has it; nobody is better off."""
    talk, metrics = a_talk()
    talk.arrives(1, budget="5ms", late="100ms")
    talk.finishes(1, at=7 * MS)
    assert by_label(metrics, WASTED, "reason") == {"late": 0.007}


def test_time_of_an_expired_member_is_wasted_when_its_batch_ends():
    """It ended while it ran: what was spent until then and after is for nothing; of others not."""
    talk, metrics = a_talk()
    talk.arrives(1, rows=4)
    talk.arrives(2, rows=1, budget="5ms")
    talk.arrives(3, rows=3)
    talk.finishes(1, at=1 * MS)
    talk.wakes(at=5 * MS)
    assert by_label(metrics, WASTED, "reason") == {}
    talk.finishes(2, at=9 * MS)
    assert by_label(metrics, WASTED, "reason") == {"late": 0.002}
    assert total(metrics, RAN) == 0.009


def test_time_of_a_client_that_left_is_wasted():
    """Its batch is given up, or goes on for others."""
    talk, metrics = a_talk()
    talk.arrives(1)
    talk.handle(RequestCancelled(request_id=1), at=2 * MS)
    talk.handle(BatchFailed(batch_id=BatchId(1), code="cancelled", message=""), at=3 * MS)
    assert by_label(metrics, WASTED, "reason") == {"gone": 0.003}


def test_time_of_what_failed_is_wasted():
    """A batch that raised, and one that went down with its worker."""
    talk, metrics = a_talk()
    talk.arrives(1)
    talk.handle(BatchFailed(batch_id=BatchId(1), code="executor_failed", message=""), at=2 * MS)
    talk.arrives(2)
    talk.handle(ReplicasLost(replica_ids=(ReplicaId(1),), message=""), at=5 * MS)
    assert by_label(metrics, WASTED, "reason") == {"failed": 0.005}
    assert total(metrics, RAN) == 0.005


def test_segments_are_wasted_with_their_request():
    """What ran of a request that then expires while it waits for its rest came to nothing."""
    talk = a_kernel("priority", models=[a_model(batch_rows_max=4, can_split=True)])
    metrics = listen(talk)
    talk.arrives(1, rows=9, budget="10ms", tier="bulk", priority=5)
    talk.arrives(2, rows=1, priority=0)
    talk.finishes(1, at=4 * MS)
    assert total(metrics, WASTED) == 0
    talk.wakes(at=10 * MS)
    assert by_label(metrics, WASTED, "reason") == {"late": 0.004}
    assert by_label(metrics, WASTED, "tier") == {"bulk": 0.004}


def test_series_are_those_of_the_devices_that_a_model_is_on():
    """They exist at 0 once it is to be loaded, and on no other device."""
    talk = a_kernel(
        devices=[a_device("cpu:0"), a_device("cpu:1")],
        models=[a_model("a", devices=["cpu:1"]), a_model("b", devices=["cpu:0", "cpu:1"])],
    )
    metrics = listen(talk)
    for name, parts in ((RAN, 1), (WASTED, 3)):
        found = [dict(key) for key in series(metrics, name)]
        places = {(each["model"], each["device"]) for each in found}
        assert places == {("a", "cpu:1"), ("b", "cpu:0"), ("b", "cpu:1")}
        assert len(found) == len(places) * 2 * parts
    assert value(metrics, BUSY, device="cpu:0") == 0
