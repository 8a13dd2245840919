"""The table of clients: every test that it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/clients.md").read_text("utf-8")


def test_tests_of_the_table_exist():
    """Each client has at least one, and none is named that is gone."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) > 6
    for row in rows:
        assert re.search(r"`tests/\S+\.py`", row), row
    for name in re.findall(r"`(tests/\S+\.py)`", PAGE):
        assert (ROOT / name).exists(), name
