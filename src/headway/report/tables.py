"""Tables for a terminal: one run in detail, or several side by side.

Knows summaries and rich. Readable without colour.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from rich.table import Table

from headway.report.summary import GroupSummary, PredictionSummary, Summary
from headway.units import format_duration

__all__ = ["comparison_table", "summary_table"]

_NOTHING = "–"


def summary_table(summary: Summary, *, title: str = "") -> Table:
    """One run: a line for each tier, then for each model, then for all.

    A column without a number that says anything is left out.
    """
    sections = (
        {f"tier {name}": group for name, group in summary.tiers.items()},
        {f"model {name}": group for name, group in summary.models.items()},
        {"all": summary.total},
    )
    groups = [group for section in sections for group in section.values()]
    columns = {name: cell for name, cell in _COLUMNS.items() if _says_something(cell, groups)}
    table = Table(title=title or None, title_justify="left")
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for section in sections:
        for name, group in section.items():
            table.add_row(name, *(cell(group) for cell in columns.values()))
        table.add_section()
    table.caption = (
        f"{format_duration(summary.duration_ns)} at {summary.offered_rps:.1f} req/s; "
        "latency from the instant a request was due; percentiles of completed requests"
    )
    return table


def comparison_table(runs: Mapping[str, Sequence[Summary]], *, title: str = "") -> Table:
    """Several policies, each a column, over one or more runs of the same load.

    With several runs a cell is their mean, and the least and the most behind it.
    """
    table = Table(title=title or None, title_justify="left")
    table.add_column("tier")
    table.add_column("")
    for policy in runs:
        table.add_column(policy, justify="right")
    tiers = dict.fromkeys(
        tier for summaries in runs.values() for summary in summaries for tier in summary.tiers
    )
    for tier in tiers:
        groups = {
            policy: [summary.tiers[tier] for summary in summaries if tier in summary.tiers]
            for policy, summaries in runs.items()
        }
        _add_groups(table, str(tier), groups)
    totals = {policy: [summary.total for summary in runs[policy]] for policy in runs}
    _add_groups(table, "all", totals)
    count = max(len(summaries) for summaries in runs.values())
    if count > 1:
        table.caption = f"mean of {count} runs (least to most)"
    return table


def _add_groups(table: Table, name: str, groups: Mapping[str, Sequence[GroupSummary]]) -> None:
    for label, measure, show in _COMPARED:
        cells = [_spread([measure(group) for group in groups[p]], show) for p in groups]
        if label in _PREDICTED and not any(cell != _NOTHING for cell in cells):
            continue
        table.add_row(name, label, *cells)
        name = ""
    table.add_section()


def _spread(numbers: Sequence[float | None], show: Callable[[float], str]) -> str:
    known = [number for number in numbers if number is not None]
    if not known:
        return _NOTHING
    middle = show(fmean(known))
    if len(known) == 1:
        return middle
    return f"{middle} ({show(min(known))} to {show(max(known))})"


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.2f} %"


def _of_predictions(
    measure: Callable[[PredictionSummary], float | None],
) -> Callable[[GroupSummary], float | None]:
    """A number of a group's predictions; None where it has none."""
    return lambda group: None if group.predictions is None else measure(group.predictions)


_PREDICTED: Mapping[str, Callable[[GroupSummary], float | None]] = {
    "prediction error": _of_predictions(lambda predictions: predictions.error_ratio),
    "prediction bias": _of_predictions(lambda predictions: predictions.bias_ratio),
    "in bound": _of_predictions(lambda predictions: predictions.covered_ratio),
}
"""How far predictions were off on average, to which side, and what part ended within its bound."""


def _ratio_cell(
    measure: Callable[[GroupSummary], float | None],
) -> Callable[[GroupSummary], str]:
    def cell(group: GroupSummary) -> str:
        ratio = measure(group)
        return _NOTHING if ratio is None else _percent(ratio)

    return cell


def _time(duration_ns: float | None) -> str:
    return _NOTHING if duration_ns is None else format_duration(round(duration_ns))


_COMPARED: Sequence[tuple[str, Callable[[GroupSummary], float | None], Callable[[float], str]]] = (
    ("violations", lambda group: group.violation_ratio, _percent),
    ("goodput, req/s", lambda group: group.goodput_rps, lambda rate: f"{rate:.1f}"),
    ("p50", lambda group: group.latency_p50_ns, _time),
    ("p99", lambda group: group.latency_p99_ns, _time),
    ("p99.9", lambda group: group.latency_p999_ns, _time),
    *((name, measure, _percent) for name, measure in _PREDICTED.items()),
)

_COLUMNS: Mapping[str, Callable[[GroupSummary], str]] = {
    "requests": lambda group: str(group.requests),
    "violations": lambda group: f"{group.violations} ({_percent(group.violation_ratio)})",
    "late": lambda group: str(group.late),
    "rejected": lambda group: str(group.rejected),
    "expired": lambda group: str(group.expired),
    "failed": lambda group: str(group.failed + group.unanswered + group.unsent),
    "budget": lambda group: _time(group.budget_ns),
    "p50": lambda group: _time(group.latency_p50_ns),
    "p99": lambda group: _time(group.latency_p99_ns),
    "p99.9": lambda group: _time(group.latency_p999_ns),
    "goodput/s": lambda group: f"{group.goodput_rps:.1f}",
    "queue p50": lambda group: _time(group.queue_delay_p50_ns),
    "service p50": lambda group: _time(group.service_p50_ns),
    "sent late p99": lambda group: _time(group.send_delay_p99_ns),
    **{name: _ratio_cell(measure) for name, measure in _PREDICTED.items()},
}


def _says_something(cell: Callable[[GroupSummary], str], groups: Sequence[GroupSummary]) -> bool:
    """A column of nothing only takes room."""
    return any(cell(group) not in {_NOTHING, "0"} for group in groups)
