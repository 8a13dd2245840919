"""A kernel that is timed as it decides."""

import pytest

from headway.core import KernelParams, RequestArrived
from headway.policy import fifo
from headway.sim.timed import TimedKernel
from headway.testing import MeanPredictor, a_device, a_request


def test_steps_are_timed_by_the_clock_that_was_handed_in():
    """Two readings a step; their difference is what it took, and its commands are as ever."""
    readings = iter([0, 100, 500, 1_000, 9_000, 9_100])
    params = KernelParams(devices=(a_device(),))
    kernel = TimedKernel(params, fifo(MeanPredictor()), lambda: next(readings))
    assert kernel.decision_ns(0.5) is None
    for number in (1, 2, 3):
        (reject,) = kernel.handle(RequestArrived(request=a_request(number)), 0)
        assert reject.request_id == number
    assert kernel.decision_ns(0.5) == pytest.approx(100, rel=0.02)
    assert kernel.decision_ns(1.0) == pytest.approx(500, rel=0.02)
