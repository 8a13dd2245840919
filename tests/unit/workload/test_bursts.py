"""Bursts that are drawn: what they promise about rates, gaps and lengths."""

from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from headway.units import NS_PER_S
from headway.workload import BurstLoad, PowerLaw, burst_trace

LOAD = BurstLoad(rate_rps=10.0)


def test_bursts_of_one_seed_are_the_same_and_of_another_are_not():
    """Chance is an argument."""
    assert burst_trace(LOAD, 1, 50) == burst_trace(LOAD, 1, 50)
    assert burst_trace(LOAD, 1, 50) != burst_trace(LOAD, 2, 50)


def test_bursts_keep_their_rate_in_the_long_run():
    """Ten a second over all windows, however uneven they are."""
    trace = burst_trace(LOAD, 3, 60_000)
    assert 60_000 * NS_PER_S / trace.at_ns[-1] == pytest.approx(10.0, rel=0.1)


def test_bursts_are_burstier_than_chance():
    """Gaps scatter by three times their mean and more, as windows differ, too."""
    at_ns = burst_trace(LOAD, 1, 20_000).at_ns
    gaps = [later - earlier for earlier, later in pairwise(at_ns)]
    assert at_ns[0] == 0
    assert pstdev(gaps) / fmean(gaps) > 2.5


def test_lengths_do_not_move_with_the_rate():
    """A load at twice the rate asks the same questions."""
    twice = burst_trace(BurstLoad(rate_rps=20.0), 1, 100)
    assert twice.input_tokens == burst_trace(LOAD, 1, 100).input_tokens


def test_lengths_are_within_bounds_and_mostly_short():
    """Half are below a tenth of the most, and the longest tenth holds a third of all tokens."""
    tokens = sorted(burst_trace(LOAD, 1, 5_000).input_tokens)
    assert LOAD.prompt.tokens_min <= tokens[0]
    assert tokens[-1] <= LOAD.prompt.tokens_max
    assert tokens[2_500] < 820
    assert sum(tokens[4_500:]) > sum(tokens) / 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate_rps": 0.0},
        {"rate_rps": 1.0, "cv": -1.0},
        {"rate_rps": 1.0, "window_ns": 0},
        {"rate_rps": 1.0, "window_cv": -0.1},
    ],
)
def test_load_that_is_none_is_refused(wrong):
    """Where it is written, not where it is drawn."""
    with pytest.raises(ValueError, match=r"rate|cv|scatter"):
        BurstLoad(**wrong)


def test_power_law_without_room_is_refused():
    """Bounds the wrong way round, or no exponent."""
    with pytest.raises(ValueError, match="`9` <= `3`"):
        PowerLaw(exponent=1.0, tokens_min=9, tokens_max=3)
    with pytest.raises(ValueError, match="exponent"):
        PowerLaw(exponent=0.0, tokens_min=1, tokens_max=3)
    with pytest.raises(ValueError, match="a request"):
        burst_trace(LOAD, 1, 0)
