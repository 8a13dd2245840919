"""What the demo shows on a terminal, or prints line by line where there is none.

Knows rich. Readable without colour; words go to one console and data to another, which may be the
same terminal. Decides nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headway.core import TierName
from headway.demo.catalogue import find_model
from headway.demo.outcome import Turn, percent
from headway.demo.scenario import Scenario
from headway.report import GroupSummary
from headway.units import NS_PER_MS, format_duration

__all__ = ["Screen", "Step"]

_NAME_WIDTH: Final = 14
_BAR_WIDTH: Final = 28
_WIDE: Final = 116
"""Columns of a terminal that has room for words."""
_CELLS: Final = 8
"""Characters of a bar in the last table."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_FAINT: Final = "bright_black"
_NOTHING: Final = "–"
_BAD_RATIO: Final = 0.2
_GOOD_RATIO: Final = 0.05


@dataclass
class Step:
    """Something that takes a while, as it stands."""

    name: str
    note: str = ""
    done: float | None = None
    """Part of the whole that is behind us, 0..1; None shows that something happens, not how far."""
    tiers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By tier: requests that ended, and how many of them were let down."""
    result: str = ""
    """What the finished step says."""


class Screen:
    """Two consoles and a few ways to write on them."""

    def __init__(self, words: Console, data: Console) -> None:
        self._words = words
        self._data = data
        self._is_rich_text = (words.encoding or "").lower().startswith("utf")

    def say(self, text: str = "", *, style: str = "") -> None:
        """A line of words; long ones wrap."""
        self._words.print(Text(text, style=style), soft_wrap=not self._words.is_terminal)

    def title(self, text: str, rest: str) -> None:
        """The first line."""
        line = Text.assemble((text, "bold"), (f"  {rest}", _FAINT))
        self._words.print(line, soft_wrap=True)
        self.say()

    def finished(self, name: str, text: str, *, is_good: bool = True) -> None:
        """A line with a mark."""
        marks = "✓✗" if self._is_rich_text else "+x"
        mark = (marks[0], "green") if is_good else (marks[1], "bold red")
        line = Text.assemble(mark, f" {name:<{_NAME_WIDTH}}", (text, "" if is_good else "red"))
        self._words.print(line, soft_wrap=True)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Show a step while it lasts; when it has ended well, one line of it stays."""
        step = Step(name)
        if self._words.is_terminal:
            spinner = Spinner("dots", style="cyan")
            with Live(
                get_renderable=lambda: _render(step, spinner),
                console=self._words,
                refresh_per_second=6,
                transient=True,
            ):
                yield step
        else:
            yield step
        self.finished(step.name, step.result)

    def show_scenario(self, scenario: Scenario, rates_rps: Mapping[str, float]) -> None:
        """Who asks for what, and by when."""
        is_wide = self._words.width >= _WIDE
        purpose = ["does what"] if is_wide else []
        table = _table("tier", "model", *purpose, ">alone, ms", ">budget", ">asked for")
        budgets_ns = scenario.budgets_ns()
        for tier in scenario.tiers:
            for index, name in enumerate(scenario.models_of(tier)):
                table.add_row(
                    "" if index else Text(tier.name, "bold"),
                    name,
                    *([Text(find_model(name).purpose, _FAINT)] if is_wide else []),
                    _short_ms(scenario.solo_ns[name]),
                    "" if index else format_duration(budgets_ns[tier.name]),
                    f"{rates_rps[name]:.1f}/s",
                )
        self._words.print(table)

    def show_turns(self, turns: Sequence[Turn]) -> None:
        """The result: data."""
        table = _table(
            "tier", "policy", ">requests", ">p50", ">p99", ">violations", "", ">goodput/s"
        )
        tiers = list(turns[0].summary.tiers)
        for tier in tiers:
            for index, turn in enumerate(turns):
                group = turn.summary.tiers.get(tier)
                if group is not None:
                    table.add_row(_tier_cell(tier, index, group), *_cells(turn.policy, group))
            table.add_section()
        table.caption = (
            "p50 and p99 in ms, of the requests that were answered; one that was refused,\n"
            "given up or late is a violation; goodput is what was answered in time."
        )
        table.caption_justify = "left"
        self._data.print(table)

    def show_commands(self, title: str, lines: Sequence[str]) -> None:
        """Something to copy: never wrapped, never coloured inside."""
        self.say()
        self.say(title)
        for line in lines:
            self._words.print(Text(f"    {line}"), soft_wrap=True)

    def show_places(self, paths: Mapping[str, Path]) -> None:
        """What was written, and where."""
        self.say()
        for name, path in paths.items():
            self._words.print(
                Text.assemble((f"{name:<{_NAME_WIDTH}}", _FAINT), str(path)), soft_wrap=True
            )

    def print_json(self, text: str) -> None:
        """The document, for programs."""
        self._data.print(text, soft_wrap=True, markup=False, highlight=False)


def _render(step: Step, spinner: Spinner) -> RenderableType:
    head = Table.grid(padding=(0, 1))
    head.add_row(
        spinner,
        f"{step.name:<{_NAME_WIDTH - 1}}",
        *([] if step.done is None else [_bar(step.done, "cyan")]),
        Text(step.note, _FAINT),
    )
    rows: list[RenderableType] = [head]
    if step.tiers:
        grid = Table.grid(padding=(0, 1))
        for name, (ended, let_down) in step.tiers.items():
            ratio = let_down / ended if ended else 0.0
            counts = f"{let_down} of {ended} not in time"
            label = f"  {name:<{_NAME_WIDTH - 1}}"
            grid.add_row(label, _bar(ratio, _colour(ratio)), Text(counts, _FAINT))
        rows.append(grid)
    return Group(*rows)


def _bar(ratio: float, style: str) -> ProgressBar:
    return ProgressBar(
        total=1.0,
        completed=ratio,
        width=_BAR_WIDTH,
        complete_style=style,
        finished_style=style,
    )


def _table(*columns: str) -> Table:
    """Columns by their titles; `>` before one aligns its numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style=_FAINT)
    for column in columns:
        table.add_column(
            column.removeprefix(">"),
            justify="right" if column.startswith(">") else "left",
            no_wrap=True,
        )
    return table


def _tier_cell(tier: TierName, index: int, group: GroupSummary) -> Text:
    """The name above, its budget below."""
    if index == 0:
        return Text(tier, "bold")
    return Text(f"within {format_duration(group.budget_ns)}" if group.budget_ns else "", _FAINT)


def _cells(policy: str, group: GroupSummary) -> list[RenderableType]:
    colour = _colour(group.violation_ratio)
    return [
        policy,
        str(group.requests),
        _short_ms(group.latency_p50_ns),
        _short_ms(group.latency_p99_ns),
        Text(percent(group.violation_ratio), colour),
        Text(_blocks(group.violation_ratio), colour),
        f"{group.goodput_rps:.1f}",
    ]


def _blocks(ratio: float) -> str:
    """A bar of a fixed width in eighths of a character."""
    eighths = round(min(1.0, ratio) * _CELLS * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_CELLS)


def _colour(ratio: float) -> str:
    if ratio >= _BAD_RATIO:
        return "red"
    return "green" if ratio <= _GOOD_RATIO else "yellow"


def _short_ms(duration_ns: int | None) -> str:
    if duration_ns is None:
        return _NOTHING
    duration_ms = duration_ns / NS_PER_MS
    return f"{duration_ms:.0f}" if duration_ms >= 100 else f"{duration_ms:.1f}"
