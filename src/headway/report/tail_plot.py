"""The tail as a picture: two stacked bars a model and tier, one of the middle, one of the tail.

Both bars of a pair are made of the same causes in the same order, so that what grows is what the
tail comes from. Knows matplotlib, which is imported when a picture is drawn.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.report.remedies import LABELS
from headway.report.tail import TailGroup, TailReport
from headway.report.waits import Cause
from headway.units import NS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_tail"]

_GROUPS_MAX: Final = 8
_LABELLED_RATIO_MIN: Final = 0.08
"""Parts of the axis's length; narrower ones have no room for a number."""
_MARGINS: Final = 2.3
"""Inches above and below the bars."""
_INK: Final = "#222222"
_FAINT: Final = "#8A8A8A"
_STYLES: Final[dict[Cause, tuple[str, str]]] = {
    Cause.OWN_WORK: ("#6B6B6B", ""),
    Cause.COMPANY: ("#B5B5B5", ""),
    Cause.PADDING: ("#B5B5B5", "xx"),
    Cause.TRANSFER: ("#56B4E9", ""),
    Cause.OVERHEAD: ("#56B4E9", "//"),
    Cause.INTAKE: ("#56B4E9", ".."),
    Cause.INTERFERENCE: ("#CC79A7", ""),
    Cause.VARIANCE: ("#CC79A7", "//"),
    Cause.BATCH_WAIT: ("#009E73", ""),
    Cause.HELD: ("#009E73", "//"),
    Cause.QUEUE: ("#0072B2", ""),
    Cause.BLOCKED_EQUAL: ("#0072B2", "//"),
    Cause.BLOCKED_LOWER: ("#D55E00", ""),
    Cause.COLD_START: ("#E69F00", ""),
    Cause.HOST_PAUSE: ("#E69F00", "xx"),
}
"""Colour and hatch: work grey, batches green, others of its class blue, lower ones vermilion."""
_LIGHT: Final = frozenset({"#B5B5B5", "#56B4E9", "#E69F00"})
"""On which numbers are dark."""


def plot_tail(report: TailReport, path: Path, *, title: str, command: str) -> None:
    """Draw the groups with the longest tails, as a PNG.

    Args:
        report: with at least one group.
        path: file to write.
        title: what the picture shows, in one line.
        command: what made it, for the footer.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups = report.groups[:_GROUPS_MAX]
    height = _MARGINS + 0.95 * len(groups) + 0.15
    figure = Figure(figsize=(10.0, height), dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.19, 1.5 / height, 0.78, 1 - _MARGINS / height))
    _draw_bars(axes, groups)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.42, -0.62 / (height - _MARGINS)),
        ncols=4,
        fontsize=7.5,
        frameon=False,
    )
    _draw_words(figure, title, command, height)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white")


def _draw_bars(axes: "Axes", groups: Sequence[TailGroup]) -> None:
    whole_ms = max(max(group.tail_ns, group.middle_ns) for group in groups) / NS_PER_MS
    shown = {found.cause for group in groups for found in group.causes}
    ticks, labels = [], []
    for index, group in enumerate(groups):
        for offset, band in ((-0.21, "around p50"), (0.21, "p99 and beyond")):
            y = index + offset
            _draw_bar(axes, group, y, is_tail=offset > 0, whole_ms=whole_ms)
            ticks.append(y)
            labels.append(f"{group.model}, {group.tier}\n{band}" if offset < 0 else band)
    for cause, (colour, hatch) in _STYLES.items():
        if cause in shown:
            axes.barh([0], [0], color=colour, hatch=hatch, edgecolor="white", label=LABELS[cause])
    axes.set_yticks(ticks, labels, fontsize=8)
    axes.set_ylim(len(groups) - 0.45, -0.55)
    axes.set_xlim(0, whole_ms * 1.12)
    axes.set_xlabel("mean latency, ms", fontsize=9, color=_INK)
    axes.tick_params(colors=_INK, labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.xaxis.grid(visible=True, color="#E5E5E5", linewidth=0.7)
    axes.set_axisbelow(True)


def _draw_bar(axes: "Axes", group: TailGroup, y: float, *, is_tail: bool, whole_ms: float) -> None:
    parts_ns = {c.cause: c.tail_ns if is_tail else c.middle_ns for c in group.causes}
    left_ms = 0.0
    for cause, (colour, hatch) in _STYLES.items():
        part_ms = parts_ns.get(cause, 0) / NS_PER_MS
        if not part_ms:
            continue
        axes.barh(
            y,
            part_ms,
            0.38,
            left=left_ms,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0.5,
        )
        if part_ms >= _LABELLED_RATIO_MIN * whole_ms:
            axes.text(
                left_ms + part_ms / 2,
                y,
                f"{part_ms:.3g}",
                ha="center",
                va="center",
                fontsize=7,
                color=_INK if colour in _LIGHT else "white",
                bbox={"boxstyle": "round,pad=0.15", "fc": colour, "ec": "none"},
            )
        left_ms += part_ms
    axes.text(
        left_ms + whole_ms * 0.008, y, f"{left_ms:.3g} ms", va="center", fontsize=7.5, color=_INK
    )


def _draw_words(figure: "Figure", title: str, command: str, height: float) -> None:
    figure.text(0.03, 1 - 0.36 / height, title, fontsize=13, weight="bold", color=_INK)
    figure.text(
        0.03,
        1 - 0.62 / height,
        "mean of each cause among requests around the median, and among those at p99 and beyond",
        fontsize=9,
        color=_FAINT,
    )
    figure.text(0.03, 0.12 / height, command, fontsize=7, color=_FAINT, family="monospace")
