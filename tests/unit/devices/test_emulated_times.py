"""The profile of an emulated model is what measuring it would come to."""

from statistics import median, quantiles

import pytest

from headway.core import BatchId, DeviceName, ModelName, SlotClass
from headway.devices import (
    EmulatedBatch,
    EmulatedMachine,
    EmulatedModel,
    accelerator,
    emulated_profile,
)

D0 = DeviceName("gpu:0")
RUNS = 1_000
MODEL = EmulatedModel.of(
    ModelName("m"),
    {"solo": "2ms", "row": "1ms", "kernels": 100, "in_bytes": 5000, "out_bytes": 700},
)


@pytest.mark.parametrize("rows", [1, 4])
def test_profile_is_that_of_a_thousand_runs(rows):
    """Median and 95th percentile of executions alone, noise and launches included."""
    machine = EmulatedMachine(accelerator("a100-pcie4"), [MODEL], [D0], seed=5)
    at_ns = 0
    taken_ns = []
    for number in range(RUNS):
        batch = EmulatedBatch(BatchId(number + 1), MODEL.name, rows, D0, SlotClass.HIGH)
        machine.start(batch, at_ns)
        at_ns += 1_000_000_000
        taken_ns += [end.execution_ns for end in machine.advance(at_ns)]
    profile = emulated_profile(accelerator("a100-pcie4"), MODEL, D0, rows)
    assert (profile.transfer_in_bytes, profile.transfer_out_bytes) == (5000, 700)
    solo = profile.solo[-1]
    assert solo.rows == rows
    assert solo.median_ns == pytest.approx(median(taken_ns), rel=0.005)
    assert solo.p95_ns == pytest.approx(quantiles(taken_ns, n=20)[-1], rel=0.01)
