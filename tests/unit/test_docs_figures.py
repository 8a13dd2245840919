"""Figures in pages that are not generated are those of the results files."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASGI = json.loads((ROOT / "benchmarks/results/asgi_servers.json").read_text("utf-8"))
SERVERS = sorted({row["server"] for row in ASGI["rows"]})


@pytest.mark.parametrize("server", SERVERS)
def test_decision_on_the_http_server_quotes_its_results(server: str) -> None:
    """ADR 0006's table has the requests a second that the results file has."""
    page = (ROOT / "docs/internals/adr/0006-asgi-server.md").read_text("utf-8")
    rows = [row for row in ASGI["rows"] if row["server"] == server]
    rps = " / ".join(f"{row['rps']:,.0f}" for row in sorted(rows, key=lambda r: r["connections"]))
    assert rps in page


def test_decision_on_values_quotes_its_results() -> None:
    """ADR 0007 has the nanoseconds that the results file has."""
    page = (ROOT / "docs/internals/adr/0007-structs-for-events.md").read_text("utf-8")
    rows = json.loads((ROOT / "benchmarks/results/values.json").read_text("utf-8"))["rows"]
    assert [row["kind"] for row in rows if f"{row['ns_each']:,} ns" not in page] == []


def test_guide_on_tracing_quotes_its_results() -> None:
    """The guide's table of costs has the microseconds that the results file has."""
    page = (ROOT / "docs/guides/tracing.md").read_text("utf-8")
    results = json.loads((ROOT / "benchmarks/results/tracing_cost.json").read_text("utf-8"))
    _, *rows = results["rows"]
    lines = [
        f"| {row['request']} | {row['added_us']:.1f} us | {row['thread_us']:.0f} us |"
        for row in rows
    ]
    assert [line for line in lines if line not in page] == []
