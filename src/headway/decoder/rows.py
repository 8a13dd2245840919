"""Memory for keys and values: a row for each sequence, of which only what is written is taken.

A row is long enough for the longest sequence.

All layers' rows lie in one piece of address space that the system fills with pages as they are
first written. A row that is left gives its pages back. So what is in use is what sequences hold,
page by page, as with blocks that an engine hands out itself; and yet a row is contiguous, which is
what lets the attention operator work in place.

`RowPool` is the account that the step scheduler keeps: blocks are counted as in any pool, and a
sequence also needs a row, of which there are more than a step takes, as some pause.

Knows rows and bytes. Refuses to know who is in them and why.
"""

import mmap
from collections.abc import Sequence
from typing import Final

import numpy as np

from headway.decoder.shape import DecoderShape
from headway.decoder.weights import Floats
from headway.errors import OutOfMemoryError
from headway.generate import BlockPool, SequenceId

__all__ = ["KvRows", "RowPool", "SwappedKv"]

_FLOAT_BYTES: Final = 4
_ROOM_STEP: Final = 64
"""Tokens: rows of any head size then begin at a page."""
_MAP_NORESERVE: Final = 0x4000
"""As Linux has it; Python names it only in newer versions."""


class SwappedKv:
    """Keys and values of one sequence, out of its row: (layers x 2, heads, tokens, numbers)."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Floats) -> None:
        self.numbers = numbers


class KvRows:
    """The memory itself.

    Args:
        shape: of the model.
        rows: how many sequences may hold one.
        context: tokens that a row has room for at least.

    Raises:
        OutOfMemoryError: the system does not give so much address space.
    """

    def __init__(self, shape: DecoderShape, rows: int, context: int) -> None:
        self.rows = rows
        self.room = -(-context // _ROOM_STEP) * _ROOM_STEP
        parts = 2 * shape.layers
        self._row_bytes = shape.kv_heads * self.room * shape.head_size * _FLOAT_BYTES
        size_bytes = parts * rows * self._row_bytes
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        try:
            self._map = mmap.mmap(-1, size_bytes, flags=flags)
        except (OSError, OverflowError) as error:
            raise OutOfMemoryError(
                f"no address space of `{size_bytes}` bytes for `{rows}` sequences of"
                f" `{self.room}` tokens: {error}",
                hint="fewer sequences_max or a smaller context; or lift the limit on address space",
            ) from error
        # A huge page would make one token of one head take two megabytes.
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        whole = np.frombuffer(self._map, np.float32)
        sizes = (parts, rows, shape.kv_heads, self.room, shape.head_size)
        self.parts: Floats = whole.reshape(sizes)
        """Keys and values of each layer in turn: (part, row, head, token, number)."""

    def copy_out(self, row: int, tokens: int) -> SwappedKv:
        """The first so many tokens of a row."""
        return SwappedKv(self.parts[:, row, :, :tokens].copy())

    def copy_in(self, row: int, kept: SwappedKv) -> None:
        """Put them back, in any row."""
        tokens = kept.numbers.shape[2]
        self.parts[:, row, :, :tokens] = kept.numbers

    def give_back(self, row: int) -> None:
        """What is in a row is of no use any more: its pages are the system's again."""
        step = self.rows * self._row_bytes
        begins = row * self._row_bytes
        for part in range(len(self.parts)):
            self._map.madvise(mmap.MADV_DONTNEED, part * step + begins, self._row_bytes)


class RowPool(BlockPool):
    """Counts blocks, and hands out rows: the lowest that is free, so that steps stay dense.

    Invariants: a sequence that holds blocks has a row, alone.
    """

    def __init__(self, blocks: int, block_tokens: int, rows: int) -> None:
        super().__init__(blocks, block_tokens)
        self._free_rows = list(range(rows - 1, -1, -1))
        """The lowest is the last."""
        self.row_of: dict[SequenceId, int] = {}

    def blocks_to_start(self, keys: Sequence[int], known_tokens: int, room_tokens: int) -> int:
        """More than there are in all where no row is free, so that nobody is preempted for it."""
        if not self._free_rows:
            return 2 * self.total_count + 1
        return super().blocks_to_start(keys, known_tokens, room_tokens)

    def start(self, sequence_id: SequenceId, keys: Sequence[int], tokens: int) -> int:
        """Take a row, too."""
        found = super().start(sequence_id, keys, tokens)
        self.row_of[sequence_id] = self._free_rows.pop()
        return found

    def release(self, sequence_id: SequenceId) -> None:
        """Let go of the row, too."""
        super().release(sequence_id)
        row = self.row_of.pop(sequence_id, None)
        if row is not None:
            self._free_rows.append(row)
            self._free_rows.sort(reverse=True)
