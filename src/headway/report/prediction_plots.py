"""Pictures of how right predictors were: error by load, calibration, learning, bounds.

Knows matplotlib, imported when a picture is drawn. Never where the figures are from.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headway.report.scores import ErrorStep, Observation
from headway.units import NS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BoundPoint", "plot_bounds", "plot_calibration", "plot_errors", "plot_learning"]

_COLOURS: Final = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#6B6B6B",
    "#000000",
)
"""Okabe and Ito: told apart by the colour-blind, and in print. The markers tell apart the rest."""
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
_INK: Final = "#222222"
_FAINT: Final = "#8A8A8A"
_POINTS_MAX: Final = 1_500
"""Of one panel; more make a blot."""
_PANELS_A_ROW: Final = 4


class BoundPoint(NamedTuple):
    """How well one predictor's bounds held, and how wide they were."""

    coverage: float
    width: float


def plot_errors(
    errors: Mapping[str, Mapping[float, float]], path: Path, *, title: str, command: str
) -> None:
    """Draw the mean error of each predictor against the load, as a PNG.

    Args:
        errors: predictor -> utilisation -> mean absolute error relative to what came.
        path: file to write.
        title: what the picture shows, in one line.
        command: what made it, for the footer.
    """
    figure, axes = _canvas(8.5, 5.0, title, command)
    for index, (name, by_load) in enumerate(errors.items()):
        loads = sorted(by_load)
        axes.plot(
            [100 * load for load in loads],
            [100 * by_load[load] for load in loads],
            label=name,
            **_style(index),
        )
    axes.set_xlabel("utilisation (% of the cores' time)")
    axes.set_ylabel("mean absolute error (%)")
    axes.set_ylim(bottom=0)
    _finish(figure, axes, path)


def plot_learning(
    steps: Mapping[str, Sequence[ErrorStep]], path: Path, *, title: str, command: str
) -> None:
    """Draw each predictor's error against how much it had seen, as a PNG.

    Args:
        steps: predictor -> its error step by step.
        path: file to write.
        title: what the picture shows, in one line.
        command: what made it, for the footer.
    """
    figure, axes = _canvas(8.5, 5.0, title, command)
    for index, (name, own) in enumerate(steps.items()):
        axes.plot(range(len(own)), [100 * step.mape for step in own], label=name, **_style(index))
    longest = max(steps.values(), key=len, default=())
    labels = [
        f"{step.seen_min}–{step.seen_max}" if step is not longest[-1] else f"{step.seen_min}+"
        for step in longest
    ]
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel("executions seen before")
    axes.set_ylabel("mean absolute error (%)")
    axes.set_ylim(bottom=0)
    _finish(figure, axes, path)


def plot_bounds(
    points: Mapping[str, Sequence[BoundPoint]],
    path: Path,
    *,
    confidence: float,
    title: str,
    command: str,
) -> None:
    """Draw each predictor's coverage against the width of its bounds, as a PNG.

    Args:
        points: predictor -> a point for each load.
        path: file to write.
        confidence: how often the bounds were to hold.
        title: what the picture shows, in one line.
        command: what made it, for the footer.
    """
    figure, axes = _canvas(8.5, 5.0, title, command)
    axes.axhline(100 * confidence, color=_INK, linewidth=1, linestyle=(0, (3, 2)))
    for index, (name, own) in enumerate(points.items()):
        style = _style(index) | {"linestyle": "none"}
        axes.plot(
            [point.width for point in own],
            [100 * point.coverage for point in own],
            label=name,
            **style,
        )
    axes.set_xlabel("mean of bound / actual")
    axes.set_ylabel("ended within the bound (%)")
    # A few percent around the line, however near they are: tenths are chance.
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 100 * confidence - 5), min(100.5, max(high, 100 * confidence + 5)))
    _finish(figure, axes, path)


def plot_calibration(
    observations: Mapping[str, Sequence[Observation]], path: Path, *, title: str, command: str
) -> None:
    """Draw what was predicted against what came, a panel for each predictor, as a PNG.

    Args:
        observations: by predictor.
        path: file to write.
        title: what the picture shows, in one line.
        command: what made it, for the footer.
    """
    columns = min(_PANELS_A_ROW, len(observations))
    rows = -(-len(observations) // columns)
    figure = _figure(2.9 * columns + 0.6, 2.9 * rows + 1.2, title, command)
    grid = figure.add_gridspec(rows, columns, top=1 - 0.75 / figure.get_figheight(), bottom=0.13)
    for index, (name, own) in enumerate(observations.items()):
        axes = figure.add_subplot(grid[index // columns, index % columns])
        _scatter(axes, own, _COLOURS[index % len(_COLOURS)])
        axes.set_title(name, loc="left", fontsize=10.5, color=_INK)
        if index % columns == 0:
            axes.set_ylabel("actual (ms)")
        if index >= len(observations) - columns:
            axes.set_xlabel("predicted (ms)")
        _dress(axes)
    _save(figure, path)


def _scatter(axes: "Axes", observations: Sequence[Observation], colour: str) -> None:
    """On logarithmic axes; what was predicted as nothing stands at the left edge."""
    shown = observations[:: max(1, len(observations) // _POINTS_MAX)]
    actual = [seen.actual_ns / NS_PER_MS for seen in shown]
    low, high = min(actual, default=0.1) / 2, max(actual, default=1.0) * 2
    predicted = [max(low, seen.predicted_ns / NS_PER_MS) for seen in shown]
    axes.plot([low, high], [low, high], color=_INK, linewidth=1)
    axes.plot(predicted, actual, ".", color=colour, markersize=3, alpha=0.4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda x, _: f"{x:g}")


def _style(index: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "linewidth": 1.8,
        "markersize": 6,
    }


def _canvas(width: float, height: float, title: str, command: str) -> "tuple[Figure, Axes]":
    figure = _figure(width, height, title, command)
    return figure, figure.add_axes((0.09, 0.2, 0.68, 0.66))


def _figure(width: float, height: float, title: str, command: str) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150)
    FigureCanvasAgg(figure)
    figure.text(0.02, 0.945, title, fontsize=13, fontweight="bold", color=_INK, va="center")
    figure.text(0.02, 0.035, command, fontsize=8, family="monospace", color="#555555", va="center")
    return figure


def _finish(figure: "Figure", axes: "Axes", path: Path) -> None:
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=10)
    _dress(axes)
    _save(figure, path)


def _dress(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors="#444444", labelsize=9)
    axes.grid(which="major", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)


def _save(figure: "Figure", path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white")
