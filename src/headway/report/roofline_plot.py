"""A model under its device's roof, as a picture; knows matplotlib, imported when it is drawn.

Both axes are logarithmic. A roof rises with the memory's bandwidth up to the ridge and is flat from
there on. A model is a range, because nobody knows from its file how much a runtime fuses: the range
is drawn on the roof, as what could be attained at best, and at the height that was measured.
"""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from headway.profiling import Bounds, Roof

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MeasuredWork", "plot_roofline"]

_ROOF: Final = "#0072B2"
_MODEL: Final = "#D55E00"
_MEASURED: Final = "#009E73"
_INK: Final = "#222222"
_QUIET: Final = "#555555"
_GIGA: Final = 1e9
_ROOMS: Final = 8.0
"""Times as far as the outermost point, on both sides."""
_DECADES_MAX: Final = 12
"""More between the ends of an axis, and nothing on it can be read."""


_DECADES_BARE: Final = 1e3


class MeasuredWork(NamedTuple):
    """What a profiler saw."""

    label: str
    flop_per_s: float
    intensity_flop_per_byte: float | None
    """None where traffic was not measured: the height is then drawn over the model's range."""


def plot_roofline(
    roofs: Mapping[str, Roof],
    model: str,
    bounds: Bounds,
    path: Path,
    *,
    title: str,
    command: str,
    subtitle: str = "",
    measured: MeasuredWork | None = None,
) -> None:
    """Draw ceilings, the ridge, a model's range of intensity and what was measured, as a PNG.

    Args:
        roofs: by name; the first is the one that the bounds were taken under.
        model: its name.
        bounds: where it lies.
        path: file to write.
        title: what the picture shows, in one line.
        command: what made it, for the footer.
        subtitle: what it was counted at, in one line.
        measured: a point, or a height.

    Raises:
        ValueError: no roof.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not roofs:
        raise ValueError("a roofline needs a roof")
    figure = Figure(figsize=(8.5, 5.6), dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.1, 0.15, 0.86, 0.68))
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = _range(roofs, bounds, measured)
    first = next(iter(roofs.values()))
    for name, roof in reversed(list(roofs.items())):
        _draw_roof(axes, name, roof, (low, high), is_first=roof is first)
    _draw_model(axes, model, bounds, first, (low, high))
    if measured is not None:
        _draw_measured(axes, measured, bounds, (low, high))
    _dress(axes, low, high, _floor(roofs, bounds, measured, low))
    _draw_words(figure, title, subtitle, command)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white")


def _range(
    roofs: Mapping[str, Roof], bounds: Bounds, measured: MeasuredWork | None
) -> tuple[float, float]:
    """Ends of the axis of intensity: all that is drawn, with room on both sides."""
    points = [roof.ridge_flop_per_byte for roof in roofs.values()]
    points += [bounds.intensity_low, bounds.intensity_high]
    if measured is not None and measured.intensity_flop_per_byte is not None:
        points.append(measured.intensity_flop_per_byte)
    drawn = [point for point in points if 0 < point < inf]
    top = max(drawn) * _ROOMS
    return max(min(drawn) / _ROOMS, top / 10**_DECADES_MAX), top


def _floor(
    roofs: Mapping[str, Roof], bounds: Bounds, measured: MeasuredWork | None, low: float
) -> float:
    """The lowest height on the picture, in GFLOP/s."""
    heights = [min(roof.attainable_flop_per_s(low) for roof in roofs.values())]
    if bounds.attainable_low_flop_per_s > 0:
        heights.append(bounds.attainable_low_flop_per_s / 2)
    if measured is not None and measured.flop_per_s > 0:
        heights.append(measured.flop_per_s / 2)
    return min(heights) / _GIGA


def _draw_roof(
    axes: "Axes", name: str, roof: Roof, ends: tuple[float, float], *, is_first: bool
) -> None:
    ridge, top = roof.ridge_flop_per_byte, roof.flop_per_s / _GIGA
    xs = [ends[0], ridge, ends[1]]
    ys = [roof.attainable_flop_per_s(x) / _GIGA for x in xs]
    colour, width = (_ROOF, 2.4) if is_first else ("#8FB8D4", 1.4)
    axes.plot(xs, ys, color=colour, linewidth=width, linestyle="-" if is_first else (0, (5, 2)))
    words = f"{name}: {_short(top)} GFLOP/s, {_short(roof.bytes_per_s / _GIGA)} GB/s"
    axes.annotate(
        words,
        (ends[1], top),
        xytext=(-4, 5),
        textcoords="offset points",
        ha="right",
        fontsize=9,
        color=_INK if is_first else _QUIET,
    )
    if is_first:
        axes.plot([ridge], [top], "o", color=_ROOF, markersize=6)
        axes.axvline(ridge, color=_ROOF, linewidth=0.9, linestyle=(0, (2, 3)))
        axes.annotate(
            f"ridge {_short(ridge)} FLOP/B",
            (ridge, 0.3),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            rotation=90,
            fontsize=8.5,
            color=_ROOF,
        )


def _draw_model(
    axes: "Axes", model: str, bounds: Bounds, roof: Roof, ends: tuple[float, float]
) -> None:
    """The model's range, shaded, and the part of the roof above it."""
    left, right = _clipped(bounds, ends)
    corner = [roof.ridge_flop_per_byte] if left < roof.ridge_flop_per_byte < right else []
    xs = [left, *corner, right]
    ys = [roof.attainable_flop_per_s(x) / _GIGA for x in xs]
    axes.axvspan(left, right, color=_MODEL, alpha=0.09, linewidth=0)
    axes.plot(xs, ys, color=_MODEL, linewidth=6, solid_capstyle="butt", alpha=0.85)
    middle = (left * right) ** 0.5
    axes.annotate(
        f"{model}\n{_short(bounds.intensity_low)} FLOP/B unfused to "
        f"{_short(bounds.intensity_high)} fused",
        (middle, 0.03),
        xycoords=axes.get_xaxis_transform(),
        ha="center",
        va="bottom",
        fontsize=9,
        color=_MODEL,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5},
    )


def _draw_measured(
    axes: "Axes", measured: MeasuredWork, bounds: Bounds, ends: tuple[float, float]
) -> None:
    height = measured.flop_per_s / _GIGA
    if measured.intensity_flop_per_byte is None:
        left, right = _clipped(bounds, ends)
        axes.plot([left, right], [height, height], color=_MEASURED, linewidth=3)
        at = (left * right) ** 0.5
    else:
        at = measured.intensity_flop_per_byte
        axes.plot([at], [height], "D", color=_MEASURED, markersize=8, markeredgecolor="white")
    axes.annotate(
        f"{measured.label}: {_short(height)} GFLOP/s",
        (at, height),
        xytext=(0, -8),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=9,
        color=_MEASURED,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5},
    )


def _clipped(bounds: Bounds, ends: tuple[float, float]) -> tuple[float, float]:
    left = min(max(bounds.intensity_low, ends[0]), ends[1])
    return left, max(left * 1.02, min(bounds.intensity_high, ends[1]))


def _dress(axes: "Axes", low: float, high: float, floor: float) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xlim(low, high)
    axes.set_ylim(bottom=floor, top=axes.get_ylim()[1] * 1.6)
    for axis, (least, most) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        # Where few powers of ten are in sight, what is between them is labelled too.
        subs = (1.0,) if most / least > _DECADES_BARE else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=subs, numticks=20))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("arithmetic intensity (FLOP per byte of memory traffic)")
    axes.set_ylabel("GFLOP/s")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors="#444444", labelsize=9)
    axes.grid(which="major", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)


def _draw_words(figure: "Figure", title: str, subtitle: str, command: str) -> None:
    figure.text(0.03, 0.945, title, fontsize=14, fontweight="bold", color=_INK, va="center")
    if subtitle:
        figure.text(0.03, 0.893, subtitle, fontsize=9.5, color=_QUIET, va="center")
    figure.text(0.03, 0.03, command, fontsize=8, family="monospace", color=_QUIET, va="center")


def _short(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"
