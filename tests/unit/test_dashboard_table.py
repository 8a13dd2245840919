"""The measured part of the guide on the page: what the results file says, and no more."""

import dashboard_table

DOCUMENT = {
    "command": "python benchmarks/dashboard_cost.py",
    "date": "2030-01-02",
    "machine": {"cores": 2, "cpu": "a cpu", "system": "Linux 6", "python": "3.11"},
    "rows": [
        {"load_rps": 100, "viewers": 0, "cpu_percent": 8.0, "added_percent": 0.0, "event_kib": 0.0},
        {
            "load_rps": 100,
            "viewers": 10,
            "cpu_percent": 8.75,
            "added_percent": 0.754,
            "event_kib": 4.25,
        },
    ],
}


def test_costs_are_those_of_the_results_file() -> None:
    """A line a measurement; what is added is said of those with pages only."""
    words, table = dashboard_table.blocks({"dashboard_cost": DOCUMENT})
    assert "`python benchmarks/dashboard_cost.py`, 2030-01-02, on 2 cores" in words
    assert table.splitlines()[2:] == [
        "| 100 | 0 | 8.00 % |  |  |",
        "| 100 | 10 | 8.75 % | +0.75 % | 4.2 |",
    ]


def test_without_a_results_file_nothing_is_said() -> None:
    """No figure is invented."""
    assert list(dashboard_table.blocks({})) == []
