"""What the doctor may find, as a page: each check with its threshold and its remedy.

From the table that the doctor itself works through.
"""

from collections.abc import Iterator
from typing import Final

from headway.doctor import CHECKS, SURE_RATIO, Check, Severity, Source

INTRODUCTION: Final = f"""\
`headway doctor` asks each of these of what it was given. A finding names its `code`, which is
stable, its subject, the measured values that it rests on, and how sure it is that they lie beyond
the threshold and not by chance; what is less than {100 * SURE_RATIO:.0f} % sure is not said, but
listed as not told. How to run it: [the guide](../guides/doctor.md)."""

SEVERITIES: Final = {
    Severity.SERIOUS: "requests are lost by it, or will be; the exit code is 3",
    Severity.WARNING: "it costs time, memory or deadlines",
    Severity.NOTE: "worth knowing; nothing is lost by it now",
}
SOURCES: Final = {
    Source.RECORDS: "a journal (`--journal`), or the last steps of a running server (`--url`)",
    Source.PROCESSES: "the server's processes on this machine (`--url` or `--pid`)",
    Source.DEVICES: "accelerators of this machine, what a server tells of its own, or `--smi`",
    Source.METRICS: "`/metrics` of a running server (`--url`)",
    Source.TRACE: "a profiler's export (`--trace`)",
}


def blocks() -> Iterator[str]:
    """The page without its title."""
    yield INTRODUCTION
    yield "\n".join(f"- **{severity}**: {words}" for severity, words in SEVERITIES.items())
    yield "What a check needs is one of:"
    yield "\n".join(f"- **{source}**: {words}" for source, words in SOURCES.items())
    yield "| code | finding | severity |\n| --- | --- | --- |\n" + "\n".join(
        f"| [`{check.code}`](#{check.code}) | {check.title} | {check.severity} |"
        for check in CHECKS
    )
    for check in CHECKS:
        yield from _section(check)


def _section(check: Check) -> Iterator[str]:
    yield f"## {check.code}"
    needs = " or ".join(check.needs)
    yield f"**{check.title[0].upper()}{check.title[1:]}** ({check.severity}; needs {needs})."
    yield f"*When:* {check.criterion}"
    yield f"*To do:* {check.remedy}."
