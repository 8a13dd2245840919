"""What is learnt of errors that could not be foreseen."""

import pytest

from headway.predict.residual import Residual, SlowBias

SIZE = ("m", "", 1)


def test_nothing_is_corrected_before_anything_was_seen():
    """The prior is no correction."""
    assert Residual().factor(SIZE, 3.0) == 1.0


def test_a_steady_error_is_corrected():
    """A tenth too short, again and again, is made up for."""
    residual = Residual()
    for _ in range(400):
        residual.learn(SIZE, 1.5, 100.0 * residual.factor(SIZE, 1.5), 110.0)
    assert residual.factor(SIZE, 1.5) == pytest.approx(1.1, rel=0.02)


def test_a_rare_hiccup_is_not():
    """One in twenty that takes ten times as long moves the middle hardly at all."""
    residual = Residual()
    for turn in range(400):
        actual_ns = 1000.0 if turn % 20 == 0 else 100.0
        residual.learn(SIZE, 1.0, 100.0 * residual.factor(SIZE, 1.0), actual_ns)
    assert residual.factor(SIZE, 1.0) == pytest.approx(1.0, abs=0.05)


def test_a_heavier_load_never_comes_out_shorter():
    """Whatever was learnt, factor times slowdown rises with the slowdown."""
    residual = Residual()
    for turn in range(500):
        slowdown = 1.0 + turn % 5
        residual.learn(SIZE, slowdown, 100.0 * slowdown, 100.0)
    corrected = [slowdown * residual.factor(SIZE, slowdown) for slowdown in (1.0, 2.0, 4.0, 8.0)]
    assert corrected == sorted(corrected)


def test_nonsense_is_not_learnt():
    """No time, or less, says nothing."""
    residual = Residual()
    residual.learn(SIZE, 1.0, 0.0, 5.0)
    residual.learn(SIZE, 1.0, 5.0, -1.0)
    assert residual.state() == Residual().state()


def test_state_comes_back():
    """Restored, it corrects as before; broken states are taken for none."""
    residual = Residual()
    for _ in range(50):
        residual.learn(SIZE, 2.0, 100.0, 150.0)
    fresh = Residual()
    fresh.restore(residual.state())
    assert fresh.factor(SIZE, 2.0) == residual.factor(SIZE, 2.0)
    other = Residual()
    other.restore({"all": "x", "sizes": [["m", 3, "x"]], "noise": [1]})
    assert other.state() == Residual().state()


def test_slow_bias_comes_to_rest_where_errors_balance():
    """Fed its own results it settles, without swinging past."""
    bias = SlowBias()
    factors = []
    for _ in range(3000):
        bias.learn(100.0 * bias.factor, 120.0)
        factors.append(bias.factor)
    assert factors[-1] == pytest.approx(1.2, rel=0.01)
    assert max(factors) <= 1.2 + 1e-9
    fresh = SlowBias()
    fresh.restore(bias.state())
    assert fresh.factor == bias.factor
    fresh.restore("x")
    assert fresh.factor == bias.factor


def test_sizes_are_bounded():
    """Beyond the limit a size is corrected as all are, and is not remembered."""
    residual = Residual()
    for number in range(4_200):
        residual.learn(("m", "", number), 1.0, 10.0, 10.0)
    for _ in range(50):
        residual.learn(("m", "", 4_199), 1.5, 10.0, 20.0)
        residual.learn(("m", "", 0), 1.5, 10.0, 20.0)
    assert residual.factor(("m", "", 0), 1.5) > residual.factor(("m", "", 4_199), 1.5)


def test_what_took_no_time_teaches_nothing():
    """Neither a prediction of nothing nor an outcome of nothing moves the factor."""
    bias = SlowBias()
    bias.learn(0.0, 5.0)
    bias.learn(5.0, 0.0)
    assert bias.factor == 1.0
