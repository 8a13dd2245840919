"""What `pipeline_overlap.py` serves: a call that does all in its slot, and the steps that it is.

Loaded by workers. Both ways compute the same with the same functions and the same graphs; the one
that does all in sequence says how long its graphs ran, which is all that an accelerator would do.
"""

from __future__ import annotations

import io
from time import thread_time_ns
from typing import Any, ClassVar

import numpy as np
import onnxruntime as ort
from PIL import Image

from headway.demo.moderation import encode_picture
from headway.demo.ocr_steps import Text, crop, encode

__all__ = ["WholePage", "WholePicture", "prepare", "score"]


class _Graph:
    """A graph on one thread, as headway's own back end runs it, with that thread's clock around it.

    The clock stands while others have the core: an accelerator would not wait for them.
    """

    def __init__(self, path: str) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.ran_ns = 0

    def run(self, output: str, inputs: dict[str, Any]) -> Any:
        """One output of a run."""
        began_at_ns = thread_time_ns()
        (result,) = self._session.run([output], inputs)
        self.ran_ns += thread_time_ns() - began_at_ns
        return result

    def took_ns(self) -> int:
        """Since the last call of this."""
        ran_ns, self.ran_ns = self.ran_ns, 0
        return ran_ns


class _Whole:
    """All steps of a call, one after another, on the slot that it has."""

    can_batch = False

    def infer(self, batch: dict[str, Any]) -> dict[str, Any]:
        """What was computed, and how long graphs ran meanwhile."""
        outputs = self.compute(batch)
        busy_ns = sum(graph.took_ns() for graph in self.graphs)
        return {**outputs, "busy_ns": np.asarray([busy_ns], np.int64)}


class WholePage(_Whole):
    """Optical character recognition in one call: find lines, cut them out, read each."""

    inputs: ClassVar = [{"name": "page", "datatype": "UINT8", "shape": [-1, -1, 3]}]
    outputs: ClassVar = [
        {"name": "lines", "datatype": "BYTES", "shape": [-1]},
        {"name": "busy_ns", "datatype": "INT64", "shape": [1]},
    ]

    def load(self, detect: str, recognise: str) -> None:
        """Read both graphs."""
        self._detect, self._recognise, self._text = (
            _Graph(detect),
            _Graph(recognise),
            Text(recognise),
        )
        self.graphs = (self._detect, self._recognise)

    def compute(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The whole call."""
        ink = self._detect.run("sigmoid_0.tmp_0", encode(batch["page"]))
        lines = crop(batch["page"], ink)["line"]
        return self._text([self._recognise.run("character", {"x": line}) for line in lines])


class WholePicture(_Whole):
    """Moderation of a photograph in one call: decode it, shrink it, run the model."""

    inputs: ClassVar = [{"name": "jpeg", "datatype": "UINT8", "shape": [-1]}]
    outputs: ClassVar = [
        {"name": "unsafe", "datatype": "FP32", "shape": [1]},
        {"name": "busy_ns", "datatype": "INT64", "shape": [1]},
    ]

    def load(self, moderate: str) -> None:
        """Read the graph."""
        self._moderate = _Graph(moderate)
        self.graphs = (self._moderate,)

    def compute(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The whole call."""
        if not batch["jpeg"].any():  # the warm-up's zeros are no photograph
            return {"unsafe": np.zeros(1, np.float32)}
        return score(self._moderate.run("outputs", {"input:0": prepare(batch["jpeg"])["x"]}))


def prepare(jpeg: Any) -> dict[str, Any]:
    """A photograph as the model wants it."""
    picture = np.asarray(Image.open(io.BytesIO(jpeg.tobytes())).convert("RGB"))
    return {"x": encode_picture(picture)["input:0"]}


def score(probabilities: Any) -> dict[str, Any]:
    """How unsafe it is."""
    return {"unsafe": probabilities[0, 1:2].astype(np.float32)}
