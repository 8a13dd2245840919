"""The configuration that serves the mix under each set-up."""

from itertools import count
from pathlib import Path
from random import Random

import numpy as np
import pytest

from headway.bench.inputs import _of_shape, config_of
from headway.bench.mix import MIX, TrafficClass
from headway.bench.setups import SETUPS
from headway.config import kernel_params, worker_groups


@pytest.mark.parametrize("name", list(SETUPS))
def test_setup_becomes_slots_and_processes(name):
    """Two slots a core on two cores; pinned, isolated and threaded as the set-up says."""
    setup = SETUPS[name]
    config = config_of(setup, Path("models"), (0, 1, 2, 3))
    (device,) = kernel_params(config).devices
    assert device.slot_lanes == (0, 1, 0, 1)
    (group,) = worker_groups(config, cores=(0, 1, 2, 3))
    assert [slot.cores for slot in group.slots] == (
        [(0,), (1,), (0,), (1,)] if setup.is_pinned else [()] * 4
    )
    assert group.is_isolated == setup.is_isolated
    assert {str(model.options) for model in config.models} == {str(setup.options)}


def test_every_model_takes_the_mix_and_nothing_expires():
    """A batch holds the largest request of its model; what is warmed up is what will come."""
    config = config_of(SETUPS["pinned"], Path("models"), (0, 1))
    assert {model.name for model in config.models} == {traffic.model for traffic in MIX}
    for model in config.models:
        rows = {traffic.rows for traffic in MIX if traffic.model == model.name}
        assert model.batch.rows_max == max(rows)
        assert set(model.warmup.rows) == rows
    assert config.policy.kind == "fifo"
    assert all(tier.budget > 60 * 10**9 for tier in config.tiers.values())


def test_large_rows_are_filled_with_parts():
    """Four pages make one of twice the sides, each of its own; the other sizes are drawn."""
    drawn = count(1)

    def page(_chance):
        return {"x": np.full((1, 3, 320, 320), next(drawn), np.float32)}

    traffic = TrafficClass("page x1", "page", 1, 1.0, (3, 640, 640), "ocr-detect")
    row = _of_shape(page, traffic, Random(1))["x"]
    assert row.shape == (1, 3, 640, 640)
    corners = row[0, 0, ::320, ::320]
    assert sorted(corners.flat) == [1, 2, 3, 4]
    small = traffic._replace(shape=(3, 320, 320))
    assert _of_shape(page, small, Random(1))["x"].shape == (1, 3, 320, 320)
    with pytest.raises(ValueError, match="no sample has the shape"):
        _of_shape(page, traffic._replace(shape=(3, 100, 100)), Random(1))
