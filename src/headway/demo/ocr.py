"""Pictures of text: find the lines, cut them out, read them.

Knows what PP-OCRv4's detector and recogniser take and give. Everything between them is numpy and
Pillow: boxes come from connected pixels, so text must stand upright, as it does in a scan.
"""

import math
import random
import string
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from headway.demo.arrays import Array, Arrays, Floats, Infer, Pixels
from headway.demo.graphs import read_metadata

__all__ = [
    "LINE_WIDTHS",
    "Box",
    "decode_lines",
    "draw_page",
    "encode_line",
    "encode_page",
    "find_boxes",
    "invent_line",
    "read_characters",
    "read_page",
]

LINE_WIDTHS = (160, 320, 640)
"""Widths, in pixels, to which a line is padded; a longer one is squeezed."""

_LINE_HEIGHT = 48
_PAGE_MULTIPLE = 32
_INK_THRESHOLD = 0.3
_BOX_THRESHOLD = 0.5
_UNCLIP_RATIO = 1.6
_SIDE_MIN = 3
_FONT_SIZE = 26


class Box(NamedTuple):
    """An upright rectangle in pixels; right and bottom lie outside."""

    left: int
    top: int
    right: int
    bottom: int


class _Run(NamedTuple):
    """Neighbouring pixels of one row that belong together."""

    row: int
    start: int
    end: int


def read_page(infer: Infer, characters: Sequence[str], page: Pixels) -> list[str]:
    """The lines of text in a picture, from top to bottom."""
    ink = infer("ocr-detect", encode_page(page))["sigmoid_0.tmp_0"]
    lines = []
    for box in find_boxes(ink[0, 0]):
        crop = page[box.top : box.bottom, box.left : box.right]
        outputs = infer("ocr-recognise", encode_line(crop))
        lines += decode_lines(characters, outputs["character"])
    return lines


def encode_page(page: Pixels) -> Arrays:
    """A picture for the detector: (1, 3, height, width) float32 in -1..1.

    Its sides must be multiples of 32, as those of the pages that the demo draws are.
    """
    height, width = page.shape[:2]
    assert height % _PAGE_MULTIPLE == 0, "the detector halves the height five times"
    assert width % _PAGE_MULTIPLE == 0, "the detector halves the width five times"
    return {"x": _normalise(page)[None]}


def encode_line(crop: Pixels) -> Arrays:
    """A cut-out line for the recogniser: (1, 3, 48, W) float32, W being one of the widths."""
    height, width = crop.shape[:2]
    natural = max(1, math.ceil(_LINE_HEIGHT * width / height))
    bucket = next((w for w in LINE_WIDTHS if w >= natural), LINE_WIDTHS[-1])
    scaled = Image.fromarray(crop).resize((min(natural, bucket), _LINE_HEIGHT))
    padded = np.zeros((1, 3, _LINE_HEIGHT, bucket), np.float32)
    padded[0, :, :, : scaled.width] = _normalise(np.asarray(scaled))
    return {"x": padded}


def _normalise(pixels: Pixels) -> Floats:
    """(height, width, 3) uint8 -> (3, height, width) float32 in -1..1, blue first."""
    scaled = pixels[:, :, ::-1].astype(np.float32) / 127.5 - 1.0
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def read_characters(graph: Path) -> tuple[str, ...]:
    """What each number of the recogniser stands for; 0 is "no character here"."""
    stored = read_metadata(graph.read_bytes())["character"]
    return ("", *stored.split("\n"), " ")


def decode_lines(characters: Sequence[str], columns: Array) -> list[str]:
    """Text from the best character of each column, (batch, column) int64.

    Repeats mean one character that spans columns, unless a "no character" stands between.
    """
    return ["".join(characters[i] for i in _collapse(row)) for row in columns]


def _collapse(row: Array) -> list[int]:
    changes = np.flatnonzero(np.diff(row, prepend=-1))
    return [int(row[at]) for at in changes if row[at] != 0]


def find_boxes(ink: Floats) -> list[Box]:
    """Boxes around connected inky areas of a detector's map, (height, width) float32, by row."""
    boxes = []
    for component in _components(ink > _INK_THRESHOLD):
        box = _bounds(component)
        is_large = min(box.right - box.left, box.bottom - box.top) >= _SIDE_MIN
        inside = ink[box.top : box.bottom, box.left : box.right]
        if is_large and inside.mean() > _BOX_THRESHOLD:
            boxes.append(_grow(box, ink.shape[1], ink.shape[0]))
    return sorted(boxes, key=lambda box: (box.top, box.left))


def _components(mask: npt.NDArray[np.bool_]) -> list[list[_Run]]:
    """Groups runs that touch, diagonally too, by union-find over neighbouring rows."""
    rows = [_runs(row, index) for index, row in enumerate(mask)]
    runs = [run for row in rows for run in row]
    parent = list(range(len(runs)))
    above_start, at = 0, 0
    for row in rows:
        for offset in range(len(row)):
            for above in range(above_start, at):
                if _touch(runs[above], runs[at + offset]):
                    parent[_root(parent, at + offset)] = _root(parent, above)
        above_start, at = at, at + len(row)
    groups: dict[int, list[_Run]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(_root(parent, index), []).append(run)
    return list(groups.values())


def _runs(row: npt.NDArray[np.bool_], index: int) -> list[_Run]:
    edges = np.flatnonzero(np.diff(row.astype(np.int8), prepend=0, append=0))
    return [_Run(index, int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _touch(above: _Run, below: _Run) -> bool:
    return above.start <= below.end and below.start <= above.end


def _root(parent: list[int], index: int) -> int:
    while parent[index] != index:
        parent[index] = parent[parent[index]]
        index = parent[index]
    return index


def _bounds(component: Sequence[_Run]) -> Box:
    return Box(
        left=min(run.start for run in component),
        top=component[0].row,
        right=max(run.end for run in component),
        bottom=component[-1].row + 1,
    )


def _grow(box: Box, width: int, height: int) -> Box:
    """Undoes the detector's shrinking: it was trained to mark only the core of a line."""
    wide, high = box.right - box.left, box.bottom - box.top
    margin = round(wide * high * _UNCLIP_RATIO / (2 * (wide + high)))
    return Box(
        left=max(0, box.left - margin),
        top=max(0, box.top - margin),
        right=min(width, box.right + margin),
        bottom=min(height, box.bottom + margin),
    )


def draw_page(lines: Sequence[str], *, width: int = 320, height: int = 320) -> Pixels:
    """Black text on white, lines spread over the height: (height, width, 3) uint8."""
    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=_FONT_SIZE)
    pitch = height // len(lines)
    for index, line in enumerate(lines):
        draw.text((24, index * pitch + (pitch - _FONT_SIZE) // 2), line, "black", font)
    return np.asarray(image)


def invent_line(chance: random.Random) -> str:
    """A word and a number, as on a bill; 8 to 14 characters.

    Without a space, because the recogniser was trained mostly on a script that has none.
    """
    word = "".join(chance.choices(string.ascii_uppercase, k=chance.randint(3, 7)))
    return f"{word}-{chance.randint(1000, 999_999)}"
