"""Profiles of no run: a start that executions may overthrow."""

from math import log

import pytest

from headway.core import Run, SlotClass
from headway.predict import ModelProfile, SoloTime
from headway.predict.belief import assimilate
from headway.predict.solo import SoloTimes

MS = 1_000_000


def solo_times(runs):
    """Ten milliseconds and ten a row."""
    times = ((1, 20 * MS), (4, 50 * MS))
    solo = tuple(SoloTime(rows=rows, median_ns=ns, p95_ns=ns, runs=runs) for rows, ns in times)
    return SoloTimes([ModelProfile(model="m", device="d", solo=solo)])


def see(solo, execution_ns, times):
    """One row took so long, so many times; what is believed of it then."""
    run = Run(
        model="m",
        bucket="",
        rows=1,
        payload_bytes=0,
        device="d",
        slot=0,
        lane=0,
        slot_class=SlotClass.HIGH,
        priority=1,
    )
    for _ in range(times):
        base_ns = solo.base_ns("d", "m", "", 1, 0)
        assimilate(log(execution_ns / base_ns), 0.01, [(solo.belief(run), 1.0)])
    return solo.base_ns("d", "m", "", 1, 0)


def test_a_guess_is_where_a_model_starts():
    """Interpolated like a measurement."""
    assert solo_times(0).base_ns("d", "m", "", 2, 0) == pytest.approx(30 * MS, rel=1e-6)


def test_a_guess_gives_way_sooner_than_a_measurement():
    """Three times what was guessed is believed after a few executions."""
    assert see(solo_times(0), 60 * MS, 4) == pytest.approx(60 * MS, rel=0.1)
    assert see(solo_times(9), 60 * MS, 4) < 50 * MS


def test_a_guess_may_be_wrong_by_any_factor():
    """A measurement has a reach of eight; a guess has none."""
    assert see(solo_times(0), 300 * MS, 100) == pytest.approx(300 * MS, rel=0.1)
    assert see(solo_times(9), 300 * MS, 400) == pytest.approx(160 * MS, rel=0.01)


def test_sizes_that_did_not_run_follow_the_guess_by_its_shape():
    """One row took thrice what was guessed, so four rows are expected to; a measurement stays."""
    guessed, measured = solo_times(0), solo_times(9)
    for solo in (guessed, measured):
        see(solo, 60 * MS, 10)
    assert guessed.base_ns("d", "m", "", 4, 0) == pytest.approx(150 * MS, rel=0.05)
    assert measured.base_ns("d", "m", "", 4, 0) == pytest.approx(50 * MS, rel=1e-6)
