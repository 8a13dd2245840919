"""Solo times: from profiles, from what ran, and from what is near."""

import pytest

from headway.core import Run, SlotClass
from headway.predict import ModelProfile, SoloTime
from headway.predict.belief import assimilate
from headway.predict.solo import SoloTimes

MS = 1_000_000


def a_run(model="m", bucket="", rows=1, payload_bytes=0, device="d"):
    return Run(
        model=model,
        bucket=bucket,
        rows=rows,
        payload_bytes=payload_bytes,
        device=device,
        slot=0,
        lane=0,
        slot_class=SlotClass.HIGH,
        priority=1,
    )


def a_profile(bucket=""):
    times = ((1, 10 * MS), (4, 40 * MS))
    solo = tuple(SoloTime(rows=rows, median_ns=ns, p95_ns=ns, runs=9) for rows, ns in times)
    return ModelProfile(model="m", device="d", bucket=bucket, solo=solo)


def test_a_profile_is_believed_and_interpolated():
    """Before anything ran the profile speaks, for every bucket when it names none."""
    solo = SoloTimes([a_profile()])
    assert solo.base_ns("d", "m", "b", 2, 0) == pytest.approx(20 * MS)
    assert solo.any_ns("m", 2) == pytest.approx(20 * MS)


def test_a_profile_of_a_bucket_is_for_that_bucket():
    """Another shape is unknown."""
    solo = SoloTimes([a_profile("b")])
    assert solo.base_ns("d", "m", "b", 1, 0) == pytest.approx(10 * MS)
    assert solo.base_ns("d", "m", "c", 1, 0) == 0.0


def test_unknown_is_zero_until_the_first_execution():
    """Then it is that."""
    solo = SoloTimes()
    assert (solo.base_ns("d", "m", "", 1, 0), solo.any_ns("m", 1)) == (0.0, 0.0)
    assert solo.belief(a_run()) is None
    solo.first(a_run(), 7.0 * MS)
    assert solo.base_ns("d", "m", "", 1, 0) == pytest.approx(7 * MS)


def test_unseen_rows_are_in_proportion_and_unseen_shapes_by_their_bytes():
    """The nearest of the bucket first, then of the model."""
    solo = SoloTimes()
    solo.first(a_run(rows=2, bucket="short", payload_bytes=100), 10.0 * MS)
    assert solo.base_ns("d", "m", "short", 4, 200) == pytest.approx(20 * MS)
    assert solo.base_ns("d", "m", "long", 2, 300) == pytest.approx(30 * MS)
    assert solo.base_ns("e", "m", "short", 2, 100) == pytest.approx(10 * MS)


def test_a_profile_that_is_wrong_is_mended_within_reach():
    """Observations pull it, but by no more than a factor of eight."""
    solo = SoloTimes([a_profile()])
    for _ in range(2000):
        belief = solo.belief(a_run())
        assimilate(3.0, 0.01, [(belief, 1.0)])
    assert solo.base_ns("d", "m", "", 1, 0) == pytest.approx(80 * MS)


def test_the_floor_is_the_fastest():
    """Per model and rows, on any device."""
    solo = SoloTimes()
    assert solo.floor_ns("m", 1) == 0
    for execution_ns in (9, 7, 8):
        solo.see(a_run(), execution_ns)
    assert solo.floor_ns("m", 1) == 7


def test_state_comes_back():
    """Sizes, bytes and floors; what is broken is left out."""
    solo = SoloTimes()
    solo.first(a_run(rows=2, bucket="short", payload_bytes=100), 10.0 * MS)
    solo.see(a_run(), 5)
    fresh = SoloTimes()
    fresh.restore(solo.state())
    assert fresh.state() == solo.state()
    assert fresh.base_ns("d", "m", "long", 2, 300) == pytest.approx(30 * MS)
    fresh.restore({"sizes": [["d", "m", "b", 0, 1.0, 1.0, 1], "x"], "floors": [["m", 1, "y"]]})
    assert fresh.state() == solo.state()
