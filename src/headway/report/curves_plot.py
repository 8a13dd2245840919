"""Curves of a planner's questions: some quantity over another, with what decides marked.

Knows matplotlib, imported when it is drawn. One panel, several lines; whoever asks names them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CurveAxis", "plot_curves"]

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_INK: Final = "#222222"
_QUIET: Final = "#555555"


class CurveAxis(NamedTuple):
    """What an axis shows."""

    label: str
    is_log: bool = False


def plot_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    path: Path,
    *,
    x: CurveAxis,
    y: CurveAxis,
    title: str,
    command: str,
    marks: Mapping[str, float] | None = None,
    level: float | None = None,
) -> None:
    """Draw lines by name, as SVG or PNG by the file's ending.

    Args:
        curves: points by name; those without points are left out.
        path: file to write.
        x: the axis from left to right.
        y: the axis upwards.
        title: what the picture shows, in one line.
        command: what made it, for the footer.
        marks: vertical lines by name.
        level: a horizontal line, of what is wanted.

    Raises:
        ValueError: no points at all.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = {name: points for name, points in curves.items() if points}
    if not drawn:
        raise ValueError("a curve needs a point")
    figure = Figure(figsize=(8.5, 5.2), dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.11, 0.16, 0.85, 0.69))
    for index, (name, points) in enumerate(drawn.items()):
        axes.plot(
            [point[0] for point in points],
            [point[1] for point in points],
            color=_COLOURS[index % len(_COLOURS)],
            marker=_MARKERS[index % len(_MARKERS)],
            markersize=4.5,
            linewidth=1.8,
            label=name,
        )
    _dress(axes, x, y, marks or {}, level)
    figure.text(0.03, 0.93, title, fontsize=13, fontweight="bold", color=_INK)
    figure.text(0.03, 0.03, command, fontsize=8, family="monospace", color=_QUIET)
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, facecolor="white", metadata=metadata)


def _dress(
    axes: "Axes", x: CurveAxis, y: CurveAxis, marks: Mapping[str, float], level: float | None
) -> None:
    """Scales, labels, marks and a legend."""
    if x.is_log:
        axes.set_xscale("log", base=2)
    if y.is_log:
        axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if level is not None:
        axes.axhline(level, color=_QUIET, linewidth=1, linestyle=(0, (3, 2)))
    for name, place in marks.items():
        axes.axvline(place, color=_INK, linewidth=1, linestyle=(0, (2, 3)))
        axes.annotate(
            name,
            (place, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -11),
            textcoords="offset points",
            fontsize=8.5,
            color=_INK,
        )
    axes.set_xlabel(x.label)
    axes.set_ylabel(y.label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors="#444444", labelsize=9)
    axes.grid(color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9)
