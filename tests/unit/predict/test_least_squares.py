"""Recursive least squares, by example; their laws are in tests/property."""

import math

import numpy as np
import pytest

from headway.predict.least_squares import LeastSquares


def test_least_squares_find_the_line():
    """Two weights are found from a few rows, and the variance of each is used up."""
    squares = LeastSquares(np.zeros(2), np.full(2, 3.0))
    for at in range(40):
        row = np.array([1.0, float(at % 5)])
        squares.learn(row, 0.5 + 0.25 * row[1])
    assert squares.weights.tolist() == pytest.approx([0.5, 0.25], abs=0.02)


def test_least_squares_take_up_what_they_gave():
    """Weights and covariance go over: what is learnt next is the same."""
    squares, again = (LeastSquares(np.zeros(2), np.ones(2)) for _ in range(2))
    squares.learn(np.array([1.0, 2.0]), 0.1)
    assert again.restore(squares.state())
    for each in (squares, again):
        each.learn(np.array([1.0, -1.0]), 0.3)
    assert again.weights.tolist() == squares.weights.tolist()
    assert squares.state() == again.state()


@pytest.mark.parametrize("change", [{}, {"weights": [1.0]}, {"weights": [1.0, math.nan]}])
def test_least_squares_refuse_a_broken_state(change):
    """Weights of another width, or that are no numbers, are not taken up."""
    squares = LeastSquares(np.zeros(2), np.ones(2))
    broken = {"covariance": [1.0] * 4, **change}
    assert not squares.restore(broken)
    assert not squares.restore(None)
    assert squares.weights.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "covariance",
    [[100.0, 0.0, 0.0, 1.0], [1.0, 0.5, -0.5, 1.0], [1.0, 2.0, 2.0, 1.0], [-1.0, 0.0, 0.0, 1.0]],
)
def test_what_is_no_covariance_is_refused(covariance):
    """Too large, not symmetric or negative in some direction: nothing of it is taken."""
    squares = LeastSquares(np.zeros(2), np.ones(2))
    assert not squares.restore({"weights": [0.5, 0.5], "covariance": covariance})
    assert squares.weights.tolist() == [0.0, 0.0]
