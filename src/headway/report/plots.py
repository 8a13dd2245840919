"""Pictures of runs: the one file that knows matplotlib, imported when a picture is drawn.

Two questions, top to bottom. How many requests were let down, a bar for each tier and policy; and
how long the answers took, a curve for each policy against the deadline. A curve is over *all*
requests, so one that was refused or given up never arrives, and the height at which a curve crosses
the deadline is the share of requests that were served in time: both halves tell the same story.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headway.core import TierName
from headway.report.summary import tiers_in_order
from headway.units import NS_PER_MS, format_duration
from headway.workload import Outcome, Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_comparison"]

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B6B6B")
"""Okabe and Ito: told apart by the colour-blind, and in print. The styles tell apart the rest."""
_LINES: Final = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (4, 1.5, 1, 1.5)))
_HATCHES: Final = ("", "//", "..", "xx")
_INK: Final = "#222222"
_FAINT: Final = "#8A8A8A"
_TIERS_MAX: Final = 4
"""Curves of so many tiers fit in a row; the bars show all."""
_POINTS_MAX: Final = 2_000
"""A curve's points; more make no difference to the eye."""


class _Policy(NamedTuple):
    name: str
    runs: Sequence[Sequence[Sample]]
    colour: str
    line: Any
    hatch: str


def plot_comparison(
    runs: Mapping[str, Sequence[Sequence[Sample]]],
    path: Path,
    *,
    title: str,
    command: str,
    subtitle: str = "",
    tiers: Sequence[TierName] | None = None,
) -> None:
    """Draw violations and latencies of policies under the same load, as a PNG.

    Args:
        runs: by policy, the samples of each of its runs.
        path: file to write.
        title: what the picture shows, in one line.
        command: what made it, for the footer.
        subtitle: load, machine and duration, in one line.
        tiers: in which order; None puts the tightest budget first.

    Raises:
        ValueError: a policy without samples.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    policies = _policies(runs)
    every = [sample for policy in policies for run in policy.runs for sample in run]
    shown = list(tiers or tiers_in_order(every))
    curves = shown[:_TIERS_MAX]
    width, height = max(8.5, 2.9 * len(curves) + 1.2), 7.6
    figure = Figure(figsize=(width, height), dpi=150)
    FigureCanvasAgg(figure)
    sides = {"left": 0.85 / width, "right": 1 - 0.3 / width}
    top = 0.82 if subtitle else 0.85
    bars = figure.add_gridspec(1, 1, top=top, bottom=0.535, **sides)
    _draw_bars(figure.add_subplot(bars[0]), policies, shown)
    grid = figure.add_gridspec(1, len(curves), top=0.41, bottom=0.12, wspace=0.08, **sides)
    for index, tier in enumerate(curves):
        axes = figure.add_subplot(grid[index])
        _draw_curves(axes, policies, tier, is_first=index == 0)
    _draw_words(figure, policies, title, subtitle, command)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white")


def _policies(runs: Mapping[str, Sequence[Sequence[Sample]]]) -> list[_Policy]:
    if not runs or not all(policy_runs and all(policy_runs) for policy_runs in runs.values()):
        raise ValueError("every policy needs a run, and every run a request")
    return [
        _Policy(
            name,
            policy_runs,
            _COLOURS[index % len(_COLOURS)],
            _LINES[index % len(_LINES)],
            _HATCHES[index // len(_COLOURS) % len(_HATCHES)],
        )
        for index, (name, policy_runs) in enumerate(runs.items())
    ]


def _draw_bars(axes: "Axes", policies: Sequence[_Policy], tiers: Sequence[TierName]) -> None:
    """Mean share of violations, a dot for each run, the number above."""
    width = 0.84 / len(policies)
    top = 0.0
    for index, policy in enumerate(policies):
        for place, tier in enumerate(tiers):
            shares = [_violation_percent(run, tier) for run in policy.runs]
            known = [share for share in shares if share is not None]
            if not known:
                continue
            x = place + (index - (len(policies) - 1) / 2) * width
            height = fmean(known)
            top = max(top, *known)
            axes.bar(
                x, height, width * 0.9, color=policy.colour, hatch=policy.hatch, edgecolor="white"
            )
            if len(known) > 1:
                axes.plot([x] * len(known), known, "o", color=_INK, markersize=2.5, alpha=0.7)
            axes.annotate(
                _short(height),
                (x, max(known)),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                fontsize=8.5,
                color=_INK,
            )
    axes.set_ylim(0, max(1.0, top * 1.12))
    axes.set_xlim(-0.5, len(tiers) - 0.5)
    axes.set_xticks(range(len(tiers)), [f"tier {tier}" for tier in tiers])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("violations (% of requests)")
    axes.set_title("Not served in time, for each tier (lower is better)", **_PANEL_TITLE)
    _dress(axes, "y")


def _draw_curves(
    axes: "Axes", policies: Sequence[_Policy], tier: TierName, *, is_first: bool
) -> None:
    """Share of requests answered within a time, on a logarithmic axis of time."""
    samples = [s for policy in policies for run in policy.runs for s in run if s.tier == tier]
    budgets_ns = {sample.budget_ns for sample in samples}
    budget_ns = budgets_ns.pop() if len(budgets_ns) == 1 else None
    is_relative = budget_ns is None and None not in budgets_ns
    for policy in policies:
        own = [sample for run in policy.runs for sample in run if sample.tier == tier]
        if own:
            xs, ys = _curve(own, is_relative=is_relative)
            axes.plot(xs, ys, color=policy.colour, linestyle=policy.line, linewidth=2)
    axes.set_xscale("log")
    axes.set_ylim(0, 101)
    deadline = 1.0 if is_relative else (budget_ns or 0) / NS_PER_MS
    words = "deadline" if is_relative else f"deadline {format_duration(budget_ns or 0)}"
    if deadline:
        axes.axvline(deadline, color=_INK, linewidth=1, linestyle=(0, (3, 2)))
        low, high = axes.get_xlim()
        low, high = min(low, deadline / 2), max(high, deadline * 1.5)
        axes.axvspan(deadline, high, color="#F1F1F1", zorder=0)
        axes.set_xlim(low, high)
    axes.set_title(f"tier {tier}, {words}" if deadline else f"tier {tier}", **_PANEL_TITLE)
    axes.set_xlabel("latency (multiples of the budget)" if is_relative else "latency (ms)")
    if is_first:
        axes.set_ylabel("answered (% of requests)")
    else:
        axes.set_yticklabels([])
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    _dress(axes, "both")


def _curve(samples: Sequence[Sample], *, is_relative: bool) -> tuple[list[float], list[float]]:
    """Latency against the share of all requests, completed or not, that were answered by then."""
    latencies = sorted(
        sample.latency_ns / ((sample.budget_ns or 1) if is_relative else NS_PER_MS)
        for sample in samples
        if sample.outcome is Outcome.COMPLETED
    )
    step = max(1, len(latencies) // _POINTS_MAX)
    ranks = [*range(0, len(latencies), step)]
    if latencies and ranks[-1] != len(latencies) - 1:
        ranks.append(len(latencies) - 1)
    xs = [max(latencies[rank], 1e-3) for rank in ranks]
    return xs, [100 * (rank + 1) / len(samples) for rank in ranks]


def _draw_words(
    figure: "Figure", policies: Sequence[_Policy], title: str, subtitle: str, command: str
) -> None:
    from matplotlib.lines import Line2D

    left = 0.25 / figure.get_figwidth()
    figure.text(left, 0.963, title, fontsize=15, fontweight="bold", color=_INK, va="center")
    if subtitle:
        figure.text(left, 0.925, subtitle, fontsize=10, color="#555555", va="center")
    lines = [
        Line2D([], [], color=policy.colour, linestyle=policy.line, linewidth=5, label=policy.name)
        for policy in policies
    ]
    figure.legend(
        handles=lines,
        loc="center left",
        bbox_to_anchor=(left - 0.006, 0.882 if subtitle else 0.915),
        ncols=len(policies),
        frameon=False,
        fontsize=11,
        handlelength=1.8,
        columnspacing=2.0,
    )
    figure.text(left, 0.035, command, fontsize=8, family="monospace", color="#555555", va="center")


_PANEL_TITLE: Final[dict[str, Any]] = {
    "loc": "left",
    "fontsize": 10.5,
    "color": _INK,
    "pad": 8,
}


def _short(percent: float) -> str:
    """Two digits that matter; what is not nothing never reads as nothing."""
    if percent == 0 or percent >= 9.95:
        return f"{percent:.0f}"
    return f"{percent:.1f}" if percent >= 0.95 else f"{percent:.2g}"


def _dress(axes: "Axes", grid_axis: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors="#444444", labelsize=9)
    axes.grid(axis=grid_axis, which="major", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)


def _violation_percent(run: Sequence[Sample], tier: TierName) -> float | None:
    own = [s for s in run if s.tier == tier and s.outcome is not Outcome.CANCELLED]
    return 100 * sum(sample.is_violation for sample in own) / len(own) if own else None
