"""The functions of the pipeline `ocr`, as workers run them: picture -> detector -> lines -> text.

Knows arrays in and out. What they do to pixels stands in `ocr.py`.
"""

from pathlib import Path

import numpy as np

from headway.demo.arrays import Array, Arrays, Floats, Pixels
from headway.demo.ocr import decode_lines, encode_line, encode_page, find_boxes, read_characters

__all__ = ["Text", "crop", "encode"]

_MULTIPLE = 32
_WHITE = 255


def encode(page: Pixels) -> Arrays:
    """A picture of any size for the detector, with white at its right and bottom if need be."""
    height, width = page.shape[:2]
    below, right = -height % _MULTIPLE, -width % _MULTIPLE
    edges = ((0, below), (0, right), (0, 0))
    return encode_page(np.pad(page, edges, constant_values=_WHITE) if below or right else page)


def crop(page: Pixels, ink: Floats) -> dict[str, list[Array]]:
    """The lines that the detector found, from top to bottom, each ready for the recogniser."""
    crops = [page[box.top : box.bottom, box.left : box.right] for box in find_boxes(ink[0, 0])]
    # What lies wholly in the white that was added is no part of the page.
    return {"line": [encode_line(each)["x"] for each in crops if each.size]}


class Text:
    """Lines of text from what the recogniser saw of each.

    Args:
        graph: the recogniser's file, which says what its numbers stand for.
    """

    def __init__(self, graph: str) -> None:
        self._characters = read_characters(Path(graph))

    def __call__(self, columns: list[Array]) -> Arrays:
        """One line for each item."""
        lines = [line for each in columns for line in decode_lines(self._characters, each)]
        return {"lines": np.asarray(lines, np.str_)}
