"""Triton's `generate`: a model's inputs and outputs as the keys of one flat JSON object.

A key that names an input is its value, whatever else there is becomes a parameter, and the answer
is flat in the same way:

    {"text": "a word", "temperature": 0.2}  ->  {"model_name": "M", ..., "label": "noun"}

A value is as deep as the input has axes, or it is a list, or a single element; axes that it does
not show have size 1. `id` and the object `parameters` mean what they do in an infer request, where
no input has that name. An output of one element is that element, any other a flat list.

Every answer is a list of objects, of which a model that does not stream gives one: `generate` sends
it as the body, `generate_stream` as an event. An error before the first event is a status of its
own, as in Triton; the form of one that comes later is `event_of` an error's body.

Pure: bytes in, values out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import DecodeError, Raw
from msgspec.json import Decoder, Encoder

from headway.core import Datatype, Tensor
from headway.errors import InvalidRequestError
from headway.executors import TensorSpec
from headway.frontends.client_call import call_of
from headway.frontends.oip_request import ID_CHARS_MAX
from headway.frontends.oip_tensors import pack_elements, unpack_elements
from headway.runtime import InferCall, InferReply, ModelStatus

__all__ = ["EVENT_TYPE", "DecodedGenerate", "decode_generate", "encode_generate", "event_of"]

EVENT_TYPE: Final = (b"content-type", b"text/event-stream; charset=utf-8")

_flat_decoder: Final = Decoder(dict[str, Raw])
_any_decoder: Final = Decoder()
_encoder: Final = Encoder()


class DecodedGenerate(NamedTuple):
    """A request for the engine, and the id that its answer repeats."""

    call: InferCall
    request_id: str | None


def decode_generate(
    body: bytes,
    *,
    status: ModelStatus,
    version: str = "",
    arrived_at_ns: int,
    headers: Mapping[bytes, bytes],
) -> DecodedGenerate:
    """Map the keys of an object to the inputs of a model.

    Args:
        body: all of it, decompressed.
        status: of the model that is asked.
        version: empty for whichever is current when the call is bound.
        arrived_at_ns: when its first bytes were seen.
        headers: those of `HEADER_NAMES` that the request has.

    Raises:
        InvalidRequestError: what is wrong, and with which value.
    """
    try:
        values = _flat_decoder.decode(body)
        inputs = [
            _tensor_of(spec, values.pop(spec.name)) for spec in status.inputs if spec.name in values
        ]
        request_id = _id_of(values.pop("id", None))
        parameters = _parameters_of(values)
    except (DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"the body is no generate request: {error}",
            hint=f"it is an object with the keys {_names(status.inputs)}",
        ) from None
    call = call_of(status.name, version, inputs, (), arrived_at_ns, parameters, headers)
    return DecodedGenerate(call, request_id)


def encode_generate(reply: InferReply, request_id: str | None) -> bytes:
    """The object that a reply comes to.

    Raises:
        InvalidRequestError: an output has values that JSON does not know.
    """
    answer: dict[str, Any] = {} if request_id is None else {"id": request_id}
    answer |= {"model_name": reply.model, "model_version": reply.version}
    return _encoder.encode(answer | {tensor.name: _value_of(tensor) for tensor in reply.outputs})


def event_of(body: bytes) -> bytes:
    """A JSON body as a server-sent event; JSON of ours has no line breaks."""
    return b"data: %b\n\n" % body


def _tensor_of(spec: TensorSpec, value: Raw) -> Tensor:
    found = _any_decoder.decode(value)
    shape = _shape_of(spec, found)
    data = value if isinstance(found, list) else Raw(b"[%b]" % bytes(value))
    packed = pack_elements(spec.name, spec.datatype, shape, data)
    return Tensor(spec.name, spec.datatype, shape, packed)


def _shape_of(spec: TensorSpec, value: object) -> tuple[int, ...]:
    """The shape that a value has in the eyes of a model."""
    sizes = _sizes_of(value)
    axes = len(spec.shape)
    if len(sizes) == axes:
        return sizes
    if not sizes:
        return (1,) * axes
    if len(sizes) > 1:
        raise InvalidRequestError(
            f"the value of input `{spec.name}` is nested {len(sizes)} deep",
            hint=f"the input has {axes} axes; nest once for each, or send a flat list",
        )
    (count,) = sizes
    if axes == 2 and spec.shape[1] == 1:
        return (count, 1)  # texts of one column, a row each
    return (*(1,) * (axes - 1), count)


def _sizes_of(value: object) -> tuple[int, ...]:
    """How long the lists are that its first element is in; that the others agree is seen later."""
    sizes = []
    while isinstance(value, list):
        sizes.append(len(value))
        value = value[0] if value else None
    return tuple(sizes)


def _id_of(value: Raw | None) -> str | None:
    found = None if value is None else _any_decoder.decode(value)
    if found is None or (isinstance(found, str) and len(found) <= ID_CHARS_MAX):
        return found
    raise InvalidRequestError(f"`id` is not a text of at most {ID_CHARS_MAX} characters")


def _parameters_of(values: Mapping[str, Raw]) -> dict[str, Any]:
    """What names no input; a key of its own wins over one of the same name in `parameters`."""
    parameters = {name: _any_decoder.decode(value) for name, value in values.items()}
    if "parameters" in parameters:
        inner = parameters.pop("parameters") or {}
        if not isinstance(inner, dict):
            raise InvalidRequestError("`parameters` is no object")
        parameters = inner | parameters
    return parameters


def _value_of(tensor: Tensor) -> Any:
    values: Sequence[Any] = unpack_elements(tensor)
    return values[0] if len(values) == 1 else values


def _names(specs: Sequence[TensorSpec]) -> str:
    kinds = {Datatype.BYTES: "text"}
    return ", ".join(f"`{spec.name}` ({kinds.get(spec.datatype, spec.datatype)})" for spec in specs)
