"""The frontier: important requests let down against unimportant work done, a point a policy.

Down and to the right is better. Where several loads were run a line joins a policy's points. Knows
matplotlib, imported when a picture is drawn; rows as results files have them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_frontier"]

Row = Mapping[str, object]

_COLOURS: Final = (
    *("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B6B6B", "#000000"),
)
"""Okabe and Ito: told apart by the colour-blind, and in print. The markers tell apart the rest."""
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
_INK: Final = "#222222"
_FAINT: Final = "#8A8A8A"
_GOODPUTS: Final = {
    "low_goodput_rps": "low-class requests answered in time, 1/s",
    "low_goodput_work": "low-class work done in time (cores)",
}


def draw_frontier(
    rows: Sequence[Row],
    path: Path,
    command: str,
    *,
    title: str = "High-class violations against low-class goodput",
    goodput: str = "low_goodput_rps",
    panels: str = "mix",
) -> None:
    """Draw a panel for each mix, as a PNG.

    Args:
        rows: one for each policy and load: `policy`, `load`, `high_violations` and the goodput,
            both with `_from` and `_to` where an interval is known.
        path: file to write.
        command: what made it, for the footer.
        title: what the picture shows, in one line.
        goodput: the field on the horizontal axis.
        panels: the field whose values have a panel each; rows without it share one.

    Raises:
        ValueError: no rows.
    """
    if not rows:
        raise ValueError("there is nothing to draw")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(str(row.get(panels, "")) for row in rows))
    across = min(len(names), 3)
    down = -(-len(names) // across)
    width, height = max(7.5, 4.6 * across), 3.9 * down + 1.7
    figure = Figure(figsize=(width, height), dpi=150)
    FigureCanvasAgg(figure)
    figure.subplots_adjust(
        left=0.75 / width,
        right=1 - 0.25 / width,
        top=1 - 1.25 / height,
        bottom=0.95 / height,
        hspace=0.38,
        wspace=0.2,
    )
    policies = list(dict.fromkeys(str(row["policy"]) for row in rows))
    for index, name in enumerate(names):
        axes = figure.add_subplot(down, across, index + 1)
        own = [row for row in rows if str(row.get(panels, "")) == name]
        _draw_panel(axes, own, policies, goodput)
        axes.set_title(name, loc="left", fontsize=10.5, color=_INK)
        if index % across == 0:
            axes.set_ylabel("high-class violations (%)")
        if index + across >= len(names):
            axes.set_xlabel(_GOODPUTS.get(goodput, goodput))
    _write_words(figure, policies, title, command)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white")


def _draw_panel(axes: "Axes", rows: Sequence[Row], policies: Sequence[str], goodput: str) -> None:
    for index, policy in enumerate(policies):
        own = [row for row in rows if row["policy"] == policy]
        own.sort(key=lambda row: _number(row.get("load")) or 0.0)
        if not own:
            continue
        xs = [_number(row[goodput]) or 0.0 for row in own]
        ys = [100 * (_number(row["high_violations"]) or 0.0) for row in own]
        axes.errorbar(
            xs,
            ys,
            xerr=_arms(own, goodput, 1.0),
            yerr=_arms(own, "high_violations", 100.0),
            color=_COLOURS[index % len(_COLOURS)],
            marker=_MARKERS[index % len(_MARKERS)],
            markersize=6,
            linewidth=1.4,
            elinewidth=0.8,
            linestyle="-" if len(own) > 1 else "none",
        )
        for row, x, y in zip(own, xs, ys, strict=True):
            if len(own) > 1:
                axes.annotate(
                    f"{_number(row.get('load')):g}",
                    (x, y),
                    xytext=(4, 4),
                    textcoords="offset points",
                    fontsize=7,
                    color=_FAINT,
                )
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors="#444444", labelsize=9)
    axes.grid(color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)


def _arms(rows: Sequence[Row], name: str, scale: float) -> list[list[float]]:
    """How far the interval reaches below and above each mean; a ratio never below 0."""
    below, above = [], []
    for row in rows:
        mean = _number(row[name]) or 0.0
        least, most = _number(row.get(f"{name}_from")), _number(row.get(f"{name}_to"))
        below.append(scale * (mean - max(0.0, mean if least is None else least)))
        above.append(scale * ((mean if most is None else most) - mean))
    return [below, above]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _write_words(figure: "Figure", policies: Sequence[str], title: str, command: str) -> None:
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    left = 0.25 / width
    figure.text(left, 1 - 0.3 / height, title, fontsize=14, fontweight="bold", color=_INK)
    figure.legend(
        handles=[
            Line2D(
                [],
                [],
                color=_COLOURS[index % len(_COLOURS)],
                marker=_MARKERS[index % len(_MARKERS)],
                label=policy,
            )
            for index, policy in enumerate(policies)
        ],
        loc="upper left",
        bbox_to_anchor=(left - 0.01, 1 - 0.38 / height),
        ncols=max(3, int(width / 1.5)),
        frameon=False,
        fontsize=9,
        columnspacing=1.4,
    )
    figure.text(left, 0.2 / height, command, fontsize=8, family="monospace", color="#555555")
