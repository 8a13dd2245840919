"""Lines written by a thread of their own, so that a slow disk never holds the scheduler.

Bounded twice: by lines that wait and by bytes in the file. Past either, the file ends with a note
and the server goes on.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

__all__ = ["BackgroundWriter"]

T = TypeVar("T")

_PERIOD_S: Final = 0.2
_log = logging.getLogger("headway.observe")


class BackgroundWriter(Generic[T]):
    """Encodes items and appends them to a file, in the order given.

    Args:
        path: created or truncated.
        encode: one item to one line, without its newline.
        waiting_max: items that may wait for the disk.
        bytes_max: size at which the file ends.

    Invariants: `put` never blocks; the file holds a prefix of what was put.
    """

    def __init__(
        self,
        path: Path,
        encode: Callable[[T], bytes],
        *,
        waiting_max: int = 200_000,
        bytes_max: int = 1 << 30,
    ) -> None:
        self._path = path
        self._encode = encode
        self._waiting_max = waiting_max
        self._bytes_left = bytes_max
        # Unbuffered: what a full disk refused must not be tried again when the file is closed.
        self._file = path.open("wb", buffering=0)
        self._waiting: deque[T] = deque()
        self._is_full = False
        """Nothing more may be written, not even what waits."""
        self._stop = threading.Event()
        self.ended: str | None = None
        """Why nothing more is written; None while it is."""
        self._thread = threading.Thread(
            target=self._run, name=f"headway-write-{path.name}", daemon=True
        )
        self._thread.start()

    def put(self, item: T) -> None:
        """Have an item written soon; dropped once the file has ended."""
        if self.ended is not None:
            return
        if len(self._waiting) >= self._waiting_max:
            self._end(f"the disk is slower than {self._waiting_max} waiting lines allow")
            return
        self._waiting.append(item)

    def close(self) -> None:
        """Write what waits, and end."""
        self._stop.set()
        self._thread.join()
        self._file.close()

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD_S):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        # Taken one by one from a deque that stays: a swapped list loses what is put meanwhile.
        items = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not items or self._is_full:
            return
        try:
            lines = b"".join(self._encode(item) + b"\n" for item in items)
            if len(lines) > self._bytes_left:
                lines = lines[: lines.rfind(b"\n", 0, self._bytes_left) + 1]
                self._is_full = True
            self._bytes_left -= len(lines)
            self._write(lines)
        except Exception as error:  # noqa: BLE001 - whatever stops the writer, the server goes on
            self._is_full = True
            self._end(str(error))
            return
        if self._is_full:
            self._end("it has reached its largest size")

    def _write(self, lines: bytes) -> None:
        rest = memoryview(lines)
        while rest:
            rest = rest[self._file.write(rest) :]

    def _end(self, why: str) -> None:
        self.ended = why
        _log.warning("`%s` ends here: %s; the server goes on without it", self._path, why)
