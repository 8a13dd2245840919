"""Caches: how large they are, and when moving one is quicker than computing it again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.plan import (
    PrefillLaw,
    SwapLaw,
    TransformerShape,
    crossover,
    fitted_prefill,
    preemption_curve,
    swap_law,
)

SHAPE = TransformerShape(layers=32, kv_heads=8, head_dim=128)


def test_a_token_takes_a_key_and_a_value_in_every_layer() -> None:
    """32 layers of 8 heads of 128 halves: 4 KiB a layer, 128 KiB a token."""
    assert SHAPE.layer_token_bytes == 4096
    assert SHAPE.token_bytes == 128 << 10


def test_grouped_heads_share_keys_and_values() -> None:
    """With 8 of 32 heads a cache is a quarter as large, with eight bits half of that."""
    full = TransformerShape(layers=32, kv_heads=32, head_dim=128)
    eight_bits = TransformerShape(layers=32, kv_heads=8, head_dim=128, value_bytes=1)
    assert (full.token_bytes / SHAPE.token_bytes, SHAPE.token_bytes / eight_bits.token_bytes) == (
        4,
        2,
    )


def test_memory_holds_whole_blocks() -> None:
    """What is left of a block is of no use."""
    memory = 100 * (128 << 10)
    assert (SHAPE.tokens_in(memory), SHAPE.tokens_in(memory, 16)) == (100, 96)


def test_a_link_is_gone_over_twice() -> None:
    """Out and back in: each at its own rate."""
    law = swap_law(SHAPE, out_bytes_per_s=1 << 30, in_bytes_per_s=2 << 30, fixed_ns=5.0)
    there, back = (128 << 10) / (1 << 30), (128 << 10) / (2 << 30)
    assert law == SwapLaw(5.0, pytest.approx((there + back) * 1e9))


def test_a_law_is_found_again_from_its_own_times() -> None:
    """Both parts come out of times that follow it."""
    law = PrefillLaw(70_000.0, 3.5)
    times = [(tokens, law.time_ns(tokens)) for tokens in (256, 1024, 4096)]
    assert fitted_prefill(times) == pytest.approx(law)


def test_no_part_of_a_law_is_negative() -> None:
    """Times that grow less than in proportion have no quadratic part, and the other way round."""
    assert fitted_prefill([(100, 100.0), (1000, 500.0)]).pair_ns == 0.0
    steep = fitted_prefill([(100, 1.0), (1000, 1000.0)])
    assert steep.token_ns == 0.0
    assert steep.pair_ns > 0.0


@pytest.mark.parametrize("times", [[(512, 1.0)], [(512, 1.0), (512, 2.0)], [(512, 1.0), (8, -1.0)]])
def test_a_law_needs_two_lengths_and_times(times: list[tuple[int, float]]) -> None:
    """One length says nothing of how times grow."""
    with pytest.raises(ValueError, match="prompt passes"):
        fitted_prefill(times)


LAWS = st.builds(PrefillLaw, st.floats(0, 1e6), st.floats(0, 100))
SWAPS = st.builds(SwapLaw, st.floats(0, 1e9), st.floats(0, 1e6))


@given(LAWS, SWAPS, st.integers(0, 5000))
def test_the_crossover_is_the_first_length_that_is_quicker_to_move(
    prefill: PrefillLaw, swap: SwapLaw, prefix: int
) -> None:
    """Just before it computing is no slower; from it on moving is quicker."""
    found = crossover(prefill, swap, prefix).tokens

    def moving_is_quicker(tokens: int) -> bool:
        slack = 1e-9 * prefill.time_ns(tokens, prefix)
        return swap.time_ns(tokens, prefix) < prefill.time_ns(tokens, prefix) + slack

    if found is None:
        assert not moving_is_quicker(prefix + 1_000_000) or prefill.pair_ns < 1e-12
        return
    for tokens in (found + 1, found + 1000):
        assert moving_is_quicker(tokens)
    assert found > prefix
    if found > prefix + 1:
        before = found - 1
        bound = prefill.time_ns(before, prefix) * (1 - 1e-9)
        assert swap.time_ns(before, prefix) >= bound


def test_a_curve_begins_behind_the_prefix() -> None:
    """What is kept for others anyway is neither computed nor moved."""
    prefill, swap = PrefillLaw(10.0, 0.0), SwapLaw(100.0, 1.0)
    points = preemption_curve(SHAPE, prefill, swap, (64, 128, 256), prefix=64)
    assert [(p.tokens, p.recompute_ns, p.swap_ns) for p in points] == [
        (128, 640.0, 164.0),
        (256, 1920.0, 292.0),
    ]
