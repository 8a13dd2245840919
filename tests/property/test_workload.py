"""Laws of arrival processes and of their merging."""

from itertools import islice, pairwise
from random import Random
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.units import NS_PER_S
from headway.workload import (
    FixedRows,
    Gamma,
    GapFamily,
    GapShape,
    OnOff,
    Phase,
    Piecewise,
    Poisson,
    Recorded,
    Stream,
    Uniform,
    UniformRows,
    WeightedRows,
    Workload,
)

RATES = st.floats(0.5, 500.0)
SEEDS = st.integers(0, 10_000)
SHAPES = st.builds(GapShape, st.sampled_from(GapFamily), st.floats(0.3, 4.0))
PHASES = st.builds(Phase, st.integers(1, NS_PER_S), st.floats(0.0, 500.0), SHAPES)
PROCESSES = st.one_of(
    st.builds(Poisson, RATES),
    st.builds(Gamma, RATES, st.floats(0.0, 6.0)),
    st.builds(Uniform, RATES),
    st.builds(OnOff, RATES, st.just(NS_PER_S), st.just(NS_PER_S), are_lengths_random=st.booleans()),
    st.lists(PHASES, max_size=4).map(lambda tail: Piecewise((Phase(NS_PER_S, 50.0), *tail))),
    st.builds(Recorded, st.lists(st.integers(1, 10**8), min_size=1).map(tuple), RATES),
)
ROWS = st.one_of(
    st.builds(FixedRows, st.integers(1, 64)),
    st.integers(1, 8).map(lambda low: UniformRows(low, low + 3)),
    st.just(WeightedRows(((1, 5.0), (4, 1.0)))),
)
STREAMS = st.builds(Stream, model=st.just("m"), tier=st.just("t"), arrivals=PROCESSES, rows=ROWS)
WORKLOADS = st.builds(
    Workload,
    streams=st.lists(STREAMS, min_size=1, max_size=4).map(tuple),
    duration_ns=st.integers(1, 2 * NS_PER_S),
    seed=SEEDS,
)


@given(PROCESSES, SEEDS)
def test_instants_never_go_back_and_repeat_by_seed(process, seed):
    """Instants start at 0 or later, never decrease, and depend on the chance alone."""
    instants = list(islice(process.instants(Random(f"{seed}/t")), 200))
    assert instants[0] >= 0
    assert all(earlier <= later for earlier, later in pairwise(instants))
    assert instants == list(islice(process.instants(Random(f"{seed}/t")), 200))


@given(WORKLOADS)
def test_merged_arrivals_are_the_streams_in_order(workload):
    """Merging sorts by instant and stream, within the duration, and loses or invents nothing."""
    merged = list(workload.arrivals())
    assert merged == sorted(merged, key=lambda arrival: (arrival.at_ns, arrival.stream))
    assert all(0 <= arrival.at_ns < workload.duration_ns for arrival in merged)
    for index, stream in enumerate(workload.streams):
        own = [arrival for arrival in merged if arrival.stream == index]
        assert own == list(stream.play(index, workload.seed, workload.duration_ns))
        assert {arrival.rows for arrival in own} <= set(stream.rows.support())
    assert len(merged) == workload.count()


@given(WORKLOADS, STREAMS)
def test_another_stream_changes_no_other(workload, stream):
    """A stream added at the end leaves the arrivals of the others as they were."""
    more = Workload(
        streams=(*workload.streams, stream),
        duration_ns=workload.duration_ns,
        seed=workload.seed,
    )
    added = len(workload.streams)
    assert list(workload.arrivals()) == [a for a in more.arrivals() if a.stream != added]


@given(PROCESSES, st.floats(0.1, 10.0))
def test_scaling_scales_the_rate(process, ratio):
    """The long-run rate of a scaled process is the ratio times the rate."""
    assert process.scaled(ratio).rate_rps == pytest.approx(process.rate_rps * ratio)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_gamma_has_its_rate_and_cv(seed, cv):
    """Twenty thousand gaps have the mean and the scatter that were asked for."""
    instants = list(islice(Gamma(100.0, cv).instants(Random(f"{seed}/t")), 20_000))
    gaps = [later - earlier for earlier, later in pairwise(instants)]
    assert fmean(gaps) == pytest.approx(NS_PER_S / 100, rel=0.02 + 0.03 * cv)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.15, abs=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_poisson_is_memoryless(seed):
    """Gaps scatter as much as their mean, and counts a second as much as their root."""
    instants = list(islice(Poisson(50.0).instants(Random(f"{seed}/t")), 20_000))
    gaps = [later - earlier for earlier, later in pairwise(instants)]
    counts = [0] * (instants[-1] // NS_PER_S)
    for at_ns in instants:
        if at_ns // NS_PER_S < len(counts):
            counts[at_ns // NS_PER_S] += 1
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(1.0, rel=0.05)
    assert pstdev(counts) ** 2 / fmean(counts) == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize("family", list(GapFamily))
@pytest.mark.parametrize("exponent", [0.5, 2.0])
def test_no_run_starts_with_a_surplus(family, exponent):
    """The expected count of a short window is rate times time, however bursty the gaps."""
    shape = GapShape(family, exponent)
    process = Piecewise((Phase(NS_PER_S, 5.0, shape),))
    counts = [_count_within(process, NS_PER_S, Random(f"{seed}/t")) for seed in range(6_000)]
    assert fmean(counts) == pytest.approx(5.0, rel=0.05)


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_a_seam_between_equal_phases_is_not_seen(cv):
    """A schedule whose phases have one rate is the process of that rate."""
    shape = GapShape.of_cv(cv)
    seamed = Piecewise((Phase(NS_PER_S // 10, 100.0, shape), Phase(NS_PER_S // 7, 100.0, shape)))
    whole = Gamma(100.0, cv)
    pairs = zip(
        islice(seamed.instants(Random(3)), 2_000),
        islice(whole.instants(Random(3)), 2_000),
        strict=True,
    )
    assert all(abs(one - other) <= 100 for one, other in pairs)


def _count_within(process, length_ns, chance):
    count = 0
    for at_ns in process.instants(chance):
        if at_ns >= length_ns:
            return count
        count += 1
    return count
