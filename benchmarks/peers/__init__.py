"""The servers that headway is compared with, one file each.

A peer says which packages its environment needs and how it starts an echo of 16 floats; it never
measures. Each is set up as its own users would for production: its default way in and out, one
worker process for the model where it has workers, access logs off, nothing sent to its makers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

__all__ = ["OIP_BODY", "OIP_PATH", "VALUES", "Launch", "Peer", "oip_values"]

VALUES = [i / 8 for i in range(16)]
"""Exact in float32, so that an echo compares equal."""

OIP_PATH = "/v2/models/echo/infer"
OIP_BODY = json.dumps(
    {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": VALUES}]}
).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a server that is installed, and how to talk to it."""

    command: Sequence[str]
    path: str
    """Where the echo is asked for."""
    body: bytes
    values: Callable[[bytes], object]
    """The floats in an answer's body; `VALUES`, when the echo is right."""
    ready: str
    """A path that answers 200 to GET once the model can be called."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    protocol: str = "its own JSON"
    grpc_port: int = 0
    """Where it speaks the Open Inference Protocol over gRPC; 0 where it does not."""


class Peer(Protocol):
    """What each module in this folder offers."""

    ENVIRONMENT: str
    """The folder of its virtual environment; two peers may share one."""
    PACKAGES: tuple[str, ...]
    VERSION: str

    @staticmethod
    def launch(home: Path, python: Path, port: int) -> Launch:
        """Write the model's files under `home` and return the way to start them on `port`."""
        ...


def oip_values(answer: bytes) -> object:
    """The first output of an Open Inference Protocol answer."""
    return json.loads(answer)["outputs"][0]["data"]
