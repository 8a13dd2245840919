"""One stream of an HTTP/2 connection: a request and its answer, and what of it waits for room.

Refuses to know what is in a request: an `Exchange` does.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from headway.core import Buffer

__all__ = ["Exchange", "Headers", "Stream", "Wire"]

_JOINED_BYTES_MAX: Final = 1 << 14
"""A longer body is not put together, but handed on as it is."""

Headers = Sequence[tuple[bytes, bytes]]


class Exchange(Protocol):
    """What answers one stream. None of it may raise or block."""

    @property
    def is_owed(self) -> bool:
        """The client has begun a message, say, and nothing keeps it from ending that."""

    def on_data(self, data: bytes) -> None:
        """A piece of the request's body."""

    def on_end(self) -> None:
        """The request is whole."""

    def on_gone(self) -> None:
        """Nobody waits for the answer any more, and none can be sent."""

    def on_room(self) -> None:
        """All that waited to be sent has been."""


class _Nobody:
    """Answers what has been answered, or never will be."""

    is_owed = False

    def on_data(self, data: bytes) -> None:
        """Nothing to do."""

    def on_end(self) -> None:
        """Nothing to do."""

    def on_gone(self) -> None:
        """Nothing to do."""

    def on_room(self) -> None:
        """Nothing to do."""


_NOBODY: Final = _Nobody()


class Wire(Protocol):
    """What a stream needs of its connection."""

    def send_headers(self, stream_id: int, headers: Headers) -> None:
        """Send headers that are not the last."""

    def push(self, stream: "Stream") -> None:
        """Send what there is room for."""

    def credit(self, stream_id: int, size_bytes: int) -> None:
        """As much more may be sent to us."""


class Stream:
    """One request and its answer.

    Invariants: it is open until both sides have said all, or one has taken it back; what is sent
    afterwards goes nowhere.
    """

    __slots__ = (
        "_connection",
        "exchange",
        "is_heard",
        "is_open",
        "owed_bytes",
        "stream_id",
        "tail",
        "waiting",
    )

    def __init__(self, connection: Wire, stream_id: int, *, is_heard: bool) -> None:
        self._connection = connection
        self.stream_id = stream_id
        self.exchange: Exchange = _NOBODY
        self.is_open = True
        self.is_heard = is_heard
        """The client has said all."""
        self.owed_bytes = 0
        """Came, and was not used up yet."""
        self.waiting: deque[Buffer] = deque()
        """Data to be sent."""
        self.tail: Headers | None = None
        """The last headers, to be sent behind them; None until they are known."""

    def credit(self, size_bytes: int) -> None:
        """So much of the body was used up; as much more may be sent."""
        if size_bytes:
            self.owed_bytes -= size_bytes
            self._connection.credit(self.stream_id, size_bytes)

    def respond(self, head: Headers, body: Sequence[Buffer], tail: Headers) -> None:
        """A whole answer: headers, data, trailers."""
        self.send_head(head)
        self._add(body)
        self.finish(tail)

    def send_head(self, headers: Headers) -> None:
        """The first headers."""
        if self.is_open:
            self._connection.send_headers(self.stream_id, headers)

    def send(self, body: Sequence[Buffer]) -> None:
        """Data, at once or when the other side has room for it."""
        if self.is_open:
            self._add(body)
            self._connection.push(self)

    def finish(self, headers: Headers) -> None:
        """The last headers, behind all data: trailers, or the only headers that there are."""
        if self.is_open:
            self.tail = headers
            self._connection.push(self)

    def _add(self, body: Sequence[Buffer]) -> None:
        if sum([len(part) for part in body]) <= _JOINED_BYTES_MAX:
            self.waiting.append(b"".join(body))
        else:
            self.waiting.extend([memoryview(part).cast("B") for part in body if len(part)])
