"""The infer request that nearly all are, and its reply, without protobuf's objects.

Nearly every `ModelInferRequest` of a client is the one before with another id and other raw
tensors. So a message is taken apart here at its top level only: its id, its raw tensors, and the
rest, which protobuf parses the first time it is seen and which is remembered. Tensors are views of
the message, not copies. Whatever is unusual (typed contents, shared memory, classifications, an
error of any kind) is left to `oip_grpc_infer`, which says the same of all that is read here; a
property test holds the two to that.

A raw reply is written field by field around tensors that are handed on as they are.

Pure but for what it remembers, which is bounded.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct as Layout
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from headway.core import Buffer, Datatype, ModelName, Tensor, elements_of
from headway.errors import InvalidRequestError
from headway.frontends.client_call import call_of
from headway.frontends.oip_grpc_infer import (
    DecodedCall,
    datatype_of,
    encode_reply,
    shape_of,
    shortened,
    value_of,
)
from headway.frontends.oip_messages import INFERENCE
from headway.frontends.oip_request import ID_CHARS_MAX, refuse_twins
from headway.frontends.oip_tensors import check_packed
from headway.runtime import InferReply
from headway.units import NS_PER_MS, NS_PER_US

__all__ = ["RawReader", "encode_answer", "encode_raw"]

_REMEMBERED_MAX: Final = 1024
_REMEMBERED_BYTES_MAX: Final = 2048
_COPY_BYTES_MAX: Final = 1 << 10
"""Of a tensor that is copied out of its message, which is then not kept."""
_LOOK_BYTES_MAX: Final = 64 << 10
"""Of a tensor whose elements have sizes of their own; a longer one may be looked at in a thread."""
_NO_LENGTH: Final = 1 << 62
_TEXT_ID: Final = 0x1A
_TEXT_RAW: Final = 0x3A
_PLAIN_TAGS: Final = frozenset(field << 3 | 2 for field in range(1, 16))
"""Tags of one byte, of what has its length before it."""


class _Parts(NamedTuple):
    """A message at its top level."""

    rest: bytes
    request_id: str
    raw: list[tuple[int, int]]
    """Where each tensor is."""


class _Head(NamedTuple):
    """What the rest of a message says."""

    model: ModelName
    version: str
    parameters: Mapping[str, Any]
    inputs: tuple[tuple[str, Datatype, tuple[int, ...], int | None], ...]
    """Name, datatype, shape, and bytes where the datatype tells them."""
    outputs: tuple[str, ...]


class RawReader:
    """Reads raw requests.

    Invariants: what is remembered of a rest depends on its bytes alone.
    """

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}

    def read(
        self,
        message: bytes | bytearray,
        *,
        arrived_at_ns: int,
        metadata: Mapping[bytes, bytes],
        left_ns: int | None,
    ) -> DecodedCall | None:
        """Decode a `ModelInferRequest`, or None where it is unusual or wrong.

        Cost: some 5 us for a request like one before, however large its tensors.

        Raises:
            InvalidRequestError: a parameter or a header is not what it should be.
        """
        parts = _parts_of(message)
        if parts is None or len(parts.request_id) > ID_CHARS_MAX:
            return None
        head = self._heads.get(parts.rest)
        if head is None:
            head = _head_of(parts.rest)
            if head is None:
                return None
            if len(parts.rest) <= _REMEMBERED_BYTES_MAX:
                if len(self._heads) >= _REMEMBERED_MAX:
                    self._heads.clear()
                self._heads[parts.rest] = head
        tensors = _tensors_of(message, head, parts.raw)
        if tensors is None:
            return None
        call = call_of(
            head.model,
            head.version,
            tensors,
            head.outputs,
            arrived_at_ns,
            head.parameters,
            metadata,
        )
        return DecodedCall(shortened(call, left_ns), parts.request_id, False, {})


def _parts_of(message: bytes | bytearray) -> _Parts | None:
    """Take a message apart; None where a field is none of those that are usual."""
    at, end = 0, len(message)
    rest: list[bytes | bytearray] = []
    rest_start = 0
    request_id = b""
    raw: list[tuple[int, int]] = []
    while at < end:
        tag, field_start = message[at], at
        at += 1
        if tag not in _PLAIN_TAGS or at >= end:
            return None
        length = message[at]
        at += 1
        if length >= 0x80:
            length, at = _long_length(message, at - 1)
        stop = at + length
        if stop > end:
            return None
        if tag in {_TEXT_ID, _TEXT_RAW}:
            if rest_start < field_start:
                rest.append(message[rest_start:field_start])
            rest_start = stop
            if tag == _TEXT_RAW:
                raw.append((at, stop))
            else:
                request_id = bytes(message[at:stop])
        at = stop
    if rest_start < end:
        rest.append(message[rest_start:end])
    try:
        return _Parts(b"".join(rest), request_id.decode(), raw)
    except UnicodeDecodeError:
        return None


def _long_length(message: bytes | bytearray, at: int) -> tuple[int, int]:
    """A length of several bytes, and what follows it; one beyond every message for what is none."""
    length = 0
    for shift, byte in zip(range(0, 35, 7), message[at : at + 5], strict=False):
        length |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return length, at
    return _NO_LENGTH, at


def _head_of(rest: bytes) -> _Head | None:
    """What the rest says; None where that is unusual or wrong."""
    try:
        message = INFERENCE["ModelInferRequest"].FromString(rest)
    except DecodeError:
        return None
    if any(each.HasField("contents") or len(each.parameters) for each in message.inputs):
        return None
    if any(len(each.parameters) for each in message.outputs):
        return None
    inputs = []
    try:
        for each in message.inputs:
            datatype, shape = datatype_of(each), shape_of(each)
            item_bytes = datatype.item_bytes
            size_bytes = None if item_bytes is None else elements_of(shape) * item_bytes
            inputs.append((each.name, datatype, shape, size_bytes))
        outputs = tuple([each.name for each in message.outputs])
        refuse_twins("output", outputs)
        refuse_twins("input", [each[0] for each in inputs])
    except InvalidRequestError:
        return None
    parameters = {name: value_of(each) for name, each in message.parameters.items()}
    return _Head(
        ModelName(message.model_name), message.model_version, parameters, tuple(inputs), outputs
    )


def _tensors_of(
    message: bytes | bytearray, head: _Head, raw: list[tuple[int, int]]
) -> list[Tensor] | None:
    if len(raw) != len(head.inputs):
        return None
    tensors = []
    for (name, datatype, shape, size_bytes), (start, stop) in zip(head.inputs, raw, strict=True):
        data: Buffer
        if stop - start <= _COPY_BYTES_MAX or 2 * (stop - start) < len(message):
            data = bytes(message[start:stop])
        else:
            data = memoryview(message)[start:stop]
        if size_bytes != stop - start:
            if size_bytes is not None or stop - start > _LOOK_BYTES_MAX:
                return None
            try:
                check_packed(name, datatype, shape, data)
            except InvalidRequestError:
                return None
        tensors.append(Tensor(name, datatype, shape, data))
    return tensors


# --- replies --------------------------------------------------------------------------------------

_DOUBLE: Final = Layout("<d")
_RAW_TAG: Final = b"\x32"
_FINAL: Final = "triton_final_response"


def encode_answer(
    reply: InferReply, decoded: DecodedCall, *, is_final: bool = False
) -> list[Buffer]:
    """A reply as its client wants it, in parts that follow one another.

    Args:
        reply: what became of the call.
        decoded: the call.
        is_final: it is one of a stream, and the last of its request.

    Raises:
        InvalidRequestError: an output does not fit the memory that was named for it.
    """
    if decoded.is_typed or decoded.places:
        message = encode_reply(reply, decoded)
        if is_final:
            message.parameters[_FINAL].bool_param = True
        parts: list[Buffer] = [message.SerializeToString()]
    else:
        parts = encode_raw(reply, decoded.request_id)
        if is_final:
            parts.append(_parameter(_FINAL, b"\x08\x01"))
    if is_final:
        size = sum([len(part) for part in parts])
        parts.insert(0, b"\x12" + _varint(size))  # `infer_response` of a stream's response
    return parts


def encode_raw(reply: InferReply, request_id: str) -> list[Buffer]:
    """A `ModelInferResponse` with raw tensors, in parts that follow one another.

    Cost: some 5 us; no tensor is copied.
    """
    pieces = [_model_fields(reply.model, reply.version)]
    if request_id:
        text = request_id.encode()
        pieces += (b"\x1a", _varint(len(text)), text)
    pieces += (
        _whole_number("queue_us", reply.queue_delay_ns // NS_PER_US),
        _whole_number("service_us", reply.service_ns // NS_PER_US),
        _whole_number("batch_rows", reply.batch_rows),
        _number("budget_ms", reply.budget_ns / NS_PER_MS),
        _text("limit", reply.budget_source),
        _text("tier", reply.tier),
    )
    if reply.request_id:
        pieces.append(_whole_number("request_id", reply.request_id))
    if reply.segments > 1:
        pieces.append(_whole_number("segments", reply.segments))
    if reply.late_ns:
        pieces.append(_number("late_ms", reply.late_ns / NS_PER_MS))
    if reply.foreseen.bound_ns:
        pieces.append(_number("expected_ms", reply.foreseen.mean_ns / NS_PER_MS))
        pieces.append(_number("bound_ms", reply.foreseen.bound_ns / NS_PER_MS))
    pieces += [_output_field(each.name, each.datatype, each.shape) for each in reply.outputs]
    parts: list[Buffer] = []
    for output in reply.outputs:
        data = output.data
        pieces += (_RAW_TAG, _varint(len(data)))
        if len(data) <= _COPY_BYTES_MAX:
            pieces.append(bytes(data))
        else:
            parts += (b"".join(pieces), data)
            pieces = []
    if pieces:
        parts.append(b"".join(pieces))
    return parts


@lru_cache(maxsize=_REMEMBERED_MAX)
def _model_fields(model: str, version: str) -> bytes:
    kind = INFERENCE["ModelInferResponse"]
    return bytes(kind(model_name=model, model_version=version).SerializeToString())


@lru_cache(maxsize=_REMEMBERED_MAX)
def _output_field(name: str, datatype: Datatype, shape: tuple[int, ...]) -> bytes:
    response = INFERENCE["ModelInferResponse"]()
    response.outputs.add(name=name, datatype=datatype).shape.extend(shape)
    return bytes(response.SerializeToString())


@lru_cache(maxsize=_REMEMBERED_MAX)
def _text(name: str, value: str) -> bytes:
    response = INFERENCE["ModelInferResponse"]()
    response.parameters[name].string_param = value
    return bytes(response.SerializeToString())


def _whole_number(name: str, value: int) -> bytes:
    """A parameter that is an integer."""
    return _parameter(name, b"\x10" + _varint(value & (2**64 - 1)))


def _number(name: str, value: float) -> bytes:
    """A parameter that is a fraction."""
    return _parameter(name, b"\x21" + _DOUBLE.pack(value))


def _parameter(name: str, choice: bytes) -> bytes:
    """An entry of the map: its key, and the message that holds its value."""
    key = _key(name)
    size = len(choice)
    return b"%b%b\x12%c%b" % (b"\x22%c" % (len(key) + 2 + size), key, size, choice)


@lru_cache(maxsize=64)
def _key(name: str) -> bytes:
    text = name.encode()
    assert len(text) < 64, "entries must be shorter than 128 bytes"
    return b"\x0a%c%b" % (len(text), text)


def _varint(number: int) -> bytes:
    if number < 0x80:
        return b"%c" % number
    pieces = bytearray()
    while number >= 0x80:
        pieces.append(0x80 | number & 0x7F)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)
