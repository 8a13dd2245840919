"""Functions of a toy pipeline: a page is cut into rows, and what was read of them becomes text."""

import numpy as np


def cut(page):
    """Each row of a page, an item of its own."""
    return {"row": [page[i : i + 1] for i in range(len(page))], "size": np.asarray([page.size])}


class Text:
    """Tags as text, behind what was configured."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __call__(self, rows, parameters):
        suffix = parameters.get("suffix", "")
        lines = [f"{self._prefix}{int(row[0, 0])}{suffix}" for row in rows]
        return {"lines": np.asarray(lines, np.str_)}  # of no lines, too


def refuse(x):
    """Never gives anything."""
    raise ValueError("this page is upside down")
