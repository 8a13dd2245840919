"""What a gRPC service is to whatever carries it: methods by their path, and what they may ask.

A method that cannot answer raises an error of `headway.errors`. Knows no wire.
"""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

__all__ = ["Call", "Method", "MethodKind", "Methods"]


class Call(Protocol):
    """What a method may ask beside its messages."""

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """What the client says of itself and its request, as over HTTP."""

    def left_ns(self) -> int | None:
        """Until its deadline, never overstated; None where it has none."""

    async def write(self, message: bytes) -> None:
        """Send one message of several."""


class MethodKind(Enum):
    """How many messages go each way."""

    UNARY = "unary"
    WATCH = "watch"
    """One to the server, many back."""
    STREAM = "stream"
    """Many both ways."""


class Method(NamedTuple):
    """One that can be called.

    A unary one gives bytes; the others give none, and write. A stream's first argument is an
    asynchronous iterator of messages, the others' a message.
    """

    kind: MethodKind
    answer: Callable[[Any, Call], Awaitable[Any]]


Methods = Mapping[str, Method]
"""By name, without the service's."""
