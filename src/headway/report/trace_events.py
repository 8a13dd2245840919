"""The trace event format: what Perfetto and chrome://tracing open, as values and as a file.

Knows the format's letters and its unit, microseconds. Refuses to know what is drawn.

Events may stand in any order; viewers sort them by time, and keep the file's order among equals.
"""

import gzip
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self, cast

import msgspec
from msgspec import Struct

from headway.units import NS_PER_US

__all__ = ["Phase", "TraceEvent", "TraceFile", "instant_us"]

_TOP: Final = '{"displayTimeUnit":"ms","otherData":%s,"traceEvents":['


class Phase(StrEnum):
    """Kind of an event, as the format writes it in `ph`."""

    SLICE = "X"
    """Begins and lasts."""
    INSTANT = "i"
    COUNTER = "C"
    FLOW_START = "s"
    FLOW_STEP = "t"
    FLOW_END = "f"
    METADATA = "M"
    SPAN_BEGIN = "b"
    """Of a span that belongs to no thread, so that spans may overlap."""
    SPAN_END = "e"


_JOINED: Final = frozenset(
    {Phase.FLOW_START, Phase.FLOW_STEP, Phase.FLOW_END, Phase.SPAN_BEGIN, Phase.SPAN_END}
)


class TraceEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event.

    Raises:
        ValueError: a slice without a length, a flow without an identity, or either of them where
            the format has none.
    """

    ph: Phase
    name: str
    at_us: float = msgspec.field(name="ts", default=0.0)
    length_us: float | None = msgspec.field(name="dur", default=None)
    pid: int
    tid: int | None = None
    category: str | None = msgspec.field(name="cat", default=None)
    flow: str | None = msgspec.field(name="id", default=None)
    """What joins the events of a flow, or of a span."""
    binds: str | None = msgspec.field(name="bp", default=None)
    """`e`: a flow ends at the slice around it, not at the next one."""
    scope: str | None = msgspec.field(name="s", default=None)
    """How far an instant is drawn: `t` on its thread, `p` in its process, `g` over everything."""
    args: Mapping[str, object] = {}

    def __post_init__(self) -> None:
        if (self.ph is Phase.SLICE) != (self.length_us is not None):
            raise ValueError(f"`{self.name}`: a slice has a length, and nothing else has")
        if (self.ph in _JOINED) != (self.flow is not None):
            raise ValueError(f"`{self.name}`: a flow or span has an identity, and nothing else has")
        if (self.ph is Phase.INSTANT) != (self.scope is not None):
            raise ValueError(f"`{self.name}`: an instant has a scope, and nothing else has")


def instant_us(at_ns: int) -> float:
    """The format's unit; what follows the point are nanoseconds."""
    return at_ns / NS_PER_US


class TraceFile:
    """Writes events as they come; a context manager. A name that ends in `.gz` is compressed.

    Invariants: closed, the file is one JSON object; cut short it still opens in Perfetto, which
    forgives a missing end.
    """

    def __init__(self, target: Path | BinaryIO, notes: Mapping[str, object]) -> None:
        """Begin.

        Args:
            target: file to create or truncate, whose folder is made where it is missing; or what is
                written to, and left open.
            notes: what a viewer shows of the whole, such as where the run came from.

        Raises:
            OSError: it cannot be written.
        """
        self.count = 0
        self._encoder = msgspec.json.Encoder()
        self._is_own = isinstance(target, Path)
        self._is_closed = False
        self._file = _opened(target) if isinstance(target, Path) else target
        self._file.write((_TOP % msgspec.json.encode(notes).decode()).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, events: Iterable[TraceEvent]) -> None:
        """Append."""
        for event in events:
            self._file.write(b",\n" if self.count else b"\n")
            self._file.write(self._encoder.encode(event))
            self.count += 1

    def close(self) -> None:
        """End the list and the file."""
        if not self._is_closed:
            self._is_closed = True
            self._file.write(b"\n]}\n")
            if self._is_own:
                self._file.close()


def _opened(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        return cast("BinaryIO", gzip.open(path, "wb"))
    return path.open("wb")
