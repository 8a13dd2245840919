"""Beliefs and how observations move them."""

import math

import pytest

from headway.predict.belief import Belief, assimilate


def a_belief(mean=0.0, sigma=1.0, drift_sigma=0.0):
    return Belief(mean, sigma, drift_sigma=drift_sigma, low=-10.0, high=10.0)


def test_a_surprise_is_shared_by_variance():
    """What is less firmly believed gives way more."""
    loose, firm = a_belief(sigma=1.0), a_belief(sigma=0.1)
    assimilate(1.0, 0.01, [(loose, 1.0), (firm, 1.0)])
    assert loose.mean == pytest.approx(1.0 / 1.02)
    assert firm.mean == pytest.approx(0.01 / 1.02)
    assert loose.variance < 1.0


def test_observations_converge_on_what_is_observed():
    """Many observations of one number are followed."""
    belief = a_belief(drift_sigma=0.01)
    for _ in range(200):
        assimilate(2.0 - belief.mean, 0.04, [(belief, 1.0)])
    assert belief.mean == pytest.approx(2.0, abs=0.01)


def test_a_far_surprise_counts_as_three_sigmas():
    """One outlier moves a belief no more than a merely unusual observation does."""
    belief = a_belief(sigma=0.1)
    assimilate(1e9, 0.01, [(belief, 1.0)])
    assert belief.mean <= 3.0 * math.sqrt(0.02)


@pytest.mark.parametrize("surprise", [math.nan, math.inf, -math.inf])
def test_nonsense_changes_nothing(surprise):
    """A surprise that is no number is none."""
    belief = a_belief(mean=0.5)
    assimilate(surprise, 0.01, [(belief, 1.0)])
    assert belief.dump() == [0.5, 1.0]


def test_limits_hold_however_often_it_is_pushed():
    """A belief never leaves its limits, by learning or by loading."""
    belief = Belief(0.0, 1.0, drift_sigma=0.5, low=-0.1, high=0.1)
    for _ in range(50):
        assimilate(5.0, 0.01, [(belief, 1.0)])
    assert belief.mean == 0.1
    belief.load((-7.0, 9.0))
    assert belief.dump() == [-0.1, 1.0]
    belief.load((math.nan, 0.5))
    belief.load((0.0, -1.0))
    assert belief.dump() == [-0.1, 1.0]
