"""A model that does what its rows tell it, and notes what it did: for tests that steer a server.

Loaded by workers as `puppet.py:Puppet`. A row is `[tag, order, ...]`: the tag says whose row it is,
the order what to do with the batch (`0` answer, `1` hold, `2` kill this process, `3` segfault).
Knows a folder: `notes` gets a line of JSON for each load and batch; a held batch, or load, goes on
once `open`, or `open-TAG`, is there. Tag 0 is nobody's: the warm-up's rows, which are not noted.
"""

import ctypes
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

HOLD, KILL, SEGFAULT = 1, 2, 3
POLL_S = 0.004


class Puppet:
    """Gives back `x` as `y`, times the parameter `scale` where there is one."""

    batch_parameters: ClassVar = ["scale"]

    def load(
        self, folder: str, columns: int = 4, on_load: str = "", can_batch: bool = True
    ) -> None:
        self._folder = Path(folder)
        self.can_batch = can_batch
        self.inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, columns]}]
        self.outputs = [{"name": "y", "datatype": "FP32", "shape": [-1, columns]}]
        self._note(loaded=os.getpid())
        if on_load == "hold":
            self._hold("load")
        elif on_load == "raise":
            raise ValueError("this model was told not to load")
        elif on_load == "die":
            os.kill(os.getpid(), signal.SIGKILL)

    def infer(self, batch: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
        x = batch["x"]
        tags = [int(tag) for tag in x[:, 0]]
        if any(tags):
            self._note(tags=tags, columns=x.shape[1])
            for tag, order in zip(tags, x[:, 1], strict=True):
                self._obey(int(order), str(tag))
        return {"y": x * np.float32(parameters.get("scale", 1))}

    def _obey(self, order: int, tag: str) -> None:
        if order == HOLD:
            self._hold(tag)
        elif order == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        elif order == SEGFAULT:
            ctypes.string_at(0)

    def _hold(self, tag: str) -> None:
        gates = (self._folder / "open", self._folder / f"open-{tag}")
        while not any(gate.exists() for gate in gates):
            time.sleep(POLL_S)

    def _note(self, **what: object) -> None:
        line = json.dumps({**what, "at_s": time.monotonic()}) + "\n"
        fd = os.open(self._folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)
