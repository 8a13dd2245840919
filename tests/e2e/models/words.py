"""A model that gives back words. Loaded by workers as `words.py:Words`."""

from typing import Any, ClassVar


class Words:
    """`y` = `x`, both BYTES of any width."""

    inputs: ClassVar = [{"name": "x", "datatype": "BYTES", "shape": [-1, -1]}]
    outputs: ClassVar = [{"name": "y", "datatype": "BYTES", "shape": [-1, -1]}]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"y": batch["x"]}
