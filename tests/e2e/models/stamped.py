"""A model that stamps every row with its version: a reload that mixes versions shows.

Loaded by workers as `stamped.py:Stamped`; the stamp is an option, or stands in a file, which a test
writes anew before it reloads.
"""

from pathlib import Path
from typing import Any

import numpy as np


class Stamped:
    """`y` = `x` with the stamp behind it."""

    def load(self, stamp: int = 0, file: str = "") -> None:
        self.inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
        self.outputs = [{"name": "y", "datatype": "FP32", "shape": [-1, 5]}]
        self._stamp = int(Path(file).read_text()) if file else stamp

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        x = batch["x"]
        stamps = np.full((len(x), 1), self._stamp, dtype=np.float32)
        return {"y": np.concatenate([x, stamps], axis=1)}
