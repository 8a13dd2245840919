"""A recorded run for tests of what reads journals: simulated, with batches, expiries and a loss."""

from pathlib import Path

from headway.cli import EXIT_OK, main

SCENARIO = """\
devices: [{name: cpu:0, slots: 2}]
tiers:
  live: {priority: 0, budget: 60ms}
  bulk: {priority: 5, budget: 90ms, slot_class: low}
models:
  - {name: ocr, service: {1: 20ms, 4: 50ms}, noise_cv: 0.2, batch: {rows_max: 4, linger: 3ms}}
workload:
  duration: 3s
  streams:
    - {model: ocr, tier: live, arrivals: {kind: poisson, rate_rps: 60}}
    - {model: ocr, tier: bulk, arrivals: {kind: gamma, rate_rps: 90, cv: 3}}
faults: [{at: 1s, device: cpu:0}]
"""


def record_run(path: Path) -> Path:
    """Write the journal of the run under `priority`, its scenario beside it."""
    scenario = path.with_name("scenario.yaml")
    scenario.write_text(SCENARIO)
    assert main(["sim", str(scenario), "--policy", "priority", "--journal", str(path)]) == EXIT_OK
    return path
