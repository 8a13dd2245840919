"""Python models for the tests: good ones, and one for each way to go wrong.

Loaded by workers as `tests/python_models.py:Class`; knows numpy and nothing of headway.
"""

import ctypes
import os
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

FP32_ROWS = {"datatype": "FP32", "shape": [-1, 4]}


def tell(path: str) -> None:
    """Wake a test that listens at a FIFO."""
    with Path(path).open("wb", buffering=0) as fifo:
        fifo.write(b".")


class Rows:
    """One FP32 input `x` and output `y`, four columns; subclasses do something with it."""

    inputs: ClassVar = [{"name": "x", **FP32_ROWS}]
    outputs: ClassVar = [{"name": "y", **FP32_ROWS}]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"y": batch["x"]}


class Echo:
    """Any datatype, any columns; without a batch axis if told so."""

    def load(self, datatype: str = "FP32", columns: int = 4, has_batch: bool = True) -> None:
        shape = [-1, columns] if has_batch else [columns]
        self.inputs = [{"name": "x", "datatype": datatype, "shape": shape}]
        self.outputs = [{"name": "y", "datatype": datatype, "shape": shape}]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"y": batch["x"]}


class Difference(Rows):
    inputs: ClassVar = [{"name": "x", **FP32_ROWS}, {"name": "z", **FP32_ROWS}]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"y": batch["x"] - batch["z"]}


class TwoOutputs(Rows):
    outputs: ClassVar = [{"name": "y", **FP32_ROWS}, {"name": "negative", **FP32_ROWS}]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"negative": -batch["x"], "y": batch["x"]}


class DoubledRows(Rows):
    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"y": np.concatenate([batch["x"], batch["x"]])}


class Scaled(Rows):
    """Uses the request's parameters."""

    def infer(self, batch: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
        return {"y": batch["x"] * np.float32(parameters.get("factor", 1))}


class Raises(Rows):
    """Raises on a row that begins with the number asked for; -1 passes the warm-up."""

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0, 0] < 0:
            raise ValueError("a row is negative")
        return {"y": batch["x"]}


class Quits(Raises):
    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0, 0] < 0:
            sys.exit(3)
        return {"y": batch["x"]}


class Returns(Rows):
    """Gives back what the parameter `kind` says, most of it wrong."""

    def infer(self, batch: dict[str, Any], parameters: dict[str, Any]) -> Any:
        x = batch["x"]
        return {
            "right": {"y": x},
            "strided": {"y": np.asfortranarray(x)},
            "big_endian": {"y": x.astype(">f4")},
            "list": [x],
            "no_output": {},
            "unknown_output": {"y": x, "w": x},
            "float64": {"y": x.astype(np.float64)},
            "columns": {"y": x[:, :2]},
            "scalar": {"y": np.float32(1)},
        }[parameters.get("kind", "right")]


class Grows(Rows):
    """Repeats its one row as often as the parameter `times` says."""

    outputs: ClassVar = [{"name": "y", "datatype": "FP32", "shape": [-1, -1]}]

    def infer(self, batch: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
        return {"y": np.tile(batch["x"], (1, parameters.get("times", 1)))}


class Strings:
    """Says how long each string is and turns it round: bytes are numpy objects here."""

    inputs: ClassVar = [{"name": "x", "datatype": "BYTES", "shape": [-1]}]
    outputs: ClassVar = [
        {"name": "y", "datatype": "BYTES", "shape": [-1]},
        {"name": "length", "datatype": "INT64", "shape": [-1]},
    ]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        x = batch["x"]
        length = np.array([len(element) for element in x], np.int64)
        return {"y": np.array([element[::-1] for element in x], object), "length": length}


class FailsToLoad(Rows):
    def load(self) -> None:
        raise OSError("the weights are gone")


class HangsInLoad(Rows):
    """Tells that it is loading, then waits until it is told to go on."""

    def load(self, begun: str, go_on: str) -> None:
        tell(begun)
        with Path(go_on).open("rb") as fifo:
            fifo.read(1)


class SaysGoodbye(Rows):
    """Tells that it is being unloaded."""

    def load(self, gone: str) -> None:
        self.gone = gone

    def unload(self) -> None:
        tell(self.gone)


class Hangs(Rows):
    """Tells that it runs, then waits for good on a row that begins with a negative number."""

    def load(self, begun: str) -> None:
        self.begun = begun

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0, 0] < 0:
            tell(self.begun)
            threading.Event().wait()
        return {"y": batch["x"]}


class HangsWithLock(Hangs):
    """The same in native code that never lets go of the interpreter."""

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0, 0] < 0:
            tell(self.begun)
            ctypes.PyDLL(None).pause()
        return {"y": batch["x"]}


class WaitsToGoOn(Hangs):
    """Tells that it runs, then waits until it is told to go on."""

    def load(self, begun: str, go_on: str) -> None:
        self.begun, self.go_on = begun, go_on

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0, 0] < 0:
            tell(self.begun)
            with Path(self.go_on).open("rb") as fifo:
                fifo.read(1)
        return {"y": batch["x"]}


class Dies(Rows):
    """Ends its process in the way that the parameter `how` says."""

    def infer(self, batch: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
        match parameters.get("how"):
            case "segfault":
                ctypes.string_at(0)
            case "exit":
                sys.stderr.write("giving up\n")
                os._exit(3)
            case "close":
                os.closerange(3, 256)
                threading.Event().wait()
        return {"y": batch["x"]}


class Meets(Rows):
    """Returns only when a second batch is inside at the same time."""

    def load(self) -> None:
        self.barrier = threading.Barrier(2)

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0, 0] < 0:
            self.barrier.wait(30)
        return {"y": batch["x"]}


class Lane(Rows):
    """Reports its thread's niceness and cores, and whether the main thread's were left alone."""

    outputs: ClassVar = [
        {"name": "niceness", "datatype": "INT64", "shape": [-1]},
        {"name": "cores", "datatype": "BYTES", "shape": [-1]},
    ]

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        niceness = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0)))
        rows = len(batch["x"])
        return {"niceness": np.full(rows, niceness), "cores": np.full(rows, cores, object)}


class Floods(Rows):
    """Prints far more than a pipe holds."""

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["x"][0, 0] < 0:
            for _ in range(40):
                sys.stdout.write("spam spam spam spam\n" * 5_000)
        return {"y": batch["x"]}
