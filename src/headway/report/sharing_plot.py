"""Devices, their slices and who sits where, as a picture.

Knows matplotlib, imported when it is drawn. A device is a bar as wide as its memory. In it stand
its slices, each at its place; in a slice its models, each as wide as the memory that it needs, in
the colour of its tenant, filled as high as the part of the slice's time that it takes. What is
white is free, what is hatched no slice can have.
"""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DrawnDevice", "DrawnSeat", "DrawnSlice", "plot_sharing"]

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1")
"""Okabe and Ito, and one more; the legend names them."""
_INK: Final = "#222222"
_QUIET: Final = "#555555"
_FREE: Final = "#FFFFFF"
_NOTHING: Final = "#EDEDED"
_DEVICES_MAX: Final = 64
"""More make a picture that nobody reads."""
_ROW_INCHES: Final = 0.62
_BAR: Final = 0.74
"""Of a row's height."""
_CHARS_MIN: Final = 6
_CHAR_WIDTH: Final = 0.0105
"""Of a device's bar, one letter of a label."""


class DrawnSeat(NamedTuple):
    """A model in a slice."""

    label: str
    tenant: str
    memory_ratio: float
    """Of the slice's memory."""
    load_ratio: float
    """Of the slice's time."""


class DrawnSlice(NamedTuple):
    """A part of a device."""

    label: str
    left_ratio: float
    """Where it begins, of the device's memory."""
    width_ratio: float
    seats: tuple[DrawnSeat, ...]


class DrawnDevice(NamedTuple):
    """A bar."""

    label: str
    words: str
    """On the right of it: mode and figures."""
    slices: tuple[DrawnSlice, ...]


def plot_sharing(
    devices: Sequence[DrawnDevice],
    path: Path,
    *,
    title: str,
    command: str,
    subtitle: str = "",
) -> None:
    """Draw devices from top to bottom, as SVG or PNG by the file's ending.

    Args:
        devices: in order; those beyond the sixty-fourth are counted, not drawn.
        path: file to write.
        title: what the picture shows, in one line.
        command: what made it, for the footer.
        subtitle: figures of the whole plan, in one line.

    Raises:
        ValueError: no devices.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if not devices:
        raise ValueError("a picture of a plan needs a device")
    shown = devices[:_DEVICES_MAX]
    tenants = sorted({seat.tenant for d in devices for part in d.slices for seat in part.seats})
    colours = dict(zip(tenants, cycle(_COLOURS), strict=False))
    height = len(shown) * _ROW_INCHES + 2.0
    figure = Figure(figsize=(12.5, height), dpi=150)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.13, 0.75 / height, 0.63, len(shown) * _ROW_INCHES / height))
    for row, device in enumerate(shown):
        _draw_device(axes, row, device, colours)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 % of memory"])
    axes.tick_params(colors="#444444", labelsize=8)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    _draw_words(figure, height, colours, title, subtitle, command)
    if len(shown) < len(devices):
        more = f"and {len(devices) - len(shown)} more devices"
        figure.text(0.13, 0.45 / height, more, fontsize=9, color=_QUIET)
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with rc_context({"svg.hashsalt": "headway", "svg.fonttype": "none"}):
        figure.savefig(path, facecolor="white", metadata=metadata)


def _draw_device(axes: "Axes", row: int, device: DrawnDevice, colours: dict[str, str]) -> None:
    from matplotlib.patches import Rectangle

    top = row - _BAR / 2
    axes.add_patch(
        Rectangle((0, top), 1, _BAR, facecolor=_NOTHING, edgecolor="#BBBBBB", hatch="////", lw=0.6)
    )
    for part in device.slices:
        _draw_slice(axes, top, part, colours)
    axes.text(-0.012, row, device.label, ha="right", va="center", fontsize=9, color=_INK)
    axes.text(1.012, row, device.words, ha="left", va="center", fontsize=8, color=_QUIET)


def _draw_slice(axes: "Axes", top: float, part: DrawnSlice, colours: dict[str, str]) -> None:
    from matplotlib.patches import Rectangle

    left, width = part.left_ratio, part.width_ratio
    axes.add_patch(Rectangle((left, top), width, _BAR, facecolor=_FREE, edgecolor="none"))
    at = left
    unnamed = []
    for seat in part.seats:
        wide = width * seat.memory_ratio
        high = _BAR * min(1.0, seat.load_ratio)
        colour = colours[seat.tenant]
        axes.add_patch(
            Rectangle((at, top), wide, _BAR, facecolor=colour, alpha=0.22, edgecolor=colour, lw=0.8)
        )
        axes.add_patch(
            Rectangle((at, top + _BAR - high), wide, high, facecolor=colour, alpha=0.55, lw=0)
        )
        if not _label(axes, at, top + _BAR * 0.58, wide, seat.label):
            unnamed.append(seat.label)
        at += wide
    # Who is too narrow for a name has it beside the others, where there is room.
    free = left + width - at
    _label(axes, at, top + _BAR * 0.58, free, ", ".join(unnamed), colour=_QUIET)
    axes.add_patch(Rectangle((left, top), width, _BAR, facecolor="none", edgecolor=_INK, lw=1.1))
    if part.label:
        _label(axes, left, top + 0.13 * _BAR, width, part.label, size=6.5, colour=_QUIET)


def _label(
    axes: "Axes",
    x: float,
    y: float,
    wide: float,
    text: str,
    *,
    size: float = 7.5,
    colour: str = _INK,
) -> bool:
    """As much of a text as there is room for; nothing, and False, where that would be no word."""
    room = int(wide / _CHAR_WIDTH * 7.5 / size)
    if not text or room < min(len(text), _CHARS_MIN):
        return False
    shown = text if len(text) <= room else f"{text[: room - 1]}…"
    axes.text(x + wide / 2, y, shown, ha="center", va="center", fontsize=size, color=colour)
    return True


def _draw_words(
    figure: Any, height: float, colours: dict[str, str], title: str, subtitle: str, command: str
) -> None:
    from matplotlib.patches import Patch

    figure.text(0.02, 1 - 0.3 / height, title, fontsize=14, fontweight="bold", color=_INK)
    if subtitle:
        figure.text(0.02, 1 - 0.57 / height, subtitle, fontsize=9.5, color=_QUIET)
    patches = [Patch(facecolor=c, alpha=0.55, label=name) for name, c in colours.items()]
    if patches:
        figure.legend(
            handles=patches,
            loc="upper left",
            bbox_to_anchor=(0.012, 1 - 0.62 / height),
            ncols=min(len(patches), 8),
            frameon=False,
            fontsize=9,
            title_fontsize=9,
        )
    figure.text(0.02, 0.14 / height, command, fontsize=8, family="monospace", color=_QUIET)
