"""A raw infer request: a body that is the bytes of the model's only input, and nothing else.

Pure: bytes and what is known of the model in, a call or an `InvalidRequestError` out.
"""

from collections.abc import Mapping

from headway.core import Datatype, Tensor, concat_bytes, elements_of
from headway.errors import InvalidRequestError
from headway.executors import TensorSpec
from headway.frontends.client_call import call_of
from headway.frontends.oip_request import DecodedInfer, ReplyForm
from headway.frontends.oip_tensors import check_packed
from headway.runtime import ModelStatus

__all__ = ["decode_raw_infer"]


def decode_raw_infer(
    body: bytes | bytearray,
    *,
    status: ModelStatus,
    arrived_at_ns: int,
    headers: Mapping[bytes, bytes],
) -> DecodedInfer:
    """Decode a body that is the bytes of the model's only input, one row of it.

    Raises:
        InvalidRequestError: the model has several inputs, or the bytes do not fill its shape.
    """
    if len(status.inputs) != 1:
        raise InvalidRequestError(
            f"model `{status.name}` has {len(status.inputs)} inputs, a raw request carries one",
            hint="describe the inputs in JSON and send their bytes behind it",
        )
    spec = status.inputs[0]
    data = concat_bytes([bytes(body)]) if spec.datatype is Datatype.BYTES else body
    shape = _raw_shape(spec, status, len(body))
    check_packed(spec.name, spec.datatype, shape, data)
    inputs = [Tensor(spec.name, spec.datatype, shape, data)]
    call = call_of(status.name, status.version, inputs, (), arrived_at_ns, {}, headers)
    return DecodedInfer(call, ReplyForm(is_binary=True))


def _raw_shape(spec: TensorSpec, status: ModelStatus, body_bytes: int) -> tuple[int, ...]:
    """One row of the input, its one free axis sized by the bytes."""
    row = spec.shape[1:] if status.can_batch else spec.shape
    lead = (1,) if status.can_batch else ()
    free = [axis for axis, size in enumerate(row) if size < 0]
    if spec.datatype is Datatype.BYTES:
        if len(free) > 1 or elements_of([size for size in row if size >= 0]) != 1:
            raise _no_raw(spec, "BYTES needs the shape [1]")
        return lead + (1,) * len(row)
    if not free:
        return lead + row
    if len(free) > 1:
        raise _no_raw(spec, "only one axis may be free")
    fixed = [size for size in row if size >= 0]
    item_bytes = elements_of(fixed) * (spec.datatype.item_bytes or 1)
    size = body_bytes // item_bytes if item_bytes else 0
    return lead + tuple(size if axis in free else fixed_size for axis, fixed_size in enumerate(row))


def _no_raw(spec: TensorSpec, why: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"input `{spec.name}` of shape {list(spec.shape)} cannot be sent raw: {why}",
        hint="describe it in JSON and send its bytes behind that",
    )
