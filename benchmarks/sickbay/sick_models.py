"""Python models with an illness each, and their healthy sisters: for those that diagnose.

Loaded by workers as `sick_models.py:Class`; knows numpy and nothing of headway. What a model
does when it is healthy is real work on its rows, so that only the illness tells it apart.
"""

import gc
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np

_WARM_UP_TAG = 1.0
"""What the warm-up's rows begin with: whoever is ill is so for real requests only."""


class _Rows:
    """One FP32 input `x` and output `y` of some columns."""

    def load(self, columns: int = 64) -> None:
        """Make what it needs."""
        shape = [-1, columns]
        self.inputs = [{"name": "x", "datatype": "FP32", "shape": shape}]
        self.outputs = [{"name": "y", "datatype": "FP32", "shape": shape}]


class Healthy(_Rows):
    """A layer or two: weights that are used again and again, and nothing that is kept."""

    def load(self, columns: int = 64, layers: int = 4) -> None:
        """Make what it needs."""
        super().load(columns)
        chance = np.random.default_rng(1)
        self._weights = [
            chance.standard_normal((columns, columns)).astype(np.float32) / columns**0.5
            for _ in range(layers)
        ]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        y = batch["x"]
        for weights in self._weights:
            y = np.tanh(y @ weights)
        return {"y": y}


class Leaks(Healthy):
    """Keeps something of every call, as a list of outputs "for later" does."""

    def load(self, columns: int = 64, layers: int = 4, kept_kib: int = 256) -> None:
        """Make what it needs."""
        super().load(columns, layers)
        self._kept: list[Any] = []
        self._kept_bytes = kept_kib << 10

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        self._kept.append(np.ones(self._kept_bytes, np.uint8))
        return super().infer(batch)


class KeepsModels(_Rows):
    """Leaves its weights with a module that outlives it."""

    def load(self, columns: int = 64, weights_mib: int = 48) -> None:
        """Make what it needs."""
        super().load(columns)
        self._weights = np.ones(weights_mib << 20, np.uint8)
        gc.callbacks.append(lambda *_: self._weights is None)

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        return {"y": batch["x"]}


class CopiesRows(_Rows):
    """Takes its batch apart, hands each row from stage to stage as a copy, and stacks them."""

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        rows = []
        for row in batch["x"]:
            centred = np.array(row) - np.float32(0.5)
            scaled = np.array(centred) * np.float32(2)
            rows.append(np.array(np.clip(scaled, -1, 1)))
        return {"y": np.stack(rows)}


class TakesBatches(Healthy):
    """The same kind of work for the whole batch: its fixed part is shared by all rows."""


class Threads(_Rows):
    """A pool of many more threads than cores, all of which compute."""

    def load(self, columns: int = 64, threads: int = 0) -> None:
        """Make what it needs."""
        super().load(columns)
        self._count = threads or 8 * (os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._count)
        self._square = np.full((512, 512), 0.01, np.float32)

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        list(self._pool.map(self._work, range(self._count)))
        return {"y": batch["x"]}

    def unload(self) -> None:
        """Let go of it."""
        self._pool.shutdown()

    def _work(self, _: int) -> None:
        for _ in range(3):
            self._square @ self._square


class HoldsTheInterpreter(_Rows):
    """Computes in Python: side by side with another, each waits for the other's lock."""

    def load(self, columns: int = 64, steps: int = 400_000) -> None:
        """Make what it needs."""
        super().load(columns)
        self._steps = steps

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        total = 0
        for step in range(self._steps):
            total += step & 3
        return {"y": batch["x"] + np.float32(total % 2)}


class MovesMuch(_Rows):
    """Computes next to nothing and gives back all that it was given."""

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        return {"y": batch["x"]}


class StartsSlowly(Healthy):
    """Does with its first real request what it should have done when it was loaded."""

    def load(self, columns: int = 64, layers: int = 4, seconds: float = 0.3) -> None:
        """Make what it needs."""
        super().load(columns, layers)
        self._seconds, self._is_cold = seconds, True

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        if self._is_cold and batch["x"][0, 0] != _WARM_UP_TAG and batch["x"].any():
            self._is_cold = False
            time.sleep(self._seconds)
        return super().infer(batch)


class TakesLong(_Rows):
    """Takes this long, whatever the batch."""

    def load(self, columns: int = 64, seconds: float = 0.02) -> None:
        """Make what it needs."""
        super().load(columns)
        self._seconds = seconds

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        time.sleep(self._seconds)
        return {"y": batch["x"]}


class TakesParameters(Healthy):
    """Computes otherwise for each value of a parameter, so that each has a batch of its own."""

    batch_parameters: ClassVar = ["temperature"]

    def infer(self, batch: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        y = super().infer(batch)["y"]
        return {"y": y * np.float32(parameters.get("temperature", 1))}


class Raises(_Rows):
    """Fails on a row that begins with a negative number."""

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        if batch["x"][0, 0] < 0:
            raise ValueError("a row is negative")
        return {"y": batch["x"]}


class Dies(_Rows):
    """Ends its process on a row that begins with a negative number."""

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Rows in, rows out."""
        if batch["x"][0, 0] < 0:
            os._exit(3)
        return {"y": batch["x"]}
