"""Whole simulated runs, diagnosed from their journals: healthy ones, and ones with one illness.

Virtual time: the same on every machine, however busy it is.
"""

import pytest

from headway.cli import EXIT_OK, main
from headway.doctor import Severity, chart_of, diagnose, read_recorded

HEALTHY = """\
devices: [{name: cpu:0, slots: 4, lanes: 2}]
tiers:
  live: {priority: 0, budget: 200ms}
  bulk: {priority: 5, budget: 5s, slot_class: low}
models:
  - {name: embed, service: {1: 12ms, 8: 30ms}, noise_cv: 0.1, batch: {rows_max: 8, linger: 2ms}}
  - {name: ocr, service: {1: 30ms, 4: 80ms}, noise_cv: 0.2, batch: {rows_max: 4, linger: 5ms}}
workload:
  duration: 12s
  streams:
    - {model: embed, tier: live, arrivals: {kind: poisson, rate_rps: 100}}
    - {model: ocr, tier: bulk, arrivals: {kind: gamma, rate_rps: 15, cv: 2}}
"""
ILL = {
    "overload": ("rate_rps: 15, cv: 2", "rate_rps: 300, cv: 2"),
    "budget_infeasible": ("live: {priority: 0, budget: 200ms}", "live: {priority: 0, budget: 9ms}"),
    "crash_loop": (
        "workload:",
        "faults: [{at: 2s, device: cpu:0}, {at: 6s, device: cpu:0}, {at: 9s, device: cpu:0}]\n"
        "workload:",
    ),
    "no_work": ("rate_rps: 100", "rate_rps: 1"),
}


def diagnosed(tmp_path, text, *words):
    """A scenario, played, and what its journal tells."""
    scenario, journal = tmp_path / "scenario.yaml", tmp_path / "run.journal"
    scenario.write_text(text)
    assert main(["sim", str(scenario), "--journal", str(journal), *words]) == EXIT_OK
    return diagnose(chart_of(None, (), read_recorded(journal=journal)))


@pytest.mark.parametrize("seed", range(20))
def test_healthy_run_alarms_nobody(tmp_path, seed):
    """Twenty runs at half of what the slots can do, two tiers, bursts: notes at most."""
    diagnosis = diagnosed(tmp_path, HEALTHY, "--seed", str(seed))
    assert [f for f in diagnosis.findings if f.severity is not Severity.NOTE] == []
    assert {"overload", "budget_infeasible", "small_batches", "crash_loop", "padding"} <= set(
        diagnosis.healthy
    )


@pytest.mark.parametrize("code", ILL)
def test_illness_of_a_run_is_found(tmp_path, code):
    """The healthy run with one line changed, and not that run itself."""
    before, after = ILL[code]
    assert before in HEALTHY
    ill = diagnosed(tmp_path, HEALTHY.replace(before, after))
    assert code in {finding.code for finding in ill.findings}
    healthy = diagnosed(tmp_path, HEALTHY)
    assert code not in {finding.code for finding in healthy.findings}
