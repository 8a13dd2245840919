"""A request in parts: its inputs cut between rows, and the outputs of the parts put end to end.

Knows tensors and their first axis. Refuses to know which rows run when, which the kernel decides.
No numpy: the parent moves tensors that it does not read.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from headway.core import Buffer, Datatype, Tensor, bytes_element_ends

__all__ = ["RowCutter", "are_joinable", "join_rows"]


class RowCutter:
    """Inputs of one request, cut anywhere between two rows. Cost: no byte of them is copied.

    Invariants: the tensors share their first axis; cuts view the buffers that were given.
    """

    __slots__ = ("_inputs", "_row_ends")

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self._inputs = inputs
        self._row_ends: list[list[int] | None] = [
            _bytes_row_ends(tensor) if tensor.datatype is Datatype.BYTES else None
            for tensor in inputs
        ]

    def cut(self, first_row: int, rows: int) -> list[Tensor]:
        """So many rows of every input, from ``first_row`` on."""
        return [
            _cut(tensor, ends, first_row, rows)
            for tensor, ends in zip(self._inputs, self._row_ends, strict=True)
        ]


def are_joinable(parts: Sequence[Sequence[Tensor]]) -> bool:
    """Whether all have the same outputs, alike in datatype and in every axis but the first."""
    return all(
        [_kind(tensor) for tensor in one] == [_kind(tensor) for tensor in other]
        for one, other in pairwise(parts)
    )


def join_rows(parts: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """The outputs of parts that are joinable, one tensor each, in order of the parts."""
    return [_join(column) for column in zip(*parts, strict=True)]


def _cut(tensor: Tensor, ends: list[int] | None, first_row: int, rows: int) -> Tensor:
    data = memoryview(tensor.data).cast("B")
    if ends is None:
        row_bytes = len(data) // tensor.shape[0]
        start, stop = first_row * row_bytes, (first_row + rows) * row_bytes
    else:
        start, stop = ends[first_row], ends[first_row + rows]
    return Tensor(tensor.name, tensor.datatype, (rows, *tensor.shape[1:]), data[start:stop])


def _bytes_row_ends(tensor: Tensor) -> list[int]:
    """Where each row ends, behind a 0: elements of BYTES bring their own length."""
    ends = [0, *bytes_element_ends(tensor.data, prod(tensor.shape))]
    row_elements = prod(tensor.shape[1:])
    return [ends[row * row_elements] for row in range(tensor.shape[0] + 1)]


def _join(parts: Sequence[Tensor]) -> Tensor:
    first = parts[0]
    buffers: list[Buffer] = [tensor.data for tensor in parts]
    rows = sum(tensor.shape[0] for tensor in parts)
    return Tensor(first.name, first.datatype, (rows, *first.shape[1:]), b"".join(buffers))


def _kind(tensor: Tensor) -> tuple[str, Datatype, tuple[int, ...]]:
    return tensor.name, tensor.datatype, tensor.shape[1:]
