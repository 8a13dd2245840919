"""The models that are soaked: an answer says whose it is, and a swapped or torn one is seen.

Loaded by workers as `models.py:Tripled` and so on; one more is an ONNX graph that `write_identity`
makes. Those in Python take a fixed time, so that capacity does not hang on the weather.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["MODELS", "Stamped", "Tripled", "Turned", "write_identity"]

Tensors = Mapping[str, Any]
MODELS = Path(__file__).resolve()


class Tripled:
    """`y` = 3 `x` + 1: soon done, what urgent requests ask for."""

    inputs: ClassVar = [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}]
    outputs: ClassVar = [{"name": "y", "datatype": "FP32", "shape": [-1, 16]}]

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """One batch, 4 ms and 1 ms a row."""
        time.sleep(0.004 + 0.001 * len(batch["x"]))
        return {"y": 3 * batch["x"] + 1}


class Turned:
    """`y` = each row of `x` backwards, of any width: slow, what the others ask for."""

    inputs: ClassVar = [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}]
    outputs: ClassVar = [{"name": "y", "datatype": "FP32", "shape": [-1, -1]}]

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """One batch, 20 ms and 2 ms a row."""
        time.sleep(0.020 + 0.002 * len(batch["x"]))
        return {"y": batch["x"][:, ::-1].copy()}


class Stamped:
    """`y` = `x` with the stamp of its version behind it."""

    inputs: ClassVar = [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    outputs: ClassVar = [{"name": "y", "datatype": "FP32", "shape": [-1, 5]}]

    def load(self, *, stamp: int = 0, service_ms: float = 2.0) -> None:
        """Choose the stamp, and how long a batch takes."""
        self._stamp, self._service_ms = stamp, service_ms

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """One batch."""
        import numpy as np

        time.sleep(self._service_ms / 1e3)
        x = batch["x"]
        stamps = np.full((len(x), 1), self._stamp, dtype=np.float32)
        return {"y": np.concatenate([x, stamps], axis=1)}


def write_identity(path: Path) -> None:
    """An ONNX graph that gives back what it gets, of any width."""
    from headway.demo import onnx_wire as wire

    shape = ("batch", "columns")
    graph = (
        wire.blob(1, wire.node("Identity", ["x"], ["y"]))
        + wire.text(2, "identity")
        + wire.blob(11, wire.value_info("x", wire.FLOAT, shape))
        + wire.blob(12, wire.value_info("y", wire.FLOAT, shape))
    )
    path.write_bytes(wire.model(graph, opset=13))
