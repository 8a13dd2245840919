"""What a dashboard is made of: rows of panels, each with its queries, and variables to choose by.

Knows what is shown. Refuses to know how Grafana writes it down, which `grafana.py` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Dashboard", "Kind", "Panel", "Query", "Row", "Unit", "Variable", "lines"]


class Kind(StrEnum):
    """How a panel draws, as Grafana calls it."""

    LINES = "timeseries"
    NUMBERS = "stat"
    HEATMAP = "heatmap"
    TABLE = "table"


class Unit(StrEnum):
    """What an axis counts, as Grafana calls it."""

    BYTES = "bytes"
    BYTES_PER_SECOND = "Bps"
    CELSIUS = "celsius"
    COUNT = "short"
    PER_SECOND = "cps"
    RATIO = "percentunit"
    REQUESTS_PER_SECOND = "reqps"
    SECONDS = "s"
    WATTS = "watt"


class Query(NamedTuple):
    """An expression, and what its lines are called."""

    expression: str
    legend: str = ""
    """With `{{label}}` where a label's value belongs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture.

    Invariants: a panel of a kind but lines has one query.
    """

    title: str
    says: str
    """What it shows, and what to make of it."""
    queries: Sequence[Query]
    unit: Unit
    kind: Kind = Kind.LINES
    width: int = 8
    """Of 24 columns."""
    is_stacked: bool = False
    alerts: Sequence[str] = ()
    """Alerts whose cause it shows; links to their runbooks."""


class Row(NamedTuple):
    """Panels that answer one question."""

    title: str
    panels: Sequence[Panel]


class Variable(NamedTuple):
    """A choice of labels' values at the top of a dashboard."""

    name: str
    """Also that of the label."""
    metric: str
    """Of which the values are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A page of rows."""

    name: str
    """In its file name and in its address."""
    title: str
    says: str
    variables: Sequence[Variable]
    rows: Sequence[Row]

    @property
    def panels(self) -> list[Panel]:
        """Of all rows."""
        return [panel for row in self.rows for panel in row.panels]


def lines(
    title: str,
    says: str,
    unit: Unit,
    *queries: Query,
    alerts: Sequence[str] = (),
    is_stacked: bool = False,
    width: int = 8,
) -> Panel:
    """The usual panel: lines over time."""
    return Panel(
        title=title,
        says=says,
        queries=queries,
        unit=unit,
        is_stacked=is_stacked,
        alerts=alerts,
        width=width,
    )
