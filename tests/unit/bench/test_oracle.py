"""The floor: what one could say who knew all overlaps, on executions worked out by hand."""

import pytest

from headway.bench.oracle import Sharing, busy_ratios, foresee_all
from headway.bench.shadows import Execution
from headway.core import Run, SlotClass, Stages
from headway.units import NS_PER_MS

PINNED = Sharing(is_pinned=True, cores=2)
SOLO_NS = {"m x1": 10 * NS_PER_MS}


def an_execution(start_ms, end_ms, *, lane=0, model="m", batch_id=1, out_ms=0):
    """An execution that fills its service time but for the copy out."""
    run = Run(
        batch_id=batch_id,
        model=model,
        bucket="",
        rows=1,
        payload_bytes=0,
        device="cpu:0",
        slot=lane,
        lane=lane,
        slot_class=SlotClass.HIGH,
        priority=0,
    )
    service_ns = (end_ms - start_ms) * NS_PER_MS
    out_ns = out_ms * NS_PER_MS
    stages = Stages(service_ns=service_ns, execution_ns=service_ns - out_ns, transfer_out_ns=out_ns)
    return Execution(run, start_ms * NS_PER_MS, end_ms * NS_PER_MS, stages, 0)


def predicted_ms(executions, sharing=PINNED):
    """What the oracle says of each."""
    foreseen = foresee_all(executions, SOLO_NS, sharing)
    return [seen.predicted_ns / NS_PER_MS for seen in foreseen]


def test_batches_of_one_lane_share_its_core():
    """Two of 10 ms that start 5 ms apart take 15 ms each, and the oracle says so."""
    executions = [an_execution(0, 15, batch_id=1), an_execution(5, 20, batch_id=2)]
    assert predicted_ms(executions) == pytest.approx([15, 15])


def test_batches_of_two_lanes_do_not_share():
    """On cores of their own both take what they take alone."""
    executions = [an_execution(0, 10), an_execution(5, 15, lane=1, batch_id=2)]
    assert predicted_ms(executions) == pytest.approx([10, 10])


def test_threads_without_a_lane_share_all_cores():
    """Two cores are enough for two; three get two thirds each."""
    unpinned = Sharing(is_pinned=False, cores=2)
    two = [an_execution(0, 10), an_execution(0, 10, batch_id=2)]
    assert predicted_ms(two, unpinned) == pytest.approx([10, 10])
    three = [an_execution(0, 15, batch_id=n) for n in (1, 2, 3)]
    assert predicted_ms(three, unpinned) == pytest.approx([15, 15, 15])


def test_batches_of_two_threads_take_both_cores():
    """Where a batch alone has both cores, two have one each."""
    both = Sharing(is_pinned=False, cores=2, threads=2)
    executions = [an_execution(0, 20), an_execution(0, 20, batch_id=2)]
    assert predicted_ms(executions, both) == pytest.approx([20, 20])


def test_class_that_is_slower_than_its_profile_is_no_error_of_foresight():
    """One factor a class makes up for it; one that differs from the others stays wrong."""
    executions = [an_execution(50 * n, 50 * n + 12, batch_id=n) for n in (1, 2, 3)]
    assert predicted_ms(executions) == pytest.approx([12, 12, 12])
    odd = [*executions[:2], an_execution(150, 180, batch_id=3)]
    assert predicted_ms(odd) == pytest.approx([12, 12, 12])


def test_class_without_a_time_alone_is_left_out_but_shares():
    """It is not judged, and still takes its part of the core."""
    executions = [an_execution(0, 20), an_execution(0, 20, model="other", batch_id=2)]
    foreseen = foresee_all(executions, SOLO_NS, PINNED)
    assert [seen.group for seen in foreseen] == ["m x1"]
    assert foreseen[0].predicted_ns == 20 * NS_PER_MS


def test_busy_counts_a_lane_once():
    """Two batches on one lane keep one of two cores busy; a lane each keep both."""
    one_lane = [an_execution(0, 10), an_execution(0, 10, batch_id=2)]
    span = {"from_ns": 0, "to_ns": 20 * NS_PER_MS, "step_ns": 10 * NS_PER_MS}
    assert busy_ratios(one_lane, PINNED, **span) == pytest.approx([0.5, 0.0])
    two_lanes = [an_execution(0, 10), an_execution(5, 20, lane=1, batch_id=2)]
    assert busy_ratios(two_lanes, PINNED, **span) == pytest.approx([0.75, 0.5])
    unpinned = Sharing(is_pinned=False, cores=2)
    assert busy_ratios(one_lane, unpinned, **span) == pytest.approx([1.0, 0.0])


def test_last_step_that_is_not_whole_is_left_out():
    """A window that was cut short would look idle."""
    ratios = busy_ratios(
        [an_execution(0, 30)], PINNED, from_ns=0, to_ns=25 * NS_PER_MS, step_ns=10 * NS_PER_MS
    )
    assert ratios == pytest.approx([0.5, 0.5])
