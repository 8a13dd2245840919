"""The mixes as data: what each may hold, and what is timed for them."""

import pytest
from tests.unit.bench.contest_words import a_mix

from headway.bench import MIXES, MOVING, STATIONARY, find_mix
from headway.bench.mixes import BUDGET_MIN_NS, kinds_of
from headway.demo import find_model
from headway.errors import ConfigError
from headway.units import NS_PER_MS


@pytest.mark.parametrize("name", list(MIXES))
def test_mix_is_whole(name):
    """Real models, one size of each, high before low, and deadlines that can be met alone."""
    mix = MIXES[name]
    models = [one.model for one in mix.classes]
    assert len(models) == len(set(models))
    for one in mix.classes:
        assert find_model(one.traffic.catalogue_name)
        assert one.traffic.rows == one.rows
        assert one.deadline_factor >= 1.5
        assert one.rows > 1 or not one.can_split
    assert max(one.priority for one in mix.high) < min(one.priority for one in mix.low)
    assert len({one.priority for one in mix.low}) == 1
    assert mix.site.endswith(".")


def test_moving_mixes_differ_and_move():
    """Eight, each with its site, from light to overload; about half have requests of many rows."""
    assert len({mix.site for mix in MOVING}) == len(MOVING) == 8
    for mix in MOVING:
        assert mix.moves
        assert (mix.load_min, mix.load_max, mix.high_share) == (0.6, 1.3, (0.10, 0.85))
        assert 3.0 <= mix.gap_cv <= 4.0
        assert 2 <= len(mix.high) <= 3
        assert 2 <= len(mix.low) <= 4
    with_rows = [mix for mix in MOVING if any(one.rows > 1 for one in mix.low)]
    assert 3 <= len(with_rows) <= 5
    assert not STATIONARY.moves


def test_budget_is_a_multiple_of_the_time_alone_and_never_tiny():
    """Below a few of the system's time slices those would decide."""
    one = a_mix().high[0]
    assert one.budget_ns(20 * NS_PER_MS) == 60 * NS_PER_MS
    assert one.budget_ns(100_000) == BUDGET_MIN_NS


def test_everything_is_timed_once_and_what_may_be_split_also_as_one_row():
    """Two mixes that share a class time it once."""
    kinds = kinds_of([a_mix(), a_mix(name="n")])
    assert [(kind.name, kind.rows) for kind in kinds] == [
        ("minilm-32 x1", 1),
        ("ocr-recognise x1", 1),
        ("minilm-bulk x4", 4),
        ("minilm-bulk x1", 1),
    ]
    assert kinds[2].catalogue_name == kinds[3].catalogue_name == "minilm"


def test_unknown_mix_is_refused():
    """With those that there are."""
    with pytest.raises(ConfigError, match="no mix `best`") as caught:
        find_mix("best")
    assert "moving-1" in (caught.value.hint or "")
