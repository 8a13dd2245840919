"""The measured part of the page on the soak: what the results files say, and no more."""

import measurements
import soak_table

MACHINE = {"cores": 2, "cpu": "a cpu", "system": "Linux 6", "python": "3.11"}
SOAK = {
    "command": "python benchmarks/soak.py",
    "date": "2030-01-02",
    "machine": MACHINE,
    "rows": [
        {"part": "1", "high_p99_ms": 20.0},
        {"part": "2", "high_p99_ms": 21.0},
        {
            "part": "all",
            "sent": 4321,
            "minutes": 30.0,
            "capacity_rps": 123.4,
            "completed": 4000,
            "rejected": 300,
            "expired": 20,
            "failed": 1,
            "vanished": 77,
            "kills": 12,
            "reloads": 34,
            "clock_steps": 56,
            "slow_senders_cut": 78,
            "silent_readers_cut": 90,
            "server_mib_per_hour": 0.5,
            "workers_mib_per_hour": -0.25,
            "server_fds_per_hour": 0.0,
            "server_threads_per_hour": 0.0,
            "high_p99_last_to_first": 1.05,
            "one_answer_each": True,
            "memory_is_flat": False,
        },
    ],
}


def test_page_says_what_the_file_says():
    """Counts, slopes and percentiles are the rows'; a promise that does not hold is told."""
    text = "\n".join(soak_table.blocks({"soak": SOAK}))
    for figure in ("4,321 were sent", "123.4 requests a second", "12 workers", "+0.50 MiB", "1.05"):
        assert figure in text
    assert "| every request had exactly one answer | yes |" in text
    assert "| memory is flat | no |" in text
    assert "replays" not in text


def test_page_is_silent_about_what_was_not_measured():
    """A results file that is not there leaves no trace."""
    assert list(soak_table.blocks({})) == []


def test_readme_quotes_a_soak_that_was_run():
    """Its line has the requests, the unanswered ones, and the slope."""
    (line,) = measurements.soak({"soak": SOAK})
    assert "4,321 sent" in line
    assert "every one answered once" in line
    assert "+0.5 MiB an hour" in line
