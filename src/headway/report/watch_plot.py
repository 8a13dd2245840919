"""A watch as a picture: panels of lines over one axis of time, and what was found, in words.

Knows numbers and matplotlib, which is imported when a picture is drawn. Refuses to know who was
watched.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["WatchPanel", "plot_watch"]

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B6B6B")
"""Okabe and Ito: told apart by the colour-blind, and in print."""
_STYLES: Final = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)))
_INK: Final = "#222222"
_FAINT: Final = "#8A8A8A"
_WIDTH_IN: Final = 9.0
_PANEL_IN: Final = 1.75
_NOTES_MAX: Final = 6
_NOTE_CHARS_MAX: Final = 120
_POINTS_MAX: Final = 2_000
_MINUTES_FROM_S: Final = 300.0
"""A longer watch counts in minutes."""


class WatchPanel(NamedTuple):
    """One set of axes."""

    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    """By label: seconds since the start, and the value."""


def plot_watch(
    panels: Sequence[WatchPanel],
    path: Path,
    *,
    title: str,
    notes: Sequence[str],
    command: str,
) -> None:
    """Draw panels below each other, as a PNG.

    Args:
        panels: at least one.
        path: file to write.
        title: who was watched.
        notes: what was found, a line each.
        command: what made it, for the footer.

    Raises:
        ValueError: there is no panel.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not panels:
        raise ValueError("there is nothing to draw")
    shown = _shortened(notes)
    head_in, foot_in = 0.75 + 0.2 * len(shown), 0.95
    height = head_in + foot_in + _PANEL_IN * len(panels)
    figure = Figure(figsize=(_WIDTH_IN, height), dpi=150)
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        len(panels),
        1,
        left=0.08,
        right=0.72,
        top=1 - head_in / height,
        bottom=foot_in / height,
        hspace=0.42,
    )
    longest_s = max(points[-1][0] for panel in panels for points in panel.lines.values() if points)
    longest_s = longest_s or 1.0  # a watch may end with its first reading
    unit_s, unit = (60.0, "minutes") if longest_s >= _MINUTES_FROM_S else (1.0, "seconds")
    labels = dict.fromkeys(label for panel in panels for label in panel.lines)
    looks = {label: _look_of(index) for index, label in enumerate(labels)}
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(grid[index])
        _draw(axes, panel, unit_s, looks)
        axes.set_xlim(0, longest_s / unit_s)
        if index == len(panels) - 1:
            axes.set_xlabel(unit, fontsize=9, color="#444444")
        else:
            axes.set_xticklabels([])
    figure.text(0.03, 1 - 0.28 / height, title, fontsize=13, fontweight="bold", color=_INK)
    for row, note in enumerate(shown):
        figure.text(0.03, 1 - (0.5 + 0.2 * row) / height, note, fontsize=9, color="#555555")
    figure.text(0.03, 0.2 / height, command, fontsize=7.5, family="monospace", color="#555555")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white")


def _look_of(index: int) -> dict[str, Any]:
    """Colour and style of a line, the same in every panel."""
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "linestyle": _STYLES[index // len(_COLOURS) % len(_STYLES)],
    }


def _draw(
    axes: "Axes", panel: WatchPanel, unit_s: float, looks: Mapping[str, Mapping[str, Any]]
) -> None:
    for label, points in panel.lines.items():
        thinned = points[:: max(1, len(points) // _POINTS_MAX)]
        axes.plot(
            [at_s / unit_s for at_s, _ in thinned],
            [value for _, value in thinned],
            **looks[label],
            marker="o" if len(thinned) == 1 else None,
            linewidth=1.6,
            label=label,
        )
    axes.set_title(f"{panel.title} ({panel.unit})", **_PANEL_TITLE)
    axes.set_ylim(bottom=0)
    # An even reading would else be drawn along the very top.
    axes.set_ylim(top=max(axes.get_ylim()[1] * 1.08, 1e-9))
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.03), frameon=False, fontsize=8, handlelength=1.6
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors="#444444", labelsize=8)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)


def _shortened(notes: Sequence[str]) -> list[str]:
    lines = [
        note if len(note) <= _NOTE_CHARS_MAX else note[: _NOTE_CHARS_MAX - 3] + "..."
        for note in notes[:_NOTES_MAX]
    ]
    more = len(notes) - len(lines)
    return [*lines, f"and {more} more"] if more else lines


_PANEL_TITLE: Final[dict[str, Any]] = {"loc": "left", "fontsize": 10, "color": _INK, "pad": 6}
