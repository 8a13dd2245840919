"""How right a predictor was: errors, bias, bounds, and how soon it had learnt.

Knows pairs of what was said and what came. Never where they are from: a journal, a simulation and
a live server are judged alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "CLASS_COUNT_MIN",
    "ErrorStep",
    "Observation",
    "Scores",
    "coverage_by_group",
    "error_by_seen",
    "learning_table",
    "score",
    "scores_table",
    "settled_after",
]

CLASS_COUNT_MIN: Final = 100
"""Observations of a class below which its coverage says little: one miss would be a percent."""
_WINDOW: Final = 20
"""Observations over which an error is averaged while it is followed."""
_SETTLED_RATIO: Final = 1.2
"""An error has settled when it is within a fifth of what it comes to."""


class Observation(NamedTuple):
    """One forecast and what came of it."""

    group: str
    """Class of what was predicted: a model and its size."""
    seen: int
    """Executions that had ended before, from which the predictor could learn."""
    predicted_ns: int
    actual_ns: int
    """Above 0."""
    bound_ns: int
    bounded_ns: int
    """What the bound was of; it may span more than the prediction. Above 0."""

    @property
    def error(self) -> float:
        """Relative to what came; below 0 where too little was predicted."""
        return (self.predicted_ns - self.actual_ns) / self.actual_ns


class Scores(Struct, frozen=True, kw_only=True):
    """One predictor over one set of observations. All but the count are ratios."""

    count: int
    mape: float
    """Mean of |predicted - actual| / actual."""
    p95_error: float
    """95th percentile of |predicted - actual| / actual, the nearest rank."""
    bias: float
    """Mean of (predicted - actual) / actual."""
    under: float
    """Part that took longer than predicted."""
    coverage: float
    """Part that ended within its bound."""
    coverage_min: float | None
    """The lowest of all classes with enough observations; None where there is none."""
    coverage_max: float | None
    """The highest of them."""
    width: float
    """Mean of bound / actual."""


class ErrorStep(NamedTuple):
    """The error while so many observations had been seen."""

    seen_min: int
    seen_max: int
    """Exclusive."""
    observations: int
    mape: float


def score(observations: Sequence[Observation]) -> Scores:
    """Judge all of one predictor's forecasts.

    Raises:
        ValueError: there are none.
    """
    if not observations:
        raise ValueError("nothing was predicted, so there is nothing to judge")
    count = len(observations)
    errors = [seen.error for seen in observations]
    sizes = sorted(abs(error) for error in errors)
    covered = [coverage for _, coverage in coverage_by_group(observations)]
    return Scores(
        count=count,
        mape=sum(sizes) / count,
        p95_error=sizes[ceil(0.95 * count) - 1],
        bias=sum(errors) / count,
        under=sum(error < 0 for error in errors) / count,
        coverage=_coverage(observations),
        coverage_min=min(covered, default=None),
        coverage_max=max(covered, default=None),
        width=sum(seen.bound_ns / seen.bounded_ns for seen in observations) / count,
    )


def coverage_by_group(
    observations: Iterable[Observation], *, count_min: int = CLASS_COUNT_MIN
) -> list[tuple[str, float]]:
    """Coverage of each class with at least so many observations, by name."""
    groups: dict[str, list[Observation]] = {}
    for seen in observations:
        groups.setdefault(seen.group, []).append(seen)
    return [
        (group, _coverage(own)) for group, own in sorted(groups.items()) if len(own) >= count_min
    ]


def error_by_seen(observations: Iterable[Observation], edges: Sequence[int]) -> list[ErrorStep]:
    """Error against how much had been seen; the steps run from each edge to the next.

    Steps without observations are left out.
    """
    ordered = sorted(observations, key=lambda seen: seen.seen)
    steps = []
    for low, high in pairwise(edges):
        errors = [abs(seen.error) for seen in ordered if low <= seen.seen < high]
        if errors:
            steps.append(ErrorStep(low, high, len(errors), sum(errors) / len(errors)))
    return steps


def settled_after(
    observations: Iterable[Observation], *, since: int = 0, settled: float | None = None
) -> int | None:
    """How many observations it takes until the error is within a fifth of what it comes to.

    The error after n is the mean over forecasts made with n to n + 19 observations seen; give the
    observations of several runs to have it over all of them. What it comes to is the mean over
    the last half of what was seen.

    Args:
        observations: of one predictor.
        since: count from this many seen.
        settled: what the error comes to, where that is known.

    Returns:
        The first n, or None if there is none in the first half.
    """
    errors: dict[int, list[float]] = {}
    for seen in observations:
        if seen.seen >= since:
            errors.setdefault(seen.seen - since, []).append(abs(seen.error))
    if not errors:
        return None
    half = (max(errors) + 1) // 2
    if settled is None:
        settled = _mean([e for n, own in errors.items() if n >= half for e in own])
    for first in range(half):
        window = [e for n in range(first, first + _WINDOW) for e in errors.get(n, ())]
        if window and _mean(window) <= _SETTLED_RATIO * settled:
            return first
    return None


def scores_table(rows: Sequence[Mapping[str, object]], *, caption: str | None = None) -> "Table":
    """Rows of results for people: ratios as percent, columns without any value left out.

    Args:
        rows: with the names of `Scores`, and whatever tells one row from another.
        caption: a line below.
    """
    from rich.table import Table

    table = Table(caption=caption)
    names = [name for name in _COLUMNS if any(row.get(name) is not None for row in rows)]
    for name in names:
        heading, unit = _COLUMNS[name]
        table.add_column(heading, justify="left" if unit is _Unit.WORD else "right")
    before: tuple[object, ...] = ()
    for row in rows:
        section = tuple(row.get(name) for name in _SECTIONS)
        if before and section != before:
            table.add_section()
        before = section
        table.add_row(*(_cell(row.get(name), _COLUMNS[name].unit) for name in names))
    return table


def learning_table(rows: Sequence[Mapping[str, object]], *, caption: str | None = None) -> "Table":
    """Errors by how much had been seen, a line for each predictor with and without a profile.

    Args:
        rows: predictor, has_profile, seen_min, mape and settled_after of each step.
        caption: a line below.
    """
    from rich.table import Table

    starts = sorted({seen for row in rows if isinstance(seen := row["seen_min"], int)})
    table = Table(caption=caption)
    for heading in ("predictor", "profile"):
        table.add_column(heading)
    for heading in (*(f"from\n{start}" for start in starts), "settled\nafter"):
        table.add_column(heading, justify="right")
    lines: dict[tuple[object, object], dict[object, Mapping[str, object]]] = {}
    for row in rows:
        lines.setdefault((row["predictor"], row["has_profile"]), {})[row["seen_min"]] = row
    for (predictor, has_profile), steps in lines.items():
        errors = [_cell(steps.get(start, {}).get("mape"), _Unit.PERCENT) for start in starts]
        settled = next(iter(steps.values()))["settled_after"]
        profile = _cell(has_profile, _Unit.WORD)
        table.add_row(str(predictor), profile, *errors, _cell(settled, _Unit.COUNT))
    return table


class _Unit(StrEnum):
    WORD = "word"
    PERCENT = "percent"
    RATIO = "ratio"
    COUNT = "count"
    MICROSECONDS = "us"


class _Column(NamedTuple):
    heading: str
    unit: _Unit


_SECTIONS: Final = ("config", "utilisation", "shift", "of")
"""Where one of these changes, a rule is drawn."""
_COLUMNS: Final[Mapping[str, _Column]] = MappingProxyType(
    {
        "config": _Column("set-up", _Unit.WORD),
        "utilisation": _Column("load", _Unit.PERCENT),
        "shift": _Column("shift", _Unit.WORD),
        "of": _Column("of", _Unit.WORD),
        "predictor": _Column("predictor", _Unit.WORD),
        "executions": _Column("executions", _Unit.COUNT),
        "requests": _Column("requests", _Unit.COUNT),
        "count": _Column("count", _Unit.COUNT),
        "mape_before": _Column("error\nbefore", _Unit.PERCENT),
        "mape_first": _Column("error\nat first", _Unit.PERCENT),
        "mape_settled": _Column("error\nsettled", _Unit.PERCENT),
        "mape": _Column("error", _Unit.PERCENT),
        "p95_error": _Column("p95\nerror", _Unit.PERCENT),
        "bias": _Column("bias", _Unit.PERCENT),
        "under": _Column("under", _Unit.PERCENT),
        "coverage": _Column("coverage", _Unit.PERCENT),
        "coverage_min": _Column("least\nof a class", _Unit.PERCENT),
        "coverage_max": _Column("most", _Unit.PERCENT),
        "coverage_after": _Column("coverage\nafter", _Unit.PERCENT),
        "width": _Column("width", _Unit.RATIO),
        "settled_after": _Column("settled\nafter", _Unit.COUNT),
        "cost_us": _Column("cost\nus", _Unit.MICROSECONDS),
        "busy": _Column("busy", _Unit.PERCENT),
        "others_cores": _Column("others'\ncores", _Unit.RATIO),
    }
)


def _cell(value: object, unit: _Unit) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    match unit:
        case _Unit.PERCENT:
            return f"{100 * value:.1f} %"
        case _Unit.RATIO:
            return f"{value:.2f}"
        case _Unit.MICROSECONDS:
            return f"{value:.1f}"
        case _:
            return f"{value:,}"


def _coverage(observations: Sequence[Observation]) -> float:
    within = sum(seen.bounded_ns <= seen.bound_ns for seen in observations)
    return within / len(observations)


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
