"""Models whose requests have any length: one that respects a mask, one that is handed lengths.

Loaded by workers as `shaped.py:Masked` and `shaped.py:Sums`.
"""

from typing import Any, ClassVar

import numpy as np


class Masked:
    """Twice each `x`, as long as it, and the mean of what the mask does not hide."""

    inputs: ClassVar = [
        {"name": "x", "datatype": "FP32", "shape": [-1, -1]},
        {"name": "mask", "datatype": "INT64", "shape": [-1, -1]},
    ]
    outputs: ClassVar = [
        {"name": "twice", "datatype": "FP32", "shape": [-1, -1]},
        {"name": "mean", "datatype": "FP32", "shape": [-1, 1]},
    ]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        x, mask = batch["x"], batch["mask"].astype(np.float32)
        count = np.maximum(mask.sum(axis=1, keepdims=True), 1)
        return {"twice": 2 * x, "mean": (x * mask).sum(axis=1, keepdims=True) / count}


class Sums:
    """The sum of each row of `x`; rows of all requests lie end to end, `sizes` says how long."""

    inputs: ClassVar = [
        {"name": "x", "datatype": "FP32", "shape": [-1]},
        {"name": "sizes", "datatype": "INT64", "shape": [-1]},
    ]
    outputs: ClassVar = [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        sizes = batch["sizes"]
        assert len(batch["x"]) == sizes.sum()
        rows = np.split(batch["x"], np.cumsum(sizes)[:-1])
        return {"y": np.array([[row.sum()] for row in rows], np.float32)}
