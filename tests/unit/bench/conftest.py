"""A recorded run for the tests of the benchmark."""

from pathlib import Path

import pytest
from tests.recorded_run import record_run


@pytest.fixture
def journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Of a run under `priority`."""
    path = record_run(tmp_path / "run.jsonl")
    capsys.readouterr()
    return path
