"""An Open Inference Protocol request as bytes, and what a reply says of its time.

Pure. Knows the protocol's JSON and binary tensors, and headway's parameters beside them; a server
that does not send those is understood too, it only tells less. Never opens a connection.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headway.core import Datatype, Tensor, TierName
from headway.executors import tensor_of
from headway.units import NS_PER_MS, NS_PER_US
from headway.workload import Arrival, Outcome

__all__ = [
    "HEADER_LENGTH",
    "Answer",
    "Body",
    "encode_body",
    "parse_answer",
    "request_headers",
    "tensors_of",
]

HEADER_LENGTH: Final = "Inference-Header-Content-Length"


class Body(NamedTuple):
    """A request's bytes, ready to be sent any number of times."""

    data: bytes
    json_bytes: int
    """How much of it is JSON; binary tensors follow."""


class Answer(NamedTuple):
    """What came back for a request."""

    outcome: Outcome
    status: int | None = None
    """None where no reply came."""
    tier: TierName | None = None
    budget_ns: int | None = None
    queue_delay_ns: int | None = None
    service_ns: int | None = None
    batch_rows: int | None = None
    expected_ns: int | None = None
    bound_ns: int | None = None


class _BinaryParameters(Struct):
    binary_data_size: int


class _Input(Struct):
    name: str
    shape: tuple[int, ...]
    datatype: Datatype
    parameters: _BinaryParameters


class _Infer(Struct):
    inputs: list[_Input]
    parameters: dict[str, bool]


class _ReplyParameters(Struct, frozen=True, gc=False):
    queue_us: float | None = None
    service_us: float | None = None
    batch_rows: int | None = None
    budget_ms: float | None = None
    tier: str | None = None


class _Reply(Struct, gc=False):
    parameters: _ReplyParameters = _ReplyParameters()


class _Error(Struct, gc=False):
    code: str | None = None


_UNREADABLE: Final = (msgspec.DecodeError, RecursionError)
"""How JSON fails that is none, or is nested beyond reason."""
_NO_HEADERS: Final[Mapping[str, str]] = {}
_reply_decoder: Final = msgspec.json.Decoder(_Reply)
_error_decoder: Final = msgspec.json.Decoder(_Error)

_OUTCOMES_BY_CODE: Final[dict[str | None, Outcome]] = {
    "rejected": Outcome.REJECTED,
    "unavailable": Outcome.REJECTED,
    "deadline_exceeded": Outcome.EXPIRED,
    "cancelled": Outcome.CANCELLED,
    "worker_lost": Outcome.FAILED,
}
_OUTCOMES_BY_STATUS: Final[dict[int, Outcome]] = {
    429: Outcome.REJECTED,
    503: Outcome.REJECTED,
    504: Outcome.EXPIRED,
    499: Outcome.CANCELLED,
}


def encode_body(inputs: Sequence[Tensor]) -> Body:
    """Encode inputs as binary tensors; the reply is asked for in binary too."""
    head = msgspec.json.encode(
        _Infer(
            inputs=[
                _Input(
                    tensor.name,
                    tensor.shape,
                    tensor.datatype,
                    _BinaryParameters(tensor.size_bytes),
                )
                for tensor in inputs
            ],
            parameters={"binary_data_output": True},
        )
    )
    return Body(b"".join([head, *(tensor.data for tensor in inputs)]), len(head))


def request_headers(arrival: Arrival) -> dict[str, str]:
    """What headway reads beside the body; the same for each request of a stream."""
    headers: dict[str, str] = {"headway-tier": arrival.tier, "headway-tenant": arrival.tenant}
    if arrival.budget_ns is not None:
        headers["headway-budget-ms"] = f"{arrival.budget_ns / NS_PER_MS:.15g}"
    if arrival.priority is not None:
        headers["headway-priority"] = str(arrival.priority)
    return headers


def parse_answer(status: int, json: bytes, headers: Mapping[str, str] = _NO_HEADERS) -> Answer:
    """Read a reply's status, the JSON part of its body and what its headers predict.

    An error is sorted by the code in its body, and without one by its status.

    Args:
        status: of HTTP.
        json: all of the body that is no binary tensor.
        headers: of the reply; case matters as it does in this mapping.
    """
    expected_ns = _predicted(headers.get("headway-expected-ms"))
    bound_ns = _predicted(headers.get("headway-bound-ms"))
    if not 200 <= status < 300:
        return Answer(
            _outcome_of_error(status, json), status, expected_ns=expected_ns, bound_ns=bound_ns
        )
    try:
        told = _reply_decoder.decode(json).parameters
    except _UNREADABLE:
        return Answer(Outcome.FAILED, status)
    return Answer(
        outcome=Outcome.COMPLETED,
        status=status,
        tier=None if told.tier is None else TierName(told.tier),
        budget_ns=_scaled(told.budget_ms, NS_PER_MS),
        queue_delay_ns=_scaled(told.queue_us, NS_PER_US),
        service_ns=_scaled(told.service_us, NS_PER_US),
        batch_rows=told.batch_rows,
        expected_ns=expected_ns,
        bound_ns=bound_ns,
    )


def tensors_of(arrays: Mapping[str, npt.NDArray[np.generic]]) -> list[Tensor]:
    """Pack named arrays; text and objects travel as BYTES.

    Raises:
        ValueError: an array of a type that the protocol does not have.
    """
    return [tensor_of(name, array) for name, array in arrays.items()]


def _outcome_of_error(status: int, json: bytes) -> Outcome:
    by_status = _OUTCOMES_BY_STATUS.get(status, Outcome.FAILED)
    try:
        return _OUTCOMES_BY_CODE.get(_error_decoder.decode(json).code, by_status)
    except _UNREADABLE:
        return by_status


def _predicted(header: str | None) -> int | None:
    """A length of time in milliseconds; what is none was not said."""
    try:
        predicted_ms = float(header or "")
    except ValueError:
        return None
    return round(predicted_ms * NS_PER_MS) if isfinite(predicted_ms) else None


def _scaled(number: float | None, unit_ns: int) -> int | None:
    return None if number is None else round(number * unit_ns)
