"""Shared memory of one slot: a sealed memfd that both processes map, inputs first, outputs behind.

One batch at a time owns it. It grows on demand up to a limit; whoever needs room lengthens the file
and says so in its next message, whereupon the other side maps it anew. The file never gets shorter
(the seal forbids it): a model that keeps a view of an old batch then reads wrong bytes, but neither
process can be killed by reading past the end. Memory that one great batch left behind is given back
by punching a hole into the file instead.

Knows bytes. Never a tensor, and nobody's numpy.
"""

import fcntl
import mmap
import os
from struct import Struct as Layout
from typing import Final

from headway.units import format_bytes

__all__ = ["ALIGN_BYTES", "HEADER_BYTES", "Arena", "ArenaFullError", "align"]

ALIGN_BYTES: Final = 64
"""A cache line, and what vector instructions like."""
HEADER_BYTES: Final = 64
"""The head of the arena holds the number of the batch that nobody waits for any more."""
FIRST_BYTES: Final = 64 << 10
TRIM_BATCHES: Final = 256
"""How many batches in a row must be small before memory is given back."""
TRIM_BYTES_MIN: Final = 4 << 20
"""Less than this is not worth a system call."""

_CANCELLED: Final = Layout("<Q")


class ArenaFullError(Exception):
    """A batch needs more shared memory than its slot may have."""


def align(offset: int) -> int:
    """The next offset at which a tensor may begin."""
    return (offset + ALIGN_BYTES - 1) & -ALIGN_BYTES


class Arena:
    """One side's mapping of the shared file.

    Invariants: ``size_bytes`` <= ``bytes_max``; the mapping is as long as ``size_bytes``.
    """

    __slots__ = (
        "_batches_left",
        "_peak_bytes",
        "_recent_bytes",
        "bytes_max",
        "fd",
        "map",
        "size_bytes",
        "view",
    )

    def __init__(self, fd: int, bytes_max: int) -> None:
        self.fd = fd
        self.bytes_max = bytes_max
        self.size_bytes = os.fstat(fd).st_size
        self.map = mmap.mmap(fd, self.size_bytes)
        self.view = memoryview(self.map)
        self._peak_bytes = 0
        self._recent_bytes = 0
        self._batches_left = TRIM_BATCHES

    @classmethod
    def create(cls, name: str, bytes_max: int) -> "Arena":
        """Make the file. The descriptor belongs to the arena."""
        fd = os.memfd_create(f"headway-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, min(FIRST_BYTES, max(bytes_max, HEADER_BYTES)))
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            return cls(fd, bytes_max)
        except BaseException:
            os.close(fd)
            raise

    def reserve(self, end: int) -> None:
        """Make sure that offsets up to ``end`` exist.

        Raises:
            ArenaFullError: that is beyond the limit.
        """
        if end <= self.size_bytes:
            return
        if end > self.bytes_max:
            raise ArenaFullError(
                f"the batch needs {format_bytes(end)} of shared memory for its inputs and outputs, "
                f"more than the slot's limit of {format_bytes(self.bytes_max)}"
            )
        size_bytes = min(1 << (end - 1).bit_length(), self.bytes_max)
        os.ftruncate(self.fd, size_bytes)
        self.follow(size_bytes)

    def follow(self, size_bytes: int) -> None:
        """Map the file anew if the other side has lengthened it.

        Views of the old mapping stay valid: it goes when the last of them does.
        """
        if size_bytes > self.size_bytes:
            self.map = mmap.mmap(self.fd, size_bytes)
            self.view = memoryview(self.map)
            self.size_bytes = size_bytes

    def settle(self, end: int) -> None:
        """A batch has left that used the offsets up to ``end``: perhaps give memory back.

        What stays is what the last batches needed. Cost: two comparisons, but for one batch in 256.
        """
        if end > self._recent_bytes:
            self._recent_bytes = end
            self._peak_bytes = max(self._peak_bytes, end)
        self._batches_left -= 1
        if self._batches_left == 0:
            keep_bytes = self._recent_bytes
            self._recent_bytes, self._batches_left = 0, TRIM_BATCHES
            if self._peak_bytes > max(4 * keep_bytes, TRIM_BYTES_MIN):
                self._punch(keep_bytes)
                self._peak_bytes = keep_bytes

    def cancel(self, batch_id: int) -> None:
        """Mark a batch: the worker will not begin it."""
        _CANCELLED.pack_into(self.map, 0, batch_id)

    def is_cancelled(self, batch_id: int) -> bool:
        """Whether the batch was marked."""
        return bool(_CANCELLED.unpack_from(self.map, 0)[0] == batch_id)

    def close(self) -> None:
        """Give the descriptor back, and the mapping as soon as nobody looks at it."""
        os.close(self.fd)
        self.view = memoryview(b"")
        del self.map

    def _punch(self, keep_bytes: int) -> None:
        start = -(-keep_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self.map.madvise(mmap.MADV_REMOVE, start, self.size_bytes - start)
