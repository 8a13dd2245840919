"""The demo's pipeline in its configuration: one model of detector, recogniser and functions.

Pure text. Never runs a step.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["PIPELINE", "PIPELINE_MODELS", "pipeline_lines"]

PIPELINE: Final = "ocr"
PIPELINE_MODELS: Final = ("ocr-detect", "ocr-recognise")
"""What must be served for it to be."""

_STEPS: Final = "headway.demo.ocr_steps"


def pipeline_lines(models: Mapping[str, Path], tier: str) -> list[str]:
    """The entry, for people to read; nothing where a model that it needs is not served.

    Args:
        models: ONNX files by name.
        tier: of its calls.
    """
    if any(name not in models for name in PIPELINE_MODELS):
        return []
    graph = json.dumps(str(models["ocr-recognise"]))
    return [
        f"  - name: {PIPELINE}   # a picture in, its lines of text out: the two models above, and",
        "    tier: " + tier.ljust(7) + "# functions that run beside them",
        "    inputs: [{name: page, datatype: UINT8, shape: [-1, -1, 3]}]",
        "    outputs: [{name: lines, datatype: BYTES, shape: [-1]}]",
        "    pipeline:",
        "      outputs: {lines: text.lines}",
        "      steps:",
        f"        - {{name: encode, function: '{_STEPS}:encode', inputs: {{page: input.page}}}}",
        "        - {name: detect, model: ocr-detect, inputs: {x: encode.x}}",
        "        - name: crop",
        f"          function: {_STEPS}:crop",
        "          inputs: {page: input.page, ink: detect.sigmoid_0.tmp_0}",
        "        - {name: read, model: ocr-recognise, each: crop.line, inputs: {x: crop.line}}",
        "        - name: text",
        f"          function: {_STEPS}:Text",
        f"          options: {{graph: {graph}}}",
        "          inputs: {columns: read.character}",
    ]
