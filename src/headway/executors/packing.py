"""A batch's members into the slot's arena, and its rows back out: the parent's half of the copying.

Member rows are laid end to end, so that the worker sees one tensor with a longer leading axis; each
input byte is copied once, from the request's buffer into shared memory. On the way back nothing is
copied: a member's outputs are windows on the arena. No numpy: the parent computes nothing.
"""

from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from headway.core import Datatype, SlotClass, Tensor
from headway.executors.arena import HEADER_BYTES, Arena, align
from headway.executors.model import BatchJob, buffer_bytes
from headway.executors.wire import ENCODER, MESSAGE_BYTES_MAX, BatchDone, RunBatch, TensorRef

__all__ = ["PackedBatch", "PackingError", "outputs_end", "pack", "release", "unpack"]


class PackingError(Exception):
    """A job that cannot be sent: its members disagree, or its description is too long."""


class PackedBatch(Struct, frozen=True, gc=False):
    """What goes to the worker, and how far the inputs reach into the arena."""

    message: bytes
    end: int


def pack(job: BatchJob, arena: Arena) -> PackedBatch:
    """Copy a batch's inputs into the arena and describe them.

    Raises:
        ArenaFullError: they do not fit.
        PackingError: the members do not have the same inputs, or the message is too long.
    """
    columns = _columns(job.members)
    refs: list[TensorRef] = []
    end = HEADER_BYTES
    for column in columns:
        first = column[0]
        start = align(end)
        size_bytes = 0
        for tensor in column:
            size_bytes += buffer_bytes(tensor.data)
        shape = first.shape
        if job.can_batch:  # summed for each: ragged inputs are longer than the batch has rows
            shape = (sum([tensor.shape[0] for tensor in column]), *first.shape[1:])
        refs.append(TensorRef(first.name, first.datatype, shape, start, size_bytes))
        end = start + size_bytes
    arena.reserve(end)
    shared = arena.map
    for ref, column in zip(refs, columns, strict=True):
        at = ref.offset
        for tensor in column:
            data = tensor.data
            next_at = at + buffer_bytes(data)
            shared[at:next_at] = data
            at = next_at
    message = ENCODER.encode(
        RunBatch(
            job.batch_id,
            job.replica_id,
            job.slot_class is SlotClass.LOW,
            job.can_batch,
            tuple(job.member_rows),
            arena.size_bytes,
            tuple(refs),
            job.outputs,
            job.parameters,
        )
    )
    if len(message) > MESSAGE_BYTES_MAX:
        raise PackingError(
            f"names and parameters of the batch take {len(message)} bytes, "
            f"more than the limit of {MESSAGE_BYTES_MAX}"
        )
    return PackedBatch(message, end)


def unpack(job: BatchJob, done: BatchDone, arena: Arena) -> list[list[Tensor]]:
    """Each member's outputs, as views of the arena."""
    view = arena.view
    if len(job.members) == 1:
        return [
            [
                Tensor(o.name, o.datatype, o.shape, view[o.offset : o.offset + o.size_bytes])
                for o in done.outputs
            ]
        ]
    replies: list[list[Tensor]] = [[] for _ in job.members]
    for ref in done.outputs:
        start = ref.offset
        tail = ref.shape[1:]
        ends = _member_ends(ref, job.member_rows)
        for reply, rows, end in zip(replies, job.member_rows, ends, strict=True):
            stop = ref.offset + end
            reply.append(Tensor(ref.name, ref.datatype, (rows, *tail), view[start:stop]))
            start = stop
    return replies


def release(replies: Sequence[Sequence[Tensor]]) -> None:
    """End the life of a batch's views: a late reader gets an error, not another request's rows.

    Raises:
        BufferError: someone still holds a buffer of them.
    """
    for reply in replies:
        for tensor in reply:
            data = tensor.data
            if isinstance(data, memoryview):
                data.release()


def outputs_end(done: BatchDone, inputs_end: int) -> int:
    """How far a finished batch reached into the arena."""
    if not done.outputs:
        return inputs_end
    last = done.outputs[-1]
    return last.offset + last.size_bytes


def _columns(members: Sequence[Sequence[Tensor]]) -> list[tuple[Tensor, ...]]:
    """One input of every member at a time, in the order of the first member."""
    first = members[0]
    if len(members) == 1:
        return [(tensor,) for tensor in first]
    names = [tensor.name for tensor in first]
    ordered = [first]
    for member in members[1:]:
        if [tensor.name for tensor in member] == names:
            ordered.append(member)
            continue
        by_name = {tensor.name: tensor for tensor in member}
        if by_name.keys() != set(names):
            raise PackingError(f"members of one batch have inputs {names} and {list(by_name)}")
        ordered.append([by_name[name] for name in names])
    return list(zip(*ordered, strict=True))


def _member_ends(ref: TensorRef, member_rows: Sequence[int]) -> Sequence[int]:
    if ref.datatype is Datatype.BYTES:
        return ref.member_ends
    rows = sum(member_rows)
    row_bytes = ref.size_bytes // rows if rows else 0
    return [end * row_bytes for end in accumulate(member_rows)]
