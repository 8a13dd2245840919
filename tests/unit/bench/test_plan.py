"""When requests arrive, and how much work they bring."""

import pytest

from headway.bench.mix import LATE_MODEL, MIX, TrafficClass, rows_max_of
from headway.bench.plan import plan_arrivals
from headway.units import NS_PER_MS, NS_PER_S

SOLO_NS = {traffic.name: (index + 1) * 10 * NS_PER_MS for index, traffic in enumerate(MIX)}


def a_plan(ratios=(0.8, 0.8), seed=1, late_model=None):
    """Twenty seconds on two cores."""
    return plan_arrivals(
        MIX,
        SOLO_NS,
        work_ratios=ratios,
        cores_count=2,
        duration_ns=20 * NS_PER_S,
        seed=seed,
        late_model=late_model,
    )


def work_ns(plan):
    """What the arrivals take alone, all together."""
    return sum(SOLO_NS[MIX[arrival.class_index].name] for arrival in plan)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_plan_brings_the_work_that_was_asked_for(seed):
    """Whatever the seed, each half has its part of the cores' time, to the last request."""
    plan = a_plan((0.4, 0.9), seed=seed)
    first = [arrival for arrival in plan if arrival.at_ns < 10 * NS_PER_S]
    second = [arrival for arrival in plan if arrival.at_ns >= 10 * NS_PER_S]
    longest_ns = max(SOLO_NS.values())
    assert 0 <= work_ns(first) - 0.4 * 20 * NS_PER_S < longest_ns
    assert 0 <= work_ns(second) - 0.9 * 20 * NS_PER_S < longest_ns


def test_plan_is_ordered_and_repeats_itself():
    """The same seed gives the same instants in order, another seed gives others."""
    plan = a_plan()
    assert plan == sorted(plan, key=lambda arrival: arrival.at_ns)
    assert plan[-1].at_ns < 20 * NS_PER_S
    assert plan == a_plan()
    assert plan != a_plan(seed=2)


def test_late_model_joins_half_way():
    """None of its classes is asked for before, and every one after."""
    late = {index for index, traffic in enumerate(MIX) if traffic.model == LATE_MODEL}
    plan = a_plan(late_model=LATE_MODEL)
    before = {a.class_index for a in plan if a.at_ns < 10 * NS_PER_S}
    after = {a.class_index for a in plan if a.at_ns >= 10 * NS_PER_S}
    assert late
    assert not late & before
    assert late <= after


def test_mix_is_whole_and_never_merges():
    """The weights make up one, five models or more are asked for, and no two requests fit."""
    assert sum(traffic.weight for traffic in MIX) == pytest.approx(1.0)
    assert len({traffic.model for traffic in MIX}) >= 5
    for model in {traffic.model for traffic in MIX}:
        rows = [traffic.rows for traffic in MIX if traffic.model == model]
        assert rows_max_of(model) == max(rows) < 2 * min(rows)


def test_requests_that_could_merge_are_refused():
    """A class of one row beside one of two would share batches, and be no class of its own."""
    mix = (TrafficClass("a", "m", 1, 0.5), TrafficClass("b", "m", 2, 0.5))
    with pytest.raises(ValueError, match="1 and 2 rows could merge"):
        rows_max_of("m", mix)
