"""The roofline: ridge, attainable work, verdicts and first guesses."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import DeviceName, ModelName
from headway.predict import ModelProfile
from headway.profiling.roofline import Limit, Roof, bounds_of, estimate_solo_ns

ROOF = Roof(flop_per_s=100e9, bytes_per_s=20e9)
AMOUNTS = st.floats(0, 1e15)
CEILINGS = st.floats(1e3, 1e16)


def a_profile(**numbers: float) -> ModelProfile:
    return ModelProfile(model=ModelName("m"), device=DeviceName("cpu:0"), **numbers)


def test_the_ceilings_meet_at_the_ridge() -> None:
    """Below it memory limits, above it arithmetic."""
    assert ROOF.ridge_flop_per_byte == 5
    assert ROOF.attainable_flop_per_s(2.5) == 50e9
    assert ROOF.attainable_flop_per_s(5) == ROOF.attainable_flop_per_s(500) == 100e9


@pytest.mark.parametrize(
    ("fused", "unfused", "limit"),
    [
        (10, 20, Limit.COMPUTE),
        (50, 500, Limit.MEMORY),
        (10, 500, Limit.EITHER),
        (0, 0, Limit.COMPUTE),
    ],
)
def test_the_verdict_compares_both_ends_with_the_ridge(fused, unfused, limit: Limit) -> None:
    """100 FLOP: the ridge is at 20 bytes."""
    bounds = bounds_of(100, fused, unfused, ROOF)
    assert bounds.limit is limit
    assert bounds.intensity_high == (100 / fused if fused else inf)


def test_work_that_moves_only_is_bound_by_memory() -> None:
    """A transposition has an intensity of 0."""
    assert bounds_of(0, 10, 10, ROOF).limit is Limit.MEMORY
    assert bounds_of(0, 0, 0, ROOF).intensity_high == 0


def test_a_guess_adds_a_batchs_weights_to_its_rows() -> None:
    """10 rows of 1 GFLOP at 100 GFLOP/s; 1 GB of weights and 0.1 to 0.3 GB a row at 20 GB/s."""
    profile = a_profile(
        flop_per_row=1e9,
        bytes_per_row_fused=0.1e9,
        bytes_per_row_unfused=0.3e9,
        weight_bytes=1_000_000_000,
    )
    guess = estimate_solo_ns(profile, ROOF, 10)
    assert guess.least_ns == 100_000_000
    assert guess.most_ns == 300_000_000
    assert guess.likely_ns == pytest.approx(173_205_081, abs=1)


def test_a_graph_that_is_not_known_gives_no_guess() -> None:
    """Zeros, which mean that nothing is known."""
    assert estimate_solo_ns(a_profile(), ROOF, 8).likely_ns == 0


@pytest.mark.parametrize("ceiling", [0.0, -1.0, inf, float("nan")])
def test_ceilings_that_are_no_speeds_are_refused(ceiling: float) -> None:
    """Neither of them."""
    with pytest.raises(ValueError, match="ceilings"):
        Roof(flop_per_s=ceiling, bytes_per_s=1)
    with pytest.raises(ValueError, match="ceilings"):
        Roof(flop_per_s=1, bytes_per_s=ceiling)


@given(AMOUNTS, AMOUNTS, AMOUNTS, CEILINGS, CEILINGS, st.integers(1, 512))
def test_guesses_are_ordered_and_grow_with_rows(
    flop, fused, unfused, flops, bandwidth, rows
) -> None:
    """Whatever the numbers are."""
    roof = Roof(flop_per_s=flops, bytes_per_s=bandwidth)
    profile = a_profile(flop_per_row=flop, bytes_per_row_fused=fused, bytes_per_row_unfused=unfused)
    guess, larger = (estimate_solo_ns(profile, roof, n) for n in (rows, rows + 1))
    assert 0 <= guess.least_ns <= guess.likely_ns <= guess.most_ns
    assert guess.least_ns <= larger.least_ns
    assert guess.most_ns <= larger.most_ns


@given(AMOUNTS, AMOUNTS, AMOUNTS, CEILINGS, CEILINGS)
def test_bounds_are_ordered_and_never_above_the_roof(
    flop, fused, unfused, flops, bandwidth
) -> None:
    """The low end is low, and nothing is attained beyond the ceiling."""
    roof = Roof(flop_per_s=flops, bytes_per_s=bandwidth)
    bounds = bounds_of(flop, fused, unfused, roof)
    assert 0 <= bounds.intensity_low <= bounds.intensity_high
    assert bounds.attainable_low_flop_per_s <= bounds.attainable_high_flop_per_s <= flops
