"""A model that turns rows round, in any datatype. Loaded by workers as `flip.py:Flip`."""

from typing import Any


class Flip:
    """`y` = `x` with its columns in the other order: each element has to be told from the next."""

    def load(self, *, datatype: str, columns: int = 4) -> None:
        shape = [-1, columns]
        self.inputs = [{"name": "x", "datatype": datatype, "shape": shape}]
        self.outputs = [{"name": "y", "datatype": datatype, "shape": shape}]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"y": batch["x"][:, ::-1]}
