"""Names for the arrays that go into a model and come out of it.

Knows numpy's types. Never a model.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Arrays", "Floats", "Infer", "Pixels"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]
"""(height, width, channel) uint8, red first."""

Arrays = dict[str, Array]

Infer = Callable[[str, Arrays], Mapping[str, Array]]
"""A model's name and its named inputs -> its named outputs; over a network or in-process."""
