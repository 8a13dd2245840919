"""A short soak: everything at once for a third of a minute, and then the books are checked."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parent.parent.parent / "benchmarks" / "soak.py"
PROMISES = (
    "one_answer_each",
    "answers_are_right",
    "sums_agree",
    "descriptors_are_flat",
    "reloads_do_not_fail",
    "kills_are_survived",
    "slow_are_cut_off",
    "disk_was_full",
    "ends_in_order",
    "no_bug_is_logged",
)


def test_soaked_server_keeps_its_promises():
    """Workers die, models change, clients vanish, the disk fills, the clock steps: one answer each.

    Memory needs a longer run: that it is flat is for `make soak` to show.
    """
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--minutes", "0.35", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=58,
        check=False,
    )
    assert done.stdout, done.stderr
    *parts, total = json.loads(done.stdout)["rows"]
    assert [name for name in PROMISES if total[name] is not True] == [], done.stderr
    assert total["sent"] > 1000
    assert total["completed"] > total["sent"] / 2
    assert total["kills"] > 0
    assert total["reloads"] > 2
    assert total["vanished"] > 20
    assert len(parts) == 6
