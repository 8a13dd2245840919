"""Requests of several lengths laid end to end, with no padding between them.

A client sends (row, size, ...), every row as long as the others of its request; the model is handed
(all sizes of all rows, ...) and, in an input of its own, how long each row is. In memory the two
are the same bytes, so nothing is copied here. What the model gives back has one entry a row.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from headway.core import Datatype, Tensor
from headway.errors import InvalidRequestError
from headway.executors import RaggedInputs, Signature, TensorSpec

__all__ = ["Ragged"]

_ITEM_BYTES: Final = {Datatype.INT32: 4, Datatype.INT64: 8}


class Ragged:
    """The ragged inputs of one model."""

    __slots__ = ("_inputs", "_lengths", "client_signature", "names")

    def __init__(self, signature: Signature, ragged: RaggedInputs) -> None:
        self.names = frozenset(ragged.inputs)
        self._inputs = signature.inputs
        self._lengths = ragged.lengths
        inputs = [_as_sent(s, self.names) for s in signature.inputs if s.name != ragged.lengths]
        self.client_signature = replace(signature, inputs=tuple(inputs))
        """What a client sends: a free axis more, and no lengths."""

    def check(self, inputs: Sequence[Tensor]) -> None:
        """Refuse inputs of which one is longer than another.

        Raises:
            InvalidRequestError: so it is.
        """
        ragged = [tensor for tensor in inputs if tensor.name in self.names]
        first = ragged[0]
        for tensor in ragged[1:]:
            if tensor.shape[1] != first.shape[1]:
                raise InvalidRequestError(
                    f"axis 1 of input `{tensor.name}` has size `{tensor.shape[1]}`,"
                    f" that of `{first.name}` has `{first.shape[1]}`",
                    hint="the model takes the same size for both",
                )

    def joined(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """What the model is handed for these inputs, which were checked. No byte is copied."""
        by_name = {tensor.name: tensor for tensor in inputs}
        rows, size = next(t.shape[:2] for t in inputs if t.name in self.names)
        return tuple(
            self._sizes(spec, rows, size)
            if spec.name == self._lengths
            else self._joined(by_name[spec.name])
            for spec in self._inputs
        )

    def _joined(self, tensor: Tensor) -> Tensor:
        if tensor.name not in self.names:
            return tensor
        rows, size, *rest = tensor.shape
        return Tensor(tensor.name, tensor.datatype, (rows * size, *rest), tensor.data)

    def _sizes(self, spec: TensorSpec, rows: int, size: int) -> Tensor:
        item = size.to_bytes(_ITEM_BYTES[spec.datatype], "little")
        return Tensor(spec.name, spec.datatype, (rows,), item * rows)


def _as_sent(spec: TensorSpec, ragged: frozenset[str]) -> TensorSpec:
    """The input as its client sees it."""
    if spec.name not in ragged:
        return spec
    return replace(spec, shape=(-1, *spec.shape))
