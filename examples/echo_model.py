"""Models that give back what they get: the smallest Python models that headway serves.

Options (keyword arguments of `load`) name its tensors and their shape:

    path: examples/echo_model.py:Echo
    options: {input_name: x, output_name: y, datatype: FP32, columns: 16}
"""

from collections.abc import Mapping
from typing import Any, ClassVar

__all__ = ["Echo", "Pair"]

Tensors = Mapping[str, Any]


class Echo:
    """One input, one output, both (batch, columns)."""

    inputs: list[dict[str, object]]
    outputs: list[dict[str, object]]

    def load(
        self,
        *,
        input_name: str = "x",
        output_name: str = "y",
        datatype: str = "FP32",
        columns: int = 16,
    ) -> None:
        """Choose names and shapes; -1 columns take any width. Called once, before any batch."""
        shape = [-1, columns]
        self.inputs = [{"name": input_name, "datatype": datatype, "shape": shape}]
        self.outputs = [{"name": output_name, "datatype": datatype, "shape": shape}]
        self._input, self._output = input_name, output_name

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """The whole batch at once, as numpy arrays: the rows of several requests may be in it."""
        return {self._output: batch[self._input]}


class Pair:
    """Two inputs and two outputs, of two datatypes: `y` is `x`, `w` is `z`."""

    inputs: ClassVar = [
        {"name": "x", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "z", "datatype": "INT64", "shape": [-1, 2]},
    ]
    outputs: ClassVar = [
        {"name": "y", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "w", "datatype": "INT64", "shape": [-1, 2]},
    ]

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """Both, as they are."""
        return {"y": batch["x"], "w": batch["z"]}
