"""A batch's members laid end to end, and the outputs cut apart again: the parent's half."""

import struct
from array import array

import pytest

from headway.core import BatchId, Datatype, ReplicaId, SlotClass, SlotIndex, Tensor, concat_bytes
from headway.executors import BatchJob
from headway.executors.arena import Arena, ArenaFullError
from headway.executors.packing import PackingError, outputs_end, pack, release, unpack
from headway.executors.wire import (
    MESSAGE_BYTES_MAX,
    SLOT_REQUESTS,
    TEXT_CHARS_MAX,
    BatchDone,
    TensorRef,
    shorten,
)


@pytest.fixture
def arena():
    made = Arena.create("test", 1 << 20)
    yield made
    made.close()


def a_job(*members, rows=(), can_batch=True, parameters=None, outputs=()) -> BatchJob:
    return BatchJob(
        batch_id=BatchId(5),
        replica_id=ReplicaId(3),
        slot=SlotIndex(0),
        slot_class=SlotClass.LOW,
        members=members,
        member_rows=rows or [member[0].shape[0] for member in members],
        can_batch=can_batch,
        outputs=outputs,
        parameters=parameters or {},
    )


def numbers(name: str, rows: int, first: int = 0) -> Tensor:
    return Tensor(name, Datatype.UINT8, (rows, 2), bytes(range(first, first + 2 * rows)))


def done_with(*refs: TensorRef) -> BatchDone:
    return BatchDone(5, 0, refs, 1, 2, 3)


def test_members_become_one_tensor(arena):
    """Rows lie end to end, so that the worker sees one longer tensor for each input."""
    job = a_job(
        [numbers("x", 1), numbers("z", 1, 50)],
        [numbers("x", 2, 10), numbers("z", 2, 60)],
        outputs=("y",),
        parameters={"k": 1.5},
    )
    packed = pack(job, arena)
    message = SLOT_REQUESTS.decode(packed.message)
    assert (message.batch_id, message.replica_id, message.is_low) == (5, 3, True)
    assert (message.member_rows, message.outputs, message.parameters) == (
        (1, 2),
        ("y",),
        {"k": 1.5},
    )
    assert message.inputs == (
        TensorRef("x", Datatype.UINT8, (3, 2), 64, 6),
        TensorRef("z", Datatype.UINT8, (3, 2), 128, 6),
    )
    assert arena.map[64:70] == bytes([0, 1, 10, 11, 12, 13])
    assert arena.map[128:134] == bytes([50, 51, 60, 61, 62, 63])
    assert packed.end == 134


def test_inputs_are_taken_by_name(arena):
    """The first member's order holds for all; a member with other names is refused."""
    x, z = numbers("x", 1), numbers("z", 1, 50)
    pack(a_job([x, z], [z, x]), arena)
    assert (arena.map[64:68], arena.map[128:132]) == (b"\0\1\0\1", bytes([50, 51, 50, 51]))
    with pytest.raises(PackingError, match=r"\['x', 'z'\] and \['x'\]"):
        pack(a_job([x, z], [x]), arena)


def test_shape_without_batch_axis_is_kept(arena):
    """A single member of a model that does not batch keeps even a scalar's shape."""
    x = Tensor("x", Datatype.INT16, (), b"\7\0")
    message = SLOT_REQUESTS.decode(pack(a_job([x], rows=[1], can_batch=False), arena).message)
    assert message.inputs[0].shape == ()


@pytest.mark.parametrize("data", [b"\0" * 8, bytearray(8), memoryview(array("f", [0, 0]))])
def test_any_buffer_will_do(arena, data):
    """bytes, bytearray and views of any item size are copied whole."""
    packed = pack(a_job([Tensor("x", Datatype.FP32, (1, 2), data)]), arena)
    assert SLOT_REQUESTS.decode(packed.message).inputs[0].size_bytes == 8


def test_too_much_is_refused(arena):
    """More bytes than the arena may have, or a longer message than a packet, is an error."""
    with pytest.raises(ArenaFullError):
        pack(a_job([Tensor("x", Datatype.UINT8, (1, 1 << 20), bytes(1 << 20))]), arena)
    with pytest.raises(PackingError, match=str(MESSAGE_BYTES_MAX)):
        pack(a_job([numbers("x", 1)], parameters={"k": "v" * MESSAGE_BYTES_MAX}), arena)


def test_outputs_are_cut_at_the_members_rows(arena):
    """Each member gets a window on its own rows."""
    arena.map[64:70] = bytes(range(6))
    job = a_job([numbers("x", 1)], [numbers("x", 2)])
    replies = unpack(job, done_with(TensorRef("y", Datatype.UINT8, (3, 2), 64, 6)), arena)
    assert [(y.shape, bytes(y.data)) for [y] in replies] == [
        ((1, 2), b"\0\1"),
        ((2, 2), b"\2\3\4\5"),
    ]


def test_strings_are_cut_where_the_worker_said(arena):
    """Rows of strings have no fixed size, so the worker names each member's end."""
    first, second = concat_bytes([b"abc"]), concat_bytes([b"", b"z"])
    arena.map[64 : 64 + len(first + second)] = first + second
    job = a_job([numbers("x", 1)], [numbers("x", 2)])
    size = len(first + second)
    ref = TensorRef("y", Datatype.BYTES, (3,), 64, size, (len(first), size))
    assert [bytes(y.data) for [y] in unpack(job, done_with(ref), arena)] == [first, second]


def test_released_views_cannot_be_read(arena):
    """After the report a view is dead; one that is still exported is a bug that shows."""
    done = done_with(TensorRef("y", Datatype.UINT8, (1, 2), 64, 2))
    replies = unpack(a_job([numbers("x", 1)]), done, arena)
    release(replies)
    with pytest.raises(ValueError, match="released"):
        bytes(replies[0][0].data)
    held = unpack(a_job([numbers("x", 1)]), done, arena)
    reader = struct.iter_unpack("B", held[0][0].data)
    with pytest.raises(BufferError):
        release(held)
    del reader


def test_end_of_outputs():
    """The arena was used up to the last output, or to the inputs' end where there is none."""
    assert outputs_end(done_with(), 99) == 99
    assert outputs_end(done_with(TensorRef("y", Datatype.UINT8, (2,), 128, 2)), 99) == 130


def test_error_texts_are_bounded():
    """A long error is cut, and what is left out is counted."""
    assert shorten("short") == "short"
    assert shorten("x" * (TEXT_CHARS_MAX + 7)).endswith("x… (7 more characters)")
