"""An infer request of the gRPC protocol: from its message to an `InferCall`, and back to a message.

Tensors come as `raw_input_contents`, all of them in the order of the inputs, or typed in each
input's `contents`, which has no place for FP16 and BF16. A reply is raw; where the request was
typed its outputs are, too, but for those two datatypes, which make all of it raw.

Parameters and metadata mean what they do in REST (`oip_request`).

Pure: messages in, values out. Any message at all gives a call or an `InvalidRequestError`.
"""

from collections.abc import Mapping, Sequence
from struct import unpack
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from headway.core import Datatype, ModelName, Tensor, bytes_element_ends, elements_of
from headway.errors import InvalidRequestError
from headway.frontends.client_call import call_of
from headway.frontends.oip_messages import INFERENCE
from headway.frontends.oip_request import (
    ID_CHARS_MAX,
    refuse_classification,
    refuse_twins,
)
from headway.frontends.oip_tensors import AXES_MAX, check_packed, pack_values
from headway.frontends.shared_memory import Place, Reading, Regions, place_of
from headway.runtime import InferCall, InferReply
from headway.units import NS_PER_MS, NS_PER_US

__all__ = [
    "DecodedCall",
    "datatype_of",
    "decode_call",
    "encode_reply",
    "shape_of",
    "shortened",
    "value_of",
]

AXIS_MAX: Final = 2**31 - 1

_CONTENTS: Final[Mapping[Datatype, tuple[str, str]]] = {
    Datatype.BOOL: ("bool_contents", "?"),
    Datatype.INT8: ("int_contents", "b"),
    Datatype.INT16: ("int_contents", "h"),
    Datatype.INT32: ("int_contents", "i"),
    Datatype.INT64: ("int64_contents", "q"),
    Datatype.UINT8: ("uint_contents", "B"),
    Datatype.UINT16: ("uint_contents", "H"),
    Datatype.UINT32: ("uint_contents", "I"),
    Datatype.UINT64: ("uint64_contents", "Q"),
    Datatype.FP32: ("fp32_contents", "f"),
    Datatype.FP64: ("fp64_contents", "d"),
    Datatype.BYTES: ("bytes_contents", ""),
}
"""Where a typed tensor of each datatype is, and what `struct` calls its elements."""


class DecodedCall(Struct, frozen=True):
    """A request for the engine, and how to answer it."""

    call: InferCall
    request_id: str
    """Echoed."""
    is_typed: bool
    """The reply's tensors are typed."""
    places: Mapping[str, Place]
    """Outputs that are wanted in shared memory."""


def decode_call(
    message: Any,
    *,
    arrived_at_ns: int,
    metadata: Mapping[bytes, bytes],
    left_ns: int | None,
    regions: Regions,
) -> DecodedCall:
    """Decode a `ModelInferRequest`.

    Args:
        message: the request.
        arrived_at_ns: when it was seen.
        metadata: of the call, as headers.
        left_ns: until the call's own deadline; None where it has none.
        regions: shared memory that clients have registered.

    Raises:
        InvalidRequestError: what is wrong, and with which value.
    """
    if len(message.id) > ID_CHARS_MAX:
        raise InvalidRequestError(f"the request's id has more than {ID_CHARS_MAX} characters")
    inputs = _tensors_of(message, regions)
    names, places = _outputs_of(message.outputs, regions)
    parameters = {name: value_of(each) for name, each in message.parameters.items()}
    call = call_of(
        ModelName(message.model_name),
        message.model_version,
        inputs,
        names,
        arrived_at_ns,
        parameters,
        metadata,
    )
    call = shortened(call, left_ns)
    is_typed = not message.raw_input_contents and any(
        each.HasField("contents") for each in message.inputs
    )
    return DecodedCall(call, message.id, is_typed, places)


def shortened(call: InferCall, left_ns: int | None) -> InferCall:
    """A call with no more time than until its own deadline, if it has one."""
    if left_ns is None or (call.budget_ns is not None and call.budget_ns <= left_ns):
        return call
    return replace(call, budget_ns=left_ns, budget_source="grpc-timeout")


def value_of(parameter: Any) -> Any:
    """What a parameter says; None where it says nothing."""
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)


def encode_reply(reply: InferReply, decoded: DecodedCall) -> Any:
    """A `ModelInferResponse`, its shared memory written.

    Raises:
        InvalidRequestError: an output does not fit the memory that was named for it.
    """
    response = INFERENCE["ModelInferResponse"](
        model_name=reply.model, model_version=reply.version, id=decoded.request_id
    )
    _say(response.parameters, reply)
    is_typed = decoded.is_typed and all(output.datatype in _CONTENTS for output in reply.outputs)
    raw = response.raw_output_contents
    for output in reply.outputs:
        message = response.outputs.add(name=output.name, datatype=output.datatype)
        message.shape.extend(output.shape)
        place = decoded.places.get(output.name)
        if place is not None:
            place.write(output)
            message.parameters["shared_memory_region"].string_param = place.region.name
            message.parameters["shared_memory_byte_size"].int64_param = len(output.data)
            message.parameters["shared_memory_offset"].int64_param = place.offset
            if not is_typed:
                raw.append(b"")  # clients take the raw contents by position
        elif is_typed:
            _fill(message.contents, output)
        else:
            raw.append(bytes(output.data))
    return response


def _say(parameters: Any, reply: InferReply) -> None:
    """Where the time went, and under which limit; as in REST."""
    parameters["queue_us"].int64_param = reply.queue_delay_ns // NS_PER_US
    parameters["service_us"].int64_param = reply.service_ns // NS_PER_US
    parameters["batch_rows"].int64_param = reply.batch_rows
    parameters["budget_ms"].double_param = reply.budget_ns / NS_PER_MS
    parameters["limit"].string_param = reply.budget_source
    parameters["tier"].string_param = reply.tier
    if reply.request_id:
        parameters["request_id"].int64_param = reply.request_id
    if reply.segments > 1:
        parameters["segments"].int64_param = reply.segments
    if reply.late_ns:
        parameters["late_ms"].double_param = reply.late_ns / NS_PER_MS
    if reply.foreseen.bound_ns:
        parameters["expected_ms"].double_param = reply.foreseen.mean_ns / NS_PER_MS
        parameters["bound_ms"].double_param = reply.foreseen.bound_ns / NS_PER_MS


# --- inputs ---------------------------------------------------------------------------------------


def _tensors_of(message: Any, regions: Regions) -> list[Tensor]:
    raw = message.raw_input_contents
    tensors: list[Tensor] = []
    taken, reading = 0, Reading(regions)
    for each in message.inputs:
        name = each.name
        datatype, shape = datatype_of(each), shape_of(each)
        place = _place_of(each, regions, "input")
        data: bytes
        if place is not None:
            data = reading.read(place)
        elif raw:
            if each.HasField("contents"):
                raise InvalidRequestError(
                    f"input `{name}` has `contents` beside `raw_input_contents`",
                    hint="send all inputs one way or the other",
                )
            if taken >= len(raw):
                raise InvalidRequestError(f"`raw_input_contents` has nothing for input `{name}`")
            data = raw[taken]
            taken += 1
        else:
            data = _packed(name, datatype, shape, each.contents)
        check_packed(name, datatype, shape, data)
        tensors.append(Tensor(name, datatype, shape, data))
    if taken != len(raw):
        raise InvalidRequestError(
            f"`raw_input_contents` has {len(raw)} entries, its inputs take {taken}",
            hint="one for each input that is not in shared memory, in their order",
        )
    refuse_twins("input", [tensor.name for tensor in tensors])
    return tensors


def datatype_of(each: Any) -> Datatype:
    """The datatype that an input names.

    Raises:
        InvalidRequestError: there is none of that name.
    """
    try:
        return Datatype(each.datatype)
    except ValueError:
        raise InvalidRequestError(
            f"input `{each.name}` has the datatype `{each.datatype[:80]}`",
            hint=f"there are {', '.join(Datatype)}",
        ) from None


def shape_of(each: Any) -> tuple[int, ...]:
    """The shape of an input.

    Raises:
        InvalidRequestError: it is none.
    """
    shape = tuple(each.shape)
    if len(shape) > AXES_MAX or any(not 0 <= size <= AXIS_MAX for size in shape):
        shown = list(shape[:AXES_MAX])
        raise InvalidRequestError(
            f"input `{each.name}` has the shape {shown}",
            hint=f"at most {AXES_MAX} axes, each from 0 to {AXIS_MAX}",
        )
    return shape


def _packed(name: str, datatype: Datatype, shape: Sequence[int], contents: Any) -> bytes:
    """Typed elements as packed bytes."""
    where = _CONTENTS.get(datatype)
    if where is None:
        raise InvalidRequestError(
            f"input `{name}` is {datatype}, which `contents` has no place for",
            hint="send it in `raw_input_contents`",
        )
    field, _ = where
    others = [each.name for each, _ in contents.ListFields() if each.name != field]
    if others:
        raise InvalidRequestError(
            f"input `{name}` is {datatype}, but has `{others[0]}`", hint=f"use `{field}`"
        )
    return pack_values(name, datatype, shape, getattr(contents, field))


# --- outputs --------------------------------------------------------------------------------------


def _outputs_of(
    outputs: Sequence[Any], regions: Regions
) -> tuple[tuple[str, ...], dict[str, Place]]:
    names = tuple([each.name for each in outputs])
    refuse_twins("output", names)
    places = {}
    for each in outputs:
        if "classification" in each.parameters:
            refuse_classification(each.name, value_of(each.parameters["classification"]))
        place = _place_of(each, regions, "output")
        if place is not None:
            places[each.name] = place
    return names, places


def _place_of(each: Any, regions: Regions, kind: str) -> Place | None:
    if "shared_memory_region" not in each.parameters:
        return None
    parameters = {name: value_of(value) for name, value in each.parameters.items()}
    return place_of(regions, f"{kind} `{each.name}`", parameters)


def _fill(contents: Any, output: Tensor) -> None:
    """An output's elements, typed."""
    field, code = _CONTENTS[output.datatype]
    values = getattr(contents, field)
    if output.datatype is Datatype.BYTES:
        data, start = memoryview(output.data), 0
        for end in bytes_element_ends(data, elements_of(output.shape)):
            values.append(bytes(data[start + 4 : end]))
            start = end
        return
    values.extend(unpack(f"<{elements_of(output.shape)}{code}", output.data))
