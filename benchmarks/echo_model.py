"""The model behind headway's row of the echo benchmark: what goes in comes out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["Echo"]


class Echo:
    """One input `x`, one output `y`, both (batch, 16) float32."""

    def predict(self, inputs: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        """The whole batch at once."""
        return {"y": inputs["x"]}
