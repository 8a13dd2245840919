"""From recordings to rows: pooled over seeds, apart by load, and around a shift."""

import msgspec
import pytest

from headway.bench import ORACLE, Judged, Sidecar, judge, listen_to, score_rows, summarise
from headway.bench.orders import SoloClass
from headway.bench.plan import Shift
from headway.bench.shadows import Execution, ShadowLog
from headway.core import Run, SlotClass, Stages
from headway.predict import Profile
from headway.report import Observation
from headway.testing import MeanPredictor
from headway.units import NS_PER_MS, NS_PER_S


def a_sidecar(**fields):
    """Of a pinned recording of ten seconds at 85 %."""
    given = {
        "config": "pinned",
        "seed": 1,
        "utilisation": 0.85,
        "utilisation_after": 0.85,
        "busy": 0.8,
        "others_cores": 0.1,
        "shift": Shift.NONE,
        "shift_at_ns": None,
        "load_at_ns": 0,
        "duration_ns": 10 * NS_PER_S,
        "cores": 2,
        "capacity_ratio": 0.9,
        "solo": (),
    }
    return Sidecar(**given | fields)


def a_solo(**fields):
    """A class alone."""
    given = {
        "name": "m x2",
        "model": "m",
        "bucket": "|x",
        "rows": 2,
        "median_ns": 20 * NS_PER_MS,
        "p95_ns": 22 * NS_PER_MS,
        "overhead_ns": NS_PER_MS,
        "payload_bytes": 100,
        "runs": 20,
    }
    return SoloClass(**given | fields)


def a_log(errors, costs_ns=()):
    """One predictor `p`, an execution each 10 ms, wrong by these."""
    executions, observations = [], []
    for index, error in enumerate(errors):
        run = Run(
            batch_id=index + 1,
            model="m",
            bucket="",
            rows=1,
            payload_bytes=0,
            device="cpu:0",
            slot=0,
            lane=0,
            slot_class=SlotClass.HIGH,
            priority=0,
        )
        start_ns = index * 10 * NS_PER_MS
        stages = Stages(service_ns=5 * NS_PER_MS, execution_ns=5 * NS_PER_MS)
        executions.append(Execution(run, start_ns, start_ns + 5 * NS_PER_MS, stages, index))
        observations.append(Observation("m x1", index, round(1000 * (1 + error)), 1000, 1100, 1000))
    return ShadowLog(
        executions, {"p": observations}, {"p": observations}, {"p": []}, {"p": list(costs_ns)}
    )


def a_judged(errors, *, costs_ns=(), busy=(0.5,), **fields):
    """A recording that was judged."""
    return Judged(a_sidecar(**fields), a_log(errors), a_log(errors, costs_ns), list(busy))


def test_rows_pool_seeds_and_part_loads():
    """Two seeds of one load make one row over all their executions; another load another."""
    judged = [
        a_judged([0.1, -0.3], seed=1, costs_ns=[1_000], busy=[0.8, 0.6]),
        a_judged([0.2, 0.2], seed=2, costs_ns=[3_000], busy=[0.7], others_cores=0.2),
        a_judged([0.5], utilisation=0.95),
    ]
    rows = summarise(judged, "pinned").prediction
    assert [(row.utilisation, row.executions, row.seeds) for row in rows] == [
        (0.85, 4, 2),
        (0.95, 1, 1),
    ]
    assert rows[0].mape == pytest.approx(0.2)
    assert rows[0].bias == pytest.approx(0.05)
    assert rows[0].under == 0.25
    assert rows[0].cost_us == pytest.approx(2.0)
    assert rows[0].busy == pytest.approx(0.7)
    assert (rows[0].busy_min, rows[0].busy_max, rows[0].others_cores) == (0.6, 0.8, 0.2)
    assert rows[1].cost_us is None
    responses = summarise(judged, "pinned").response_prediction
    assert [(row.utilisation, row.requests) for row in responses] == [(0.85, 4), (0.95, 1)]


def test_oracle_has_no_bound():
    """Its row says so, instead of the coverage of a number that is no bound."""
    one = a_judged([0.1])
    one.with_profile.by_execution[ORACLE] = one.with_profile.by_execution["p"]
    rows = {row.predictor: row for row in summarise([one], "pinned").prediction}
    assert rows[ORACLE].mape == pytest.approx(0.1)
    assert (rows[ORACLE].coverage, rows[ORACLE].width) == (None, None)
    assert rows["p"].coverage == 1.0


def test_cold_start_is_of_the_first_setup_with_and_without_profile():
    """Every step of what was seen, twice; other set-ups and shifts are left out."""
    judged = [
        a_judged([0.5] * 10 + [0.1] * 90),
        a_judged([0.9] * 50, config="unpinned"),
        a_judged([0.9] * 50, shift=Shift.RATE, shift_at_ns=0),
    ]
    rows = summarise(judged, "pinned").prediction_cold_start
    assert {row.has_profile for row in rows} == {True, False}
    known = [row for row in rows if row.has_profile]
    assert [(row.seen_min, row.executions) for row in known] == [
        (0, 10),
        (10, 10),
        (20, 30),
        (50, 50),
    ]
    assert [round(row.mape, 6) for row in known] == [0.5, 0.1, 0.1, 0.1]
    assert {row.settled_after for row in known} == {10}


def test_shift_counts_from_where_it_was():
    """Errors before, just after and in the end; executions until they are near the end's."""
    errors = [0.1] * 100 + [0.8] * 30 + [0.2] * 170
    judged = [
        a_judged(errors, shift=Shift.NEW_MODEL, shift_at_ns=1000 * NS_PER_MS, seed=seed)
        for seed in (1, 2)
    ]
    (row,) = summarise(judged, "pinned").prediction_shift
    assert (row.shift, row.predictor, row.seeds) == (Shift.NEW_MODEL, "p", 2)
    assert row.mape_before == pytest.approx(0.1)
    assert row.mape_first == pytest.approx(0.8)
    assert row.mape_settled == pytest.approx(0.2)
    assert 28 <= row.settled_after <= 30


def test_profiles_are_one_for_each_shape():
    """Sizes of a shape stand together in order; bytes are of a row, the overhead is of a batch."""
    sidecar = a_sidecar(
        solo=(
            a_solo(rows=3, name="m x3", median_ns=30 * NS_PER_MS),
            a_solo(),
            a_solo(bucket="|y", rows=1, name="m x1"),
        )
    )
    first, second = sidecar.profiles("cpu:0")
    assert [(solo.rows, solo.median_ns) for solo in first.solo] == [
        (2, 20 * NS_PER_MS),
        (3, 30 * NS_PER_MS),
    ]
    assert (first.bucket, second.bucket, first.device) == ("|x", "|y", "cpu:0")
    assert (first.transfer_in_bytes, first.overhead_ns) == (50, NS_PER_MS)
    assert sidecar.solo_ns == {
        "m x3": 30 * NS_PER_MS,
        "m x2": 20 * NS_PER_MS,
        "m x1": 20 * NS_PER_MS,
    }


def build(recipe, devices):
    """`fixed` with what is known, whatever the name."""
    times = {p.model: Profile({s.rows: s.median_ns for s in p.solo}) for p in recipe.profiles}
    return MeanPredictor(times)


def test_recording_is_judged_with_and_without_profiles(journal):
    """A profile is there from the first execution on; without one the first is not known."""
    solo = tuple(
        a_solo(name=f"ocr x{rows}", model="ocr", bucket="", rows=rows, median_ns=ms * NS_PER_MS)
        for rows, ms in ((1, 20), (4, 50))
    )
    sidecar = a_sidecar(solo=solo)
    journal.with_suffix(".json").write_bytes(msgspec.json.encode(sidecar))
    ticks = iter(range(1_000_000))
    one = judge(journal, ["fixed"], build, lambda: next(ticks))
    assert one.sidecar == sidecar
    assert one.without_profile.by_execution["fixed"][0].predicted_ns == 0
    known = next(e for e in one.with_profile.by_execution["fixed"] if e.group == "ocr x1")
    assert known.predicted_ns == 20 * NS_PER_MS
    assert one.without_profile.cost_ns["fixed"]
    assert not one.with_profile.cost_ns["fixed"]
    oracle = one.with_profile.by_execution[ORACLE]
    assert {seen.group for seen in oracle} == {"ocr x1", "ocr x4"}
    assert len(one.busy_ratios) == 2
    assert one.busy_ratios[0] > 0


def test_any_journal_has_a_row_of_each_kind(journal):
    """Executions and responses, each predictor once, costs only where they were timed."""
    ticks = iter(range(1_000_000))
    log = listen_to(journal, ["fixed", "again"], build, clock=lambda: next(ticks))
    rows = score_rows(log)
    assert [(row.of, row.predictor) for row in rows] == [
        ("execution", "fixed"),
        ("execution", "again"),
        ("response", "fixed"),
        ("response", "again"),
    ]
    assert [row.cost_us for row in rows] == [0.001, 0.001, None, None]
    assert rows[0].count == len(log.executions)


def test_bounds_that_expired_requests_outlasted_count_as_broken_and_nothing_else():
    """Coverage falls, of all and of the class; the count and errors are those of the answered."""
    one = a_judged([0.0] * 100)
    answered, expired = one.with_profile.by_response["p"], one.with_profile.by_expired["p"]
    expired += [answered[0]._replace(actual_ns=10**6, bounded_ns=10**6)] * 100
    (row,) = summarise([one], "pinned").response_prediction
    assert (row.requests, row.mape, row.coverage, row.coverage_min) == (100, 0.0, 0.5, 0.5)
    execution, response = score_rows(one.with_profile)
    assert (execution.coverage, response.coverage, response.count) == (1.0, 0.5, 100)


def test_recording_shorter_than_a_window_is_one_window(journal):
    """How busy the cores were is known of every recording, however short."""
    sidecar = a_sidecar(duration_ns=3 * NS_PER_S)
    journal.with_suffix(".json").write_bytes(msgspec.json.encode(sidecar))
    one = judge(journal, ["fixed"], build, lambda: 0)
    assert len(one.busy_ratios) == 1
    assert summarise([one], "pinned").prediction[0].busy == one.busy_ratios[0]
