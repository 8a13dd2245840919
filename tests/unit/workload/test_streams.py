"""Streams, their merging, and what a sample says of itself."""

import subprocess
import sys
from itertools import islice
from random import Random

import pytest

from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import (
    Arrival,
    FixedRows,
    OnOff,
    Outcome,
    Phase,
    Piecewise,
    Poisson,
    Recorded,
    Sample,
    Stream,
    Uniform,
    UniformRows,
    WeightedRows,
    Workload,
)


def a_stream(arrivals, **fields):
    """A stream of the model `ocr`."""
    return Stream(**{"model": "ocr", "tier": "batch", "arrivals": arrivals, **fields})


def a_sample(**fields):
    """A request due at 10 ms, sent at 12 and answered at 60, in a budget of 50 ms."""
    times = {
        "intended_at_ns": 10 * NS_PER_MS,
        "sent_at_ns": 12 * NS_PER_MS,
        "done_at_ns": 60 * NS_PER_MS,
    }
    given = {
        "model": "ocr",
        "tier": "live",
        "tenant": "a",
        "outcome": Outcome.COMPLETED,
        "budget_ns": 50 * NS_PER_MS,
    }
    return Sample(**{**times, **given, **fields})


def test_ties_go_to_the_earlier_stream():
    """At one instant the stream that stands first comes first."""
    gaps = Recorded((NS_PER_S,), 1.0)
    workload = Workload(streams=(a_stream(gaps), a_stream(gaps)), duration_ns=3 * NS_PER_S)
    assert [(a.at_ns // NS_PER_S, a.stream) for a in workload.arrivals()] == [
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
    ]


def test_an_arrival_carries_its_stream():
    """Model, tier, tenant, rows, budget and priority come from the stream."""
    stream = a_stream(
        Recorded((5,), 1e9 / 5), rows=FixedRows(3), budget_ns=7, priority=2, tenant="acme"
    )
    workload = Workload(streams=(stream,), duration_ns=6)
    assert list(workload.arrivals()) == [Arrival(5, 0, "ocr", "batch", "acme", 3, 7, 2)]


def test_a_stream_keeps_to_its_window():
    """Nothing arrives before the start, at the stop, or after the workload."""
    stream = a_stream(Poisson(1_000.0), start_at_ns=NS_PER_S, stop_at_ns=2 * NS_PER_S)
    instants = [a.at_ns for a in Workload(streams=(stream,), duration_ns=9 * NS_PER_S).arrivals()]
    assert min(instants) >= NS_PER_S
    assert max(instants) < 2 * NS_PER_S
    assert Workload(streams=(stream,), duration_ns=NS_PER_S).count() == 0


def test_the_same_seed_is_the_same_under_any_hash_seed():
    """Another process with another hash seed plays the same workload."""
    code = (
        "from headway.workload import *\n"
        "s = [Stream(model=m, tier='t', arrivals=Gamma(50.0, 3.0), rows=UniformRows(1, 8))"
        " for m in 'abc']\n"
        "w = Workload(streams=tuple(s), duration_ns=10**10, seed=5)\n"
        "print([(a.at_ns, a.model, a.rows) for a in w.arrivals()])\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_on_off_pauses():
    """Nothing arrives in a pause, and bursts come at their rate."""
    instants = list(islice(OnOff(100.0, NS_PER_S, NS_PER_S).instants(Random("7/t")), 1_000))
    assert all(at_ns // NS_PER_S % 2 == 0 for at_ns in instants)
    assert instants[-1] == pytest.approx(20 * NS_PER_S, rel=0.15)


def test_on_off_lengths_can_be_random():
    """With lengths by chance the long-run rate stays."""
    process = OnOff(100.0, NS_PER_S, 3 * NS_PER_S, 20.0, are_lengths_random=True)
    instants = list(islice(process.instants(Random("7/t")), 40_000))
    assert process.rate_rps == 40.0
    assert 40_000 / (instants[-1] / NS_PER_S) == pytest.approx(40.0, rel=0.1)


def test_piecewise_follows_its_schedule():
    """Each phase has its rate, and the schedule starts over."""
    process = Piecewise((Phase(NS_PER_S, 1_000.0), Phase(NS_PER_S, 4_000.0)))
    instants = list(islice(process.instants(Random("7/t")), 50_000))
    first = sum(at_ns // NS_PER_S % 2 == 0 for at_ns in instants)
    assert first / 50_000 == pytest.approx(0.2, abs=0.01)


def test_recorded_repeats_exactly():
    """The recording runs again and again, stretched to its rate."""
    process = Recorded((10, 20, 30), NS_PER_S / 20).scaled(2.0)
    assert list(islice(process.instants(Random(1)), 7)) == [5, 15, 30, 35, 45, 60, 65]


def test_recorded_can_start_anywhere():
    """With rotation, seeds see different beginnings of the same gaps."""
    process = Recorded(tuple(range(1, 100)), 1.0, is_rotated=True)
    firsts = {next(process.instants(Random(seed))) for seed in range(10)}
    assert len(firsts) > 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: Poisson(0.0),
        lambda: Uniform(-1.0),
        lambda: Poisson(float("nan")),
        lambda: Phase(0, 1.0),
        lambda: Phase(1, -1.0),
        lambda: Piecewise((Phase(1, 0.0),)),
        lambda: Recorded((), 1.0),
        lambda: Recorded((0, 0), 1.0),
        lambda: Recorded((5, -1), 1.0),
        lambda: FixedRows(0),
        lambda: UniformRows(3, 2),
        lambda: WeightedRows(()),
        lambda: WeightedRows(((2, 1.0), (1, 1.0))),
        lambda: WeightedRows(((1, 0.0),)),
        lambda: a_stream(Poisson(1.0), budget_ns=0),
        lambda: Workload(streams=(), duration_ns=1),
        lambda: Workload(streams=(a_stream(Poisson(1.0)),), duration_ns=0),
    ],
)
def test_nonsense_is_refused(make):
    """What cannot be played cannot be made."""
    with pytest.raises(ValueError, match=r"."):
        make()


def test_latency_counts_from_the_intended_instant():
    """A request that left late was late for its client."""
    sample = a_sample()
    assert (sample.latency_ns, sample.send_delay_ns) == (50 * NS_PER_MS, 2 * NS_PER_MS)
    assert not sample.is_violation
    assert a_sample(intended_at_ns=9 * NS_PER_MS).is_violation


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_a_completed_request_is_served(outcome):
    """Whatever did not complete is a violation, unless its client left of itself."""
    expected = outcome not in {Outcome.COMPLETED, Outcome.CANCELLED}
    assert a_sample(outcome=outcome, budget_ns=None).is_violation == expected
