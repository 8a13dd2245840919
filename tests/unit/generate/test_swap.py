"""Recompute or swap: costs, the crossover, hysteresis, and the host's memory."""

import pytest

from headway.generate import (
    CopyLaw,
    PreemptWay,
    StepLaw,
    SwapRule,
    SwapSettings,
    crossover_tokens,
    kv_bytes_per_token,
)

MS = 1_000_000
RECOMPUTE, SWAP = PreemptWay.RECOMPUTE, PreemptWay.SWAP
QUADRATIC = StepLaw(prefill_ns=100.0, pair_ns=2.0)
SLOW_LINK = CopyLaw(fixed_ns=1e5, token_ns=500.0)


def test_keys_and_values_of_known_models():
    """128 KiB a token with grouped heads, 512 KiB with as many as the model has."""
    assert kv_bytes_per_token(32, 8, 128, 2) == 128 << 10
    assert kv_bytes_per_token(32, 32, 128, 2) == 512 << 10


def test_crossover_solves_its_equation():
    """At L* both ways cost the same; below it recomputing is cheaper."""
    length = crossover_tokens(QUADRATIC, SLOW_LINK)
    recompute = QUADRATIC.prefill_ns * length + QUADRATIC.pair_ns / 2 * length**2
    assert recompute == pytest.approx(2 * SLOW_LINK.copy_ns(round(length)), rel=0.01)


def test_crossover_without_a_square_is_a_quotient():
    """C / (a - s): some tens of tokens where prompts are dear and links are fast."""
    law, copies = StepLaw(prefill_ns=103_000.0), CopyLaw(fixed_ns=2.0 * MS, token_ns=4_096.0)
    assert crossover_tokens(law, copies, copies_each=1) == pytest.approx(20.2, abs=0.1)


def test_lines_that_do_not_cross_have_no_crossover():
    """Where a token is copied more slowly than it is computed, at no length is a copy better."""
    law = StepLaw(prefill_ns=100.0)
    assert crossover_tokens(law, CopyLaw(fixed_ns=1e5, token_ns=500.0)) is None


def test_rule_recomputes_short_ones_and_swaps_long_ones():
    """On either side of L*."""
    length = crossover_tokens(QUADRATIC, SLOW_LINK)
    rule = SwapRule(SwapSettings(margin_ratio=0.0), SLOW_LINK)
    assert rule.choose(int(length * 0.5), 0, QUADRATIC) is RECOMPUTE
    assert rule.choose(int(length * 2.0), 0, QUADRATIC) is SWAP


def test_rule_does_not_tremble_at_the_crossover():
    """Just beyond L* the last choice stands, in both directions."""
    length = crossover_tokens(QUADRATIC, SLOW_LINK)
    rule = SwapRule(SwapSettings(margin_ratio=0.2), SLOW_LINK)
    near, far = int(length * 1.02), int(length * 2.0)
    assert rule.choose(int(length * 0.5), 0, QUADRATIC) is RECOMPUTE
    assert rule.choose(near, 0, QUADRATIC) is RECOMPUTE
    assert rule.choose(far, 0, QUADRATIC) is SWAP
    assert rule.choose(int(length * 0.98), 0, QUADRATIC) is SWAP


def test_prefix_that_stays_is_neither_computed_nor_copied():
    """Both ways pay for what is left only."""
    rule = SwapRule(SwapSettings(), SLOW_LINK)
    whole = rule.cost_ns(RECOMPUTE, 1_000, 0, StepLaw(prefill_ns=100.0))
    assert rule.cost_ns(RECOMPUTE, 1_000, 900, StepLaw(prefill_ns=100.0)) == whole / 10
    assert rule.cost_ns(SWAP, 1_000, 900, QUADRATIC) == pytest.approx(2 * (1e5 + 500 * 100))


def test_others_wait_for_what_is_computed_and_for_copies_out():
    """Nine others wait for a full step and for a copy out; for a copy in nobody does."""
    rule = SwapRule(SwapSettings(), SLOW_LINK)
    through = SwapRule(SwapSettings(is_written_through=True), SLOW_LINK)
    idle = [each.cost_ns(way, 500, 0, QUADRATIC) for each in (rule, through) for way in PreemptWay]
    for _ in range(1_000):
        rule.stepped(10, is_full=True)
        through.stepped(10, is_full=True)
    busy = [each.cost_ns(way, 500, 0, QUADRATIC) for each in (rule, through) for way in PreemptWay]
    assert [now / then for now, then in zip(busy, idle, strict=True)] == [
        pytest.approx(10.0),
        pytest.approx(11.0 / 2.0),
        pytest.approx(10.0),
        pytest.approx(1.0),
    ]


def test_computing_that_rides_for_nothing_is_no_cost_to_others():
    """Where steps have room, only the victim waits for its tokens."""
    rule = SwapRule(SwapSettings(), SLOW_LINK)
    idle_ns = rule.cost_ns(RECOMPUTE, 500, 0, QUADRATIC)
    rule.stepped(10, is_full=False)
    assert rule.cost_ns(RECOMPUTE, 500, 0, QUADRATIC) == idle_ns


def test_full_host_has_victims_recomputed():
    """The host's memory is bounded, and is given back."""
    rule = SwapRule(SwapSettings(ways=(SWAP,), host_tokens_max=1_000), SLOW_LINK)
    assert rule.choose(800, 0, QUADRATIC) is SWAP
    rule.swapped_out(800)
    assert rule.choose(800, 0, QUADRATIC) is RECOMPUTE
    rule.left_host(800)
    assert rule.choose(800, 0, QUADRATIC) is SWAP


def test_copies_are_learnt():
    """A link of half the speed is known after some copies."""
    rule = SwapRule(SwapSettings(), CopyLaw(fixed_ns=1e6, token_ns=4_096.0))
    truth = CopyLaw(fixed_ns=2e6, token_ns=8_192.0)
    for tokens in (100, 2_000, 500, 4_000, 1_000) * 6:
        rule.copied(tokens, int(truth.copy_ns(tokens)))
    assert rule.copies.copy_ns(3_000) == pytest.approx(truth.copy_ns(3_000), rel=0.02)
