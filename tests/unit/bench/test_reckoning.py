"""From the Records of a run to its row, on a run made by hand."""

import pytest
from tests.unit.bench.contest_words import SOLO_NS, a_mix

from headway.bench.reckoning import Circumstances, reckon
from headway.core import (
    BatchFinished,
    Complete,
    Expire,
    ExpireReason,
    Record,
    Reject,
    RejectReason,
    RequestArrived,
    SlotClass,
    Stage,
    TimerFired,
)
from headway.testing import a_device, a_dispatch, a_request
from headway.units import NS_PER_MS, NS_PER_S

LOW = {"priority": 3, "tier": "low", "slot_class": SlotClass.LOW}


class Story:
    """Records in order, by milliseconds."""

    def __init__(self):
        self.records = []

    def at(self, ms, event, *commands):
        record = Record(
            seq=len(self.records), now_ns=ms * NS_PER_MS, event=event, commands=list(commands)
        )
        self.records.append(record)


def completed(request_id, batch_id, ms):
    """An answer."""
    return Complete(
        request_id=request_id,
        batch_id=batch_id,
        batch_rows=1,
        queue_delay_ns=0,
        service_ns=ms * NS_PER_MS,
    )


def a_story():
    """Two high and four low requests: each side has one in time."""
    story = Story()
    high = {"model": "minilm-32", "priority": 0, "tier": "high-0", "budget": "30ms"}
    small = {"model": "ocr-recognise", "budget": "120ms", **LOW}
    large = {"model": "minilm-bulk", "rows": 4, "budget": "600ms", **LOW}
    story.at(
        0,
        RequestArrived(request=a_request(1, **high)),
        a_dispatch(1, 1, model="minilm-32", slot=0, expected="8ms"),
    )
    story.at(
        5,
        RequestArrived(request=a_request(2, at="5ms", **large)),
        a_dispatch(2, 2, rows=4, model="minilm-bulk", slot=1, expected="100ms"),
    )
    story.at(10, BatchFinished(batch_id=1), completed(1, 1, 10))
    story.at(
        10,
        RequestArrived(request=a_request(3, at="10ms", **high)),
        a_dispatch(3, 3, model="minilm-32", slot=0),
    )
    story.at(11, RequestArrived(request=a_request(4, at="11ms", **small)))
    story.at(
        12,
        RequestArrived(request=a_request(5, at="12ms", **small)),
        Reject(request_id=5, reason=RejectReason.PREDICTED_LATE, retry_after_ns=1),
    )
    story.at(
        20,
        TimerFired(),
        Expire(request_id=4, stage=Stage.WAITING, reason=ExpireReason.PREDICTED_LATE),
    )
    story.at(
        40,
        TimerFired(),
        Expire(request_id=3, stage=Stage.RUNNING, reason=ExpireReason.DEADLINE_PAST),
    )
    story.at(50, BatchFinished(batch_id=3))
    story.at(105, BatchFinished(batch_id=2), completed(2, 2, 100))
    story.at(
        106,
        RequestArrived(request=a_request(6, at="106ms", **small)),
        a_dispatch(4, 6, model="ocr-recognise", slot=0),
    )
    story.at(256, BatchFinished(batch_id=4), completed(6, 4, 150))
    return story.records


def a_row(records):
    """Of a second on two lanes."""
    what = Circumstances(
        mix=a_mix(),
        policy="fifo",
        niced=True,
        seed=3,
        load=None,
        duration_ns=NS_PER_S,
        solo_ns=SOLO_NS,
        devices=[a_device(lanes=(0, 1))],
        decision_p50_ns=20_000,
        decision_p99_ns=None,
        others_cores=0.1,
    )
    return reckon(records, what)


def test_every_way_not_to_be_answered_in_time_is_a_violation():
    """Expired while it ran, given up, refused, and answered late; of all that were offered."""
    row = a_row(a_story())
    assert (row.high_requests, row.low_requests) == (2, 4)
    assert row.high_violations == 0.5
    assert row.low_violations == 0.75
    assert (row.refused, row.expired, row.given_up, row.failed) == (1, 1, 1, 0)
    assert {name: (t.requests, t.violations) for name, t in row.classes.items()} == {
        "minilm-32 x1": (2, 1),
        "ocr-recognise x1": (3, 3),
        "minilm-bulk x4": (1, 0),
    }
    assert row.classes["minilm-32 x1"].budget_ms == 30


def test_goodput_counts_requests_and_their_time_alone():
    """Of those in time only: one of each side, 10 and 120 ms in a second."""
    row = a_row(a_story())
    assert (row.high_goodput_rps, row.low_goodput_rps) == (1.0, 1.0)
    assert row.high_goodput_work == pytest.approx(0.010)
    assert row.low_goodput_work == pytest.approx(0.120)


def test_devices_time_that_was_in_vain_is_waste():
    """40 ms for the expired and 150 for the late, of 300; lanes had work for 200 and 100 ms."""
    row = a_row(a_story())
    assert row.waste_ratio == pytest.approx(190 / 300)
    assert row.utilisation == pytest.approx((200 + 100) / 2000)


def test_predictions_and_circumstances_are_told():
    """A batch expected to take 8 ms that took 10, and one that was right."""
    row = a_row(a_story())
    assert row.error_mean == pytest.approx(0.1, rel=0.01)
    assert row.high_p50_ms == 10
    assert (row.decision_p50_us, row.decision_p99_us) == (20, None)
    assert (row.mix, row.policy, row.niced, row.seed, row.others_cores) == (
        *("m", "fifo", True, 3),
        0.1,
    )


def test_request_without_an_end_counts_as_failed():
    """What the run left open was not answered."""
    row = a_row(a_story()[:4])
    assert row.failed == 2
    assert row.high_violations == 0.5
