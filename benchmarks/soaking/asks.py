"""Requests whose answers can be told apart: each is a function of a number, and so is its answer.

Knows the protocol's JSON, binary and gRPC forms. Opens no connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headway.frontends.oip_messages import INFERENCE

__all__ = ["FICKLE", "HIGH", "LOW", "Ask", "draw", "grpc_message", "http_request", "is_right"]

HIGH, LOW, FICKLE = "high", "low", "fickle"
"""Tiers. The fickle ask and leave: of theirs nobody can say how they ended."""
GRPC_RATIO: Final = 0.2
LENGTH: Final = "inference-header-content-length"
Array = npt.NDArray[np.float32]

_ANSWERS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "tripled": lambda x: 3 * x + 1,
    "turned": lambda x: x[:, ::-1],
    "identity": lambda x: x,
}


class Ask(NamedTuple):
    """One request."""

    number: int
    model: str
    tier: str
    rows: int
    columns: int
    form: str
    """json, binary or grpc."""

    def array(self) -> Array:
        """What is sent: small whole numbers, no two requests' alike."""
        count = self.rows * self.columns
        values = (np.arange(count, dtype=np.int64) + 131 * self.number) % (1 << 20)
        return values.astype(np.float32).reshape(self.rows, self.columns)


def draw(chance: Random, number: int, *, tier: str | None = None) -> Ask:
    """A request of the mix: half are urgent and soon done, half are neither."""
    form = "grpc" if chance.random() < GRPC_RATIO else chance.choice(("json", "binary"))
    kind = chance.random()
    if kind < 0.35:
        ask = Ask(number, "tripled", HIGH, chance.choice((1, 1, 1, 2)), 16, form)
    elif kind < 0.5:
        columns = chance.choice((4, 64, 2048))
        form = "binary" if columns == 2048 and form == "json" else form
        ask = Ask(number, "identity", HIGH, 1, columns, form)
    else:
        ask = Ask(number, "turned", LOW, chance.choice((1, 2, 3)), chance.choice((8, 64)), form)
    return ask if tier is None else ask._replace(tier=tier)


def http_request(ask: Ask) -> bytes:
    """All of it, head and body."""
    array = ask.array()
    tensor: dict[str, Any] = {"name": "x", "shape": array.shape, "datatype": "FP32"}
    value: dict[str, Any] = {"inputs": [tensor], "id": str(ask.number)}
    lines = [f"POST /v2/models/{ask.model}/infer HTTP/1.1", "host: x", f"headway-tier: {ask.tier}"]
    binary = b""
    if ask.form == "binary":
        binary = array.tobytes()
        tensor["parameters"] = {"binary_data_size": len(binary)}
        value["parameters"] = {"binary_data_output": True}
    else:
        tensor["data"] = array.ravel().tolist()
    text = json.dumps(value).encode()
    if binary:
        lines.append(f"{LENGTH}: {len(text)}")
    lines += [f"content-length: {len(text) + len(binary)}", "", ""]
    return "\r\n".join(lines).encode() + text + binary


def grpc_message(ask: Ask) -> bytes:
    """As gRPC sends it."""
    array = ask.array()
    request = INFERENCE["ModelInferRequest"](model_name=ask.model, id=str(ask.number))
    request.inputs.add(name="x", datatype="FP32", shape=array.shape)
    request.raw_input_contents.append(array.tobytes())
    return bytes(request.SerializeToString())


def is_right(ask: Ask, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether an answer of HTTP is this request's own."""
    size = headers.get(LENGTH)
    value = json.loads(body if size is None else body[: int(size)])
    (output,) = value["outputs"]
    if size is None:
        data = np.array(output["data"], dtype=np.float32)
    else:
        data = np.frombuffer(body[int(size) :], dtype=np.float32)
    return value["id"] == str(ask.number) and _equals(ask, output["shape"], data)


def is_right_message(ask: Ask, body: bytes) -> bool:
    """Whether an answer of gRPC is this request's own."""
    response = INFERENCE["ModelInferResponse"].FromString(body)
    data = np.frombuffer(response.raw_output_contents[0], dtype=np.float32)
    return response.id == str(ask.number) and _equals(ask, response.outputs[0].shape, data)


def _equals(ask: Ask, shape: Any, data: Array) -> bool:
    wanted = _ANSWERS[ask.model](ask.array())
    return tuple(shape) == wanted.shape and np.array_equal(wanted.ravel(), data)
