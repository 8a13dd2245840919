"""Asks a running server, one request at a time, and reads the tensors that come back.

Knows the Open Inference Protocol's binary form as a client. Never a model.
"""

import http.client
import json
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from headway.core import Datatype, Tensor
from headway.demo.arrays import Arrays
from headway.errors import HeadwayError
from headway.executors import array_of
from headway.loadgen import encode_body, tensors_of

__all__ = ["RemoteModels", "Reply"]

_HEADER_LENGTH: Final = "Inference-Header-Content-Length"
_TIMEOUT_S: Final = 30.0


class Reply(NamedTuple):
    """What the server answered."""

    outputs: Arrays
    parameters: dict[str, Any]
    """Where the time went, among others."""


class RemoteModels:
    """One connection to a server; a context manager that closes it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, "a server has an address"
        self._connection = http.client.HTTPConnection(
            parts.hostname, parts.port, timeout=_TIMEOUT_S
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def infer(self, model: str, inputs: Arrays) -> Arrays:
        """The outputs by name; see `demo.Infer`."""
        return self.ask(model, inputs).outputs

    def ask(self, model: str, inputs: Arrays) -> Reply:
        """The whole reply.

        Raises:
            HeadwayError: the server cannot be reached, or refused.
        """
        body = encode_body(tensors_of(inputs))
        headers = {
            _HEADER_LENGTH: str(body.json_bytes),
            "Content-Type": "application/octet-stream",
        }
        try:
            self._connection.request("POST", f"/v2/models/{model}/infer", body.data, headers)
            answer = self._connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise HeadwayError(f"the server did not answer for `{model}`: {error}") from error
        if answer.status != 200:
            text = data.decode(errors="replace")
            raise HeadwayError(f"the server refused `{model}` ({answer.status}): {text}")
        return _read_reply(data, int(answer.headers.get(_HEADER_LENGTH, len(data))))


def _read_reply(data: bytes, json_bytes: int) -> Reply:
    head = json.loads(data[:json_bytes])
    outputs: Arrays = {}
    at = json_bytes
    for output in head["outputs"]:
        size_bytes = output["parameters"]["binary_data_size"]
        name, datatype = output["name"], Datatype(output["datatype"])
        shape = tuple(output["shape"])
        outputs[name] = array_of(Tensor(name, datatype, shape, data[at : at + size_bytes]))
        at += size_bytes
    return Reply(outputs, head.get("parameters", {}))
