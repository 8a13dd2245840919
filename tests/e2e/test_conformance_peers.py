"""The conformance suite against servers of others, where they can be installed."""

import json
from pathlib import Path

import harness
import pytest
from tests.e2e.foreign import peer_python

import conformance

RESULTS = Path(__file__).parents[2] / "benchmarks/results/conformance.json"
ATTEMPTS = 2
"""Some cases are about time, and a busy machine may be too slow for another's server once."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["mlserver", "triton"])
def test_peer_does_as_the_table_of_results_says(name, capsys):
    """Who passes what is a table that we publish: it is true of the version that it names."""
    peer_python(name)
    published = json.loads(RESULTS.read_text())
    failures = [note for note in published["notes"] if note.startswith(f"{name} failed: ")]
    for attempt in range(ATTEMPTS):
        with capsys.disabled():
            rows, failed = conformance.asked(name)
        if failed == failures or attempt == ATTEMPTS - 1:
            break
    assert failed == failures
    assert rows[-1] in published["rows"]


def test_table_of_results_has_all_three():
    """Ours beside them, and none of its cases failed."""
    published = json.loads(RESULTS.read_text())
    whole = {row["server"]: row for row in published["rows"] if row["area"] == "all"}
    assert set(whole) == {"headway", "mlserver", "triton"}
    assert whole["headway"]["failed"] == 0
    assert min(row["passed"] for row in whole.values()) > 0
    assert RESULTS.parent == harness.RESULTS
