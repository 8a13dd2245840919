"""An Open Inference Protocol infer request: from its bytes to an `InferCall`.

A body is one of three things, and the header `Inference-Header-Content-Length` says which: JSON
alone (no such header), that much JSON and then the binary inputs in their order, or, when it is 0,
the one input of the model and nothing else.

What a client may say besides its tensors is in `client_call`. Keys that the protocol does not have
are ignored.

An estimate is asked for with the same body, in which an input may leave its data out.

Pure: bytes in, values out. Any input at all gives a call or an `InvalidRequestError`, or, where an
estimate is asked of more than may be sent, an `HttpError`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import DecodeError, Meta, Raw, Struct
from msgspec.json import Decoder

from headway.core import Datatype, ModelName, Tensor, elements_of
from headway.errors import InvalidRequestError
from headway.frontends.client_call import HEADER_LENGTH, call_of, shown
from headway.frontends.oip_tensors import AXES_MAX, check_packed, pack_elements
from headway.frontends.rest_errors import HttpError
from headway.frontends.shared_memory import Place, Reading, Regions, place_of
from headway.runtime import InferCall

__all__ = [
    "ID_CHARS_MAX",
    "THREAD_BYTES_MIN",
    "DecodedInfer",
    "ReplyForm",
    "decode_estimate",
    "decode_infer",
    "refuse_classification",
    "refuse_twins",
]


THREAD_BYTES_MIN: Final = 1 << 20
"""From here on bodies are decoded in a thread, so that other requests get their turn meanwhile."""
ID_CHARS_MAX: Final = 4096
"""Of a client's own id, which is kept for as long as its request waits."""

_BYTES_HEAD_BYTES: Final = 4
"""Of an element of BYTES: its length, which alone is sent of an empty one."""

_NO_REGIONS: Final = Regions(is_allowed=False)


class ReplyForm(Struct, frozen=True, gc=False):
    """How the client wants its answer."""

    request_id: str | None = None
    """Echoed."""
    is_binary: bool = False
    """For outputs that `binary_by_name` does not name."""
    binary_by_name: Mapping[str, bool] = {}
    places: Mapping[str, Place] = {}
    """Outputs that are wanted in shared memory."""


class DecodedInfer(Struct, frozen=True):
    """A request for the engine, and how to answer it."""

    call: InferCall
    form: ReplyForm


class _Input(Struct, gc=False):
    name: str
    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**31 - 1)]], Meta(max_length=AXES_MAX)]
    datatype: Datatype
    data: Raw = Raw(b"null")
    parameters: dict[str, Any] | None = None


class _Output(Struct, gc=False):
    name: str
    parameters: dict[str, Any] | None = None


class _Infer(Struct, gc=False):
    inputs: list[_Input]
    outputs: list[_Output] | None = None
    id: Annotated[str, Meta(max_length=ID_CHARS_MAX)] | None = None
    parameters: dict[str, Any] | None = None


_decoder: Final = Decoder(_Infer)


def decode_infer(
    body: bytes | bytearray,
    *,
    model: ModelName,
    version: str = "",
    arrived_at_ns: int,
    headers: Mapping[bytes, bytes],
    regions: Regions | None = None,
) -> DecodedInfer:
    """Decode a JSON body with or without binary inputs behind it.

    Binary inputs that are most of the body are views of it, which they keep alive.

    Args:
        body: all of it, decompressed.
        model: from the path, as is the version.
        version: empty for whichever is current.
        arrived_at_ns: when its first bytes were seen.
        headers: those of `HEADER_NAMES` that the request has.
        regions: shared memory that clients have registered.

    Cost: 5 us for one JSON input of 16 floats.

    Raises:
        InvalidRequestError: what is wrong, and with which value.
    """
    regions = regions or _NO_REGIONS
    request, inputs = _opened(body, headers, regions, None)
    names, binary_by_name, places = _outputs_of(request.outputs, regions)
    parameters = request.parameters or {}
    is_binary = _flag(parameters, "binary_data_output", is_default=False)
    form = ReplyForm(request.id, is_binary, binary_by_name, places)
    return DecodedInfer(
        call_of(model, version, inputs, names, arrived_at_ns, parameters, headers), form
    )


def decode_estimate(
    body: bytes | bytearray,
    *,
    model: ModelName,
    version: str = "",
    arrived_at_ns: int,
    headers: Mapping[bytes, bytes],
    bytes_max: int,
) -> InferCall:
    """Decode a body as `decode_infer` does; inputs without data are zeros of their shape.

    Args:
        body: all of it, decompressed; the other arguments are those of `decode_infer`.
        bytes_max: of the body and of the data that it leaves out, together.

    Raises:
        InvalidRequestError: what is wrong, and with which value.
        HttpError: 413, the request itself would be too large to be sent.
    """
    request, inputs = _opened(body, headers, _NO_REGIONS, _Zeros(bytes_max - len(body)))
    names, _, _ = _outputs_of(request.outputs, _NO_REGIONS)
    parameters = request.parameters or {}
    _flag(parameters, "binary_data_output", is_default=False)
    return call_of(model, version, inputs, names, arrived_at_ns, parameters, headers)


class _Zeros:
    """What stands for data that was left out: all zeros, of every datatype a valid value."""

    __slots__ = ("_room_bytes",)

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes

    def of(self, datatype: Datatype, shape: tuple[int, ...]) -> bytes:
        """The bytes of a tensor; the system gives no memory to zeros that nobody reads."""
        size_bytes = elements_of(shape) * (datatype.item_bytes or _BYTES_HEAD_BYTES)
        if size_bytes > self._room_bytes:
            raise HttpError(
                413,
                "body_too_large",
                f"the request would have more than the bytes allowed: an input of shape"
                f" {shown(list(shape))} alone takes {shown(size_bytes)} (hint: ask of less, or"
                " raise the server's limit)",
            )
        self._room_bytes -= size_bytes
        return bytes(size_bytes)


def _opened(
    body: bytes | bytearray, headers: Mapping[bytes, bytes], regions: Regions, zeros: _Zeros | None
) -> tuple[_Infer, list[Tensor]]:
    """The JSON of a body, and the inputs that it describes."""
    json_bytes = _json_bytes(headers.get(HEADER_LENGTH), len(body))
    request = _decode_json(body if json_bytes == len(body) else body[:json_bytes])
    if 2 * json_bytes < len(body):
        binary = memoryview(body)[json_bytes:]
    else:
        binary = memoryview(body[json_bytes:])  # a view would keep far more than its own bytes
    return request, _tensors_of(request.inputs, binary, regions, zeros)


def _json_bytes(header: bytes | None, body_bytes: int) -> int:
    if header is None:
        return body_bytes
    if not header.isdigit() or len(header) > 18 or int(header) > body_bytes:
        raise InvalidRequestError(
            f"`Inference-Header-Content-Length: {shown(header)}` is no length within the body of"
            f" {body_bytes} bytes",
            hint="it is the number of bytes of the JSON in front of the binary inputs",
        )
    return int(header)


def _decode_json(text: bytes | bytearray) -> _Infer:
    try:
        if not text.isascii():
            text.decode()  # what nobody reads is not looked at below, yet bad text is bad text
        return _decoder.decode(text)
    except (DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"the body is no inference request: {error}",
            hint="it is an object with `inputs`, each of name, shape, datatype and data",
        ) from None


def _tensors_of(
    inputs: Sequence[_Input], binary: memoryview, regions: Regions, zeros: _Zeros | None
) -> list[Tensor]:
    reading = Reading(regions)
    tensors = []
    start = 0
    for one in inputs:
        name, datatype, shape = one.name, one.datatype, tuple(one.shape)
        data: bytes | memoryview
        if one.parameters is not None and "shared_memory_region" in one.parameters:
            data = reading.read(place_of(regions, f"input `{name}`", one.parameters))
            check_packed(name, datatype, shape, data)
            tensors.append(Tensor(name, datatype, shape, data))
            continue
        size_bytes = None if one.parameters is None else _binary_size(one)
        if size_bytes is None:
            if not _is_absent(one.data):
                data = pack_elements(name, datatype, shape, one.data)
            elif zeros is not None:
                data = zeros.of(datatype, shape)
            else:
                raise InvalidRequestError(f"input `{name}` has neither `data` nor binary data")
        else:
            if size_bytes > len(binary) - start:
                raise InvalidRequestError(
                    f"`binary_data_size` of input `{name}` is `{shown(size_bytes)}`, but"
                    f" {len(binary) - start} bytes of binary data are left"
                )
            data = binary[start : start + size_bytes]
            start += size_bytes
            check_packed(name, datatype, shape, data)
        tensors.append(Tensor(name, datatype, shape, data))
    if start != len(binary):
        raise InvalidRequestError(
            f"the binary data has {len(binary)} bytes, its inputs take {start}",
            hint="`binary_data_size` of all inputs must add up to what follows the JSON",
        )
    if len(tensors) > 1:
        refuse_twins("input", [tensor.name for tensor in tensors])
    return tensors


def _binary_size(one: _Input) -> int | None:
    """The parameter `binary_data_size`, or None for an input with JSON data."""
    parameters = one.parameters or {}
    size_bytes = parameters.get("binary_data_size")
    if size_bytes is None:
        return None
    if type(size_bytes) is not int or size_bytes < 0:
        raise InvalidRequestError(
            f"`binary_data_size` of input `{one.name}` is `{shown(size_bytes)}`, not a number of"
            " bytes"
        )
    if not _is_absent(one.data):
        raise InvalidRequestError(f"input `{one.name}` has both `data` and `binary_data_size`")
    return size_bytes


def _is_absent(data: Raw) -> bool:
    return len(memoryview(data)) == 4 and bytes(data) == b"null"


def _outputs_of(
    outputs: Sequence[_Output] | None, regions: Regions
) -> tuple[tuple[str, ...], dict[str, bool], dict[str, Place]]:
    """The names wanted, for which of them the form was said, and which go to shared memory."""
    if not outputs:
        return (), {}, {}
    binary_by_name, places = {}, {}
    for one in outputs:
        parameters = one.parameters
        if not parameters:
            continue
        refuse_classification(one.name, parameters.get("classification"))
        if "shared_memory_region" in parameters:
            places[one.name] = place_of(regions, f"output `{one.name}`", parameters)
        if parameters.get("binary_data") is not None:
            binary_by_name[one.name] = _flag(parameters, "binary_data", is_default=False)
    names = tuple(one.name for one in outputs)
    refuse_twins("output", names)
    return names, binary_by_name, places


def refuse_classification(output: str, wanted: object) -> None:
    """See that an output is wanted as it is.

    Raises:
        InvalidRequestError: as its best classes.
    """
    if wanted:
        raise InvalidRequestError(
            f"output `{output}` is wanted as a classification",
            hint="ask for the scores and rank them in the client",
        )


def refuse_twins(kind: str, names: Sequence[str]) -> None:
    """See that each name is there once.

    Raises:
        InvalidRequestError: one is there more often.
    """
    seen: set[str] = set()
    for name in names:  # once: a body has room for a hundred thousand names
        if name in seen:
            raise InvalidRequestError(f"{kind} `{name}` is there more than once")
        seen.add(name)


def _flag(parameters: Mapping[str, Any], name: str, *, is_default: bool) -> bool:
    value = parameters.get(name)
    if value is None:
        return is_default
    if not isinstance(value, bool):
        raise InvalidRequestError(f"parameter `{name}` is `{shown(value)}`, not true or false")
    return value
