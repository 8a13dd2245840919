"""Laws of steps and copies: what they say, and that they are learnt."""

from random import Random

import pytest

from headway.generate import StepLaw, StepTimes, ttft_prompt_tokens_max
from headway.generate.settings import EngineLimits

MS = 1_000_000
LAW = StepLaw()


def test_step_takes_what_is_in_it():
    """Base, prompt tokens beyond the free ones, and keys and values that are read."""
    assert LAW.step_ns(0, 0, 0) == 0.0
    assert LAW.step_ns(127, 1, 0) == 12 * MS
    assert LAW.step_ns(2_048, 0, 0) == pytest.approx(12 * MS + 1_920 * 67_000)


def test_prefill_within_a_time_is_its_inverse():
    """The tokens that fit make a step no longer than it may be; one more would."""
    tokens = LAW.prefill_within(30 * MS, 0)
    spare_ns = 12 * MS + 30 * MS
    assert LAW.step_ns(tokens, 0, 0) <= spare_ns < LAW.step_ns(tokens + 1, 0, 0)


def test_no_time_to_spare_is_no_tokens():
    """Late is late; what rides for nothing is the budget's to say."""
    assert LAW.prefill_within(-1.0, 8) == 0


def test_target_states_the_prompt_it_holds_for():
    """A first token within 400 ms is possible up to a length, and at no greater one."""
    limits = EngineLimits(blocks=3_000)
    tokens = ttft_prompt_tokens_max(LAW, limits, 400 * MS)
    assert LAW.ttft_ns_min(tokens, limits.step_tokens_max) <= 320 * MS
    assert LAW.ttft_ns_min(tokens + 1, limits.step_tokens_max) > 320 * MS
    assert 3_000 < tokens < 5_000


def test_law_is_learnt_from_steps():
    """Started from a law that is wrong by half, it says what steps take after a few hundred."""
    truth = StepLaw(base_ns=3e6, prefill_ns=90_000.0, decode_ns=2e5, context_ns=30.0)
    times = StepTimes(StepLaw(base_ns=6e6, prefill_ns=40_000.0, decode_ns=1e5, context_ns=90.0))
    random = Random("steps")
    for _ in range(400):
        counts = (
            random.choice([0, 0, 64, 256, 512]),
            random.randrange(1, 64),
            random.randrange(1_000, 60_000),
        )
        step_ns = truth.step_ns(*counts) * random.gauss(1.0, 0.02)
        times.finished(
            int(step_ns),
            prefill_tokens=counts[0],
            decode_count=counts[1],
            context_tokens=counts[2],
            pair_tokens=0,
        )
    for counts in ((0, 8, 8_000), (512, 32, 40_000), (0, 60, 55_000)):
        assert times.law.step_ns(*counts) == pytest.approx(truth.step_ns(*counts), rel=0.05)


def test_law_keeps_what_no_step_has_shown():
    """Without a prompt in any step, the time of a prompt token stays as it was believed."""
    times = StepTimes(LAW)
    for _ in range(2_000):
        times.finished(
            14 * MS, prefill_tokens=0, decode_count=30, context_tokens=30_000, pair_tokens=0
        )
    assert times.law.prefill_ns == LAW.prefill_ns
    assert times.law.step_ns(0, 30, 30_000) == pytest.approx(14 * MS, rel=0.01)
