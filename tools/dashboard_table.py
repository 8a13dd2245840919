"""The measured part of `docs/guides/dashboard.md`: what it costs a server to be watched.

Every figure is read from `benchmarks/results`; without the file the part is left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import measurements

Documents = Mapping[str, Mapping[str, Any]]


def blocks(found: Documents) -> Iterator[str]:
    """The page's measured part, in order."""
    if "dashboard_cost" not in found:
        return
    document = found["dashboard_cost"]
    rows = document["rows"]
    yield (
        f"`{document['command']}`, {document['date'][:10]}, on {measurements.machine_of(document)};"
        " devices are emulated, the server's processor time is real:"
    )
    lines = [
        ("requests a second", "pages open", "of one core", "added by the pages", "an event, KiB"),
        ("---",) * 5,
        *(
            (
                f"{row['load_rps']}",
                f"{row['viewers']}",
                f"{row['cpu_percent']:.2f} %",
                f"{row['added_percent']:+.2f} %" if row["viewers"] else "",
                f"{row['event_kib']:.1f}" if row["viewers"] else "",
            )
            for row in rows
        ),
    ]
    yield "\n".join("| " + " | ".join(line) + " |" for line in lines)
