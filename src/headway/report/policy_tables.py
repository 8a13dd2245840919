"""Policies side by side on a terminal: what each was worth, and how one differs from the others.

Knows rows as `policies` makes them, and rich. Readable without colour.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich.table import Table

from headway.report.policies import PolicyDifference, PolicySummary

__all__ = ["differences_table", "policies_table"]

_NOTHING: Final = "–"


def policies_table(rows: Sequence[PolicySummary], *, title: str = "") -> Table:
    """A line for each policy, a section for each mix, load and kind of slots."""
    table = Table(title=title or None, title_justify="left")
    table.add_column("mix", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    columns = {
        name: cell for name, cell in _COLUMNS.items() if any(cell(row) != _NOTHING for row in rows)
    }
    for name in columns:
        table.add_column(name, justify="right")
    before: tuple[object, ...] | None = None
    for row in rows:
        section = (row.mix, row.load, row.niced)
        if before is not None and section != before:
            table.add_section()
        table.add_row(
            _where(row.mix, row.load, niced=row.niced) if section != before else "",
            row.policy,
            *(cell(row) for cell in columns.values()),
        )
        before = section
    table.caption = (
        "refused, given up, late and failed all count as violations; * on the front of its mix; "
        "± half of the 95 % interval over seeds"
    )
    return table


def differences_table(rows: Sequence[PolicyDifference], *, title: str = "") -> Table:
    """One policy less each of the others, on the same arrivals."""
    table = Table(title=title or None, title_justify="left")
    for name in ("mix", "policy", "less"):
        table.add_column(name, no_wrap=True)
    headers = ("pairs", "high viol., points", "high viol., relative", "low viol., points")
    for name in (*headers, "low work in time, relative", "waste, points"):
        table.add_column(name, justify="right")
    before: tuple[object, ...] | None = None
    for row in rows:
        section = (row.mix, row.load, row.niced)
        if before is not None and section != before:
            table.add_section()
        table.add_row(
            _where(row.mix, row.load, niced=row.niced) if section != before else "",
            row.policy,
            row.against,
            str(row.pairs),
            *(_span(row, name) for name in _DIFFERENCES),
        )
        before = section
    table.caption = "[] the 95 % interval of the paired difference"
    return table


_DIFFERENCES: Final = (
    *("high_violations_difference", "high_violations_relative", "low_violations_difference"),
    *("low_goodput_work_relative", "waste_difference"),
)


def _where(mix: str, load: float | None, *, niced: bool) -> str:
    at = "" if load is None else f" {100 * load:.0f} %"
    return f"{mix}{at}, {'niced' if niced else 'not niced'}"


def _span(row: PolicyDifference, name: str) -> str:
    mean = getattr(row, name)
    low, high = getattr(row, f"{name}_from"), getattr(row, f"{name}_to")
    if mean is None:
        return _NOTHING
    if low is None or high is None:
        return f"{100 * mean:+.1f}"
    return f"{100 * mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]".replace("[", r"\[")


def _percent(name: str) -> Callable[[PolicySummary], str]:
    """A ratio, with half of its interval where there is one."""

    def cell(row: PolicySummary) -> str:
        value = getattr(row, name)
        if value is None:
            return _NOTHING
        most = getattr(row, f"{name}_to", None)
        return f"{100 * value:.1f}" + ("" if most is None else f" ±{100 * (most - value):.1f}")

    return cell


def _plain(name: str, digits: int, *, hides_zero: bool = False) -> Callable[[PolicySummary], str]:
    def cell(row: PolicySummary) -> str:
        value = getattr(row, name)
        if value is None or (hides_zero and not value):
            return _NOTHING
        return f"{value:.{digits}f}"

    return cell


_COLUMNS: Final[Mapping[str, Callable[[PolicySummary], str]]] = {
    "high viol. %": _percent("high_violations"),
    "low viol. %": _percent("low_violations"),
    "front": lambda row: "*" if row.is_on_front else "",
    "high/s": _plain("high_goodput_rps", 1),
    "low/s": _plain("low_goodput_rps", 1),
    "low work": _plain("low_goodput_work", 3),
    "high p50": _plain("high_p50_ms", 0),
    "high p99 ms": _plain("high_p99_ms", 0),
    "low p50": _plain("low_p50_ms", 0),
    "low p99 ms": _plain("low_p99_ms", 0),
    "waste %": _percent("waste_ratio"),
    "busy %": _percent("utilisation"),
    "error %": _percent("error_mean"),
    "decide p99 us": _plain("decision_p99_us", 0),
    "refused": _plain("refused", 0, hides_zero=True),
    "given up": _plain("given_up", 0, hides_zero=True),
    "failed": _plain("failed", 0, hides_zero=True),
    "oracle high %": _percent("oracle_high"),
    "oracle low %": _percent("oracle_low"),
    "others' cores": _plain("others_cores", 2),
    "seeds": _plain("seeds", 0),
}
