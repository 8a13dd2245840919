"""The tail as a table and in sentences, for a terminal. Readable without colour.

Knows the report of `tail`, and rich.
"""

from collections.abc import Iterator
from typing import Final

from rich.table import Table

from headway.report.remedies import LABELS
from headway.report.tail import TailCause, TailGroup, TailReport
from headway.units import format_duration

__all__ = ["remedy_lines", "tail_table"]

_FEW: Final = 100
"""With fewer requests the p99 is the worst of them."""


def tail_table(report: TailReport) -> Table:
    """A line for each cause of each model and tier, whatever adds most first."""
    table = Table()
    table.add_column("model, tier")
    table.add_column("cause")
    for name in ("around p50", "p99 and beyond", "adds", "share"):
        table.add_column(name, justify="right")
    for group in report.groups:
        name = f"{group.model}, {group.tier}"
        for cause in group.causes:
            table.add_row(name, LABELS[cause.cause], *_cells(cause))
            name = ""
        whole = (group.middle_ns, group.tail_ns, group.tail_ns - group.middle_ns)
        table.add_row("", "latency", *map(_time, whole), "")
        table.add_section()
    table.caption = (
        "means of requests between p45 and p55, and of those at p99 and beyond; answered ones and "
        "those that expired at their deadline"
    )
    table.caption_justify = "left"
    return table


def remedy_lines(report: TailReport) -> Iterator[str]:
    """What to do, for each model and tier."""
    for group in report.groups:
        yield ""
        yield _summary(group)
        for cause in group.causes:
            if cause.remedy is not None:
                adds = f"adds {_time(cause.added_ns)}, {cause.added_ratio:.0%}"
                yield f"  {LABELS[cause.cause]} ({adds}): {cause.remedy}"
    if report.pauses:
        yield ""
        often = "once" if report.pauses == 1 else f"{report.pauses} times"
        yield f"The host paused {often}, {_time(report.paused_ns)} in all; all models wait then."


def _summary(group: TailGroup) -> str:
    ended = f"{group.requests} requests, {group.late} late and {group.expired} expired"
    if group.ended_early:
        ended += f"; {group.ended_early} more were refused, given up, cancelled or failed"
    few = f" (of fewer than {_FEW}, so the worst)" if group.requests < _FEW else ""
    return (
        f"{group.model}, tier {group.tier}: p50 {_time(group.p50_ns)}, p99 {_time(group.p99_ns)}"
        f"{few}; {ended}"
    )


def _cells(cause: TailCause) -> list[str]:
    return [
        _time(cause.middle_ns),
        _time(cause.tail_ns),
        _time(cause.added_ns),
        f"{round(cause.added_ratio, 3) + 0.0:.1%}",  # no -0.0%
    ]


def _time(duration_ns: int) -> str:
    return format_duration(duration_ns)
