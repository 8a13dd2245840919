"""Rows kept for a fit."""

import json
from base64 import b64encode

import numpy as np
import pytest

from headway.predict.observations import Observations


def test_observations_before_a_count_are_the_same_whenever_asked():
    """What comes later does not change the window; what was cut away is not made up."""
    observations = Observations(2)
    for at in range(4_500):
        observations.add((at, -at))
    early = observations.before(4_400)
    for at in range(4_500, 5_400):
        observations.add((at, -at))
    late = observations.before(4_400)
    assert early.tolist() == late.tolist()
    assert (early.shape, early[0].tolist(), early[-1, 0]) == ((4_000, 2), [400.0, -400.0], 4_399.0)
    for at in range(5_400, 12_000):
        observations.add((at, -at))
    assert observations.count == 12_000
    assert observations.before(4_400) is None
    again = Observations(2)
    assert again.restore(json.loads(json.dumps(observations.state())))
    assert again.before(12_000).tolist() == observations.before(12_000).tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"first": -1},
        {"first": 10**400},
        {"width": 3},
        {"rows": "?"},
        {"rows": "AAAA"},
        {"rows": "AADAf///wH8="},
    ],
)
def test_observations_refuse_a_broken_state(change):
    """A wrong width, half a row, or what is not finite is not taken up."""
    observations = Observations(2)
    assert not observations.restore({"first": 0, "width": 2, "rows": "", **change})
    assert observations.count == 0


def test_a_state_of_more_rows_than_are_kept_is_cut():
    """The latest stay, counted as before."""
    rows = np.arange(20_000, dtype="<f4").tobytes()
    observations = Observations(2)
    assert observations.restore({"first": 7, "width": 2, "rows": b64encode(rows).decode()})
    assert observations.count == 10_007
    assert observations.before(10_007)[-1].tolist() == [19_998.0, 19_999.0]
    assert len(observations.state()["rows"]) < 5_200 * 8 * 1.4
