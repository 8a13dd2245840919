"""Little's law for token-by-token models."""

import pytest

from headway.generate import Capacity, RequestMix, StepLaw

LAW = StepLaw()


def test_memory_is_weighted_by_residence():
    """A long answer is met in memory more often than a short one."""
    mix = RequestMix.of([100, 100], [10, 990])
    assert mix.resident_tokens == pytest.approx((105 * 10 + 595 * 990) / 1_000)


def test_highest_rate_is_what_the_engine_has_time_for():
    """At the highest rate it is busy all the time, with as many as memory has room for."""
    mix = RequestMix(1_000.0, 250.0, 1_200.0)
    most = Capacity(law=LAW, kv_tokens=48_000, use_ratio=1.0).at_most(mix)
    assert most.sequences == 40.0
    assert most.busy_ratio == pytest.approx(1.0)
    assert most.kv_tokens == 48_000.0


def test_lower_rate_has_fewer_sequences_for_less_time():
    """Both the number and the time in the engine rise with the rate."""
    capacity, mix = Capacity(law=LAW, kv_tokens=48_000), RequestMix(1_000.0, 250.0, 1_200.0)
    loads = [capacity.at_rate(mix, rate) for rate in (0.5, 2.0, 4.0)]
    assert [load.sequences for load in loads] == sorted(load.sequences for load in loads)
    assert [load.residence_ns for load in loads] == sorted(load.residence_ns for load in loads)
    for load in loads:
        assert load.sequences == pytest.approx(load.rate_rps * load.residence_ns / 1e9)


def test_rate_beyond_the_engine_has_no_answer():
    """There is no number of sequences that would do."""
    capacity, mix = Capacity(law=LAW, kv_tokens=48_000), RequestMix(1_000.0, 250.0, 1_200.0)
    assert capacity.at_rate(mix, 100.0) is None


def test_mix_needs_requests():
    """Nothing has no mean."""
    with pytest.raises(ValueError, match="a mix needs prompts"):
        RequestMix.of([], [])
