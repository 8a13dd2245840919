"""What the doctor found of what was really there, as a table of its guide."""

from collections.abc import Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]


def blocks(found: Mapping[str, Document]) -> Iterator[str]:
    """The measured part of the page; nothing where nothing was measured."""
    document = found.get("doctor")
    if document is None:
        return
    ill = [row for row in document["rows"] if row["part"] == "ill"]
    healthy = [row for row in document["rows"] if row["part"] == "healthy"]
    runs = sum(row["runs"] for row in healthy)
    false_alarms = sum(row["false_alarms"] for row in healthy)
    yield (
        f"`{document['command']}`, {document['date'][:10]}: {false_alarms} false alarms in {runs}"
        f" healthy runs of {len(healthy)} kinds."
    )
    lines = [
        f"| {row['server']} | [`{row['illness']}`](../reference/findings.md#{row['illness']})"
        f" | {row['found']} of {row['runs']} | {_sure(row)} |"
        for row in ill
    ]
    head = ["| the server | the finding | found | at least so sure |", "| --- | --- | --- | --- |"]
    yield "\n".join([*head, *lines])


def _sure(row: Mapping[str, Any]) -> str:
    return f"{100 * row['confidence']:g} %" if row["found"] else ""
