"""The split of the tail by hand: who counts, what is compared, and that it adds up."""

import io

from rich.console import Console
from tests.unit.report.written_steps import Steps

from headway.core import (
    Cancel,
    Expire,
    ExpireReason,
    Reject,
    RejectReason,
    RequestCancelled,
    RequestId,
    Stage,
    TimerFired,
)
from headway.report import Cause, remedy_lines, split_tail, tail_table
from headway.testing import a_dispatch
from headway.units import NS_PER_MS


def served(steps, number, at_ms, took_ms, **what):
    """A request that is alone on the device."""
    steps.arrives(number, f"{at_ms}ms", a_dispatch(number, number), **what)
    steps.ends(number, f"{at_ms + took_ms}ms", execution=f"{took_ms}ms", answers=[number])


def a_run(slow=3, count=200):
    """Requests of 10 ms, the last of them of 50."""
    steps = Steps()
    for number in range(1, count + 1):
        served(steps, number, 100 * number, 50 if number > count - slow else 10)
    return steps


def report_of(steps):
    """The report."""
    return split_tail(lambda: steps.records, steps.devices)


def test_tail_is_compared_with_the_middle():
    """Percentiles by nearest rank, bands of those around the median and from p99 on."""
    (group,) = report_of(a_run()).groups
    assert (group.model, group.tier, group.requests) == ("m", "normal", 200)
    assert (group.p50_ns, group.p99_ns) == (10 * NS_PER_MS, 50 * NS_PER_MS)
    assert (group.middle_ns, group.tail_ns) == (10 * NS_PER_MS, 50 * NS_PER_MS)
    assert group.tail_requests == 3
    first, *rest = group.causes
    assert (first.cause, first.added_ns) == (Cause.VARIANCE, 40 * NS_PER_MS)
    assert first.added_ratio == 1.0
    assert first.remedy is not None
    assert [(cause.cause, cause.added_ns, cause.remedy) for cause in rest] == [
        (Cause.OWN_WORK, 0, None)
    ]


def test_large_bands_are_sampled():
    """A band in which many are alike is known from some of them."""
    (group,) = report_of(a_run(count=600)).groups
    assert group.requests == 600
    assert 150 < group.middle_requests <= 250
    assert 150 < group.tail_requests <= 250


def test_who_ended_before_its_time_is_only_counted():
    """Refused, given up and cancelled ones; one that expired at its deadline has waited for it."""
    steps = a_run(count=20)
    steps.arrives(101, "9000ms", a_dispatch(101, 101))
    refusal = Reject(
        request_id=RequestId(102), reason=RejectReason.MODEL_QUEUE_FULL, retry_after_ns=1
    )
    steps.arrives(102, "9001ms", refusal)
    steps.arrives(103, "9002ms")
    cancel = Cancel(request_id=RequestId(103), stage=Stage.WAITING)
    steps.at("9003ms", RequestCancelled(request_id=RequestId(103)), cancel)
    for number, reason in ((104, ExpireReason.PREDICTED_LATE), (105, ExpireReason.DEADLINE_PAST)):
        steps.arrives(number, f"{9000 + number}ms", budget="90ms")
        expire = Expire(request_id=RequestId(number), stage=Stage.WAITING, reason=reason)
        steps.at(f"{9090 + number}ms", TimerFired(), expire)
    steps.ends(101, "9400ms", execution="400ms", answers=[101])
    (group,) = report_of(steps).groups
    assert (group.requests, group.expired, group.ended_early) == (22, 1, 3)


def test_late_answers_are_counted():
    """Where the tier has them served."""
    steps = a_run(count=5, slow=0)
    served(steps, 50, 5_000, 80, budget="20ms", late="1s")
    (group,) = report_of(steps).groups
    assert (group.requests, group.late) == (6, 1)


def test_models_and_tiers_are_told_apart_the_longest_way_first():
    """Each has its own median."""
    steps = a_run(count=20)
    for number in range(30, 50):
        served(steps, number, 100 * number, 90 if number == 49 else 20, tier="bulk", model="m")
    groups = report_of(steps).groups
    assert [(group.tier, group.p50_ns // NS_PER_MS) for group in groups] == [
        ("bulk", 20),
        ("normal", 10),
    ]


def test_run_without_answers_has_no_groups():
    """And is no error here."""
    assert report_of(Steps()).groups == []


def test_words_name_percentiles_causes_and_remedies():
    """A cause that adds nothing has no remedy; few requests are called few."""
    report = report_of(a_run(count=20))
    said = "\n".join(remedy_lines(report))
    assert "m, tier normal: p50 10ms, p99 50ms (of fewer than 100, so the worst)" in said
    assert "service time varied (adds 40ms, 100%): predict with a wider bound" in said
    assert "its own work (" not in said
    console = Console(width=200, file=io.StringIO())
    console.print(tail_table(report))
    table = console.file.getvalue()
    assert "service time varied" in table
    assert "-0.0%" not in table
