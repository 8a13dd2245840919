"""Which trace a request belongs to, and whether it is to be told of: the W3C's `traceparent`, read.

    traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
              version        trace id                 caller's span   flags

What is malformed is as good as absent, as the specification wants it: the request then begins a
trace of its own. Pure; chance is handed in.
"""

import re
from random import Random
from typing import Final, NamedTuple

__all__ = ["Sampling", "TraceContext", "TraceParent", "parse_traceparent"]

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_CHARS_MAX: Final = 512
_SAMPLED: Final = 1
_LOW_HALF: Final = (1 << 64) - 1


class TraceParent(NamedTuple):
    """The caller's span."""

    trace_id: int
    span_id: int
    is_sampled: bool
    """Whether the caller tells of it."""


class TraceContext(NamedTuple):
    """Where the span of a request belongs."""

    trace_id: int
    parent_id: int | None
    """The caller's span; None where the trace begins here."""


def parse_traceparent(text: str) -> TraceParent | None:
    """Read the header; None for one that is not valid.

    Version 00 has four fields and no more. A later one may have more behind them, which are left
    alone; version ff does not exist.
    """
    if not text or len(text) > _CHARS_MAX:
        return None
    match = _TRACEPARENT.fullmatch(text)
    if match is None:
        return None
    version, trace, span, flags, more = match.groups()
    if version == "ff" or (version == "00" and more):
        return None
    trace_id, span_id = int(trace, 16), int(span, 16)
    if not trace_id or not span_id:
        return None
    return TraceParent(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


class Sampling:
    """Decides once a request, at its beginning; whoever is told of one part is told of all.

    Args:
        ratio: the part of traces that begin here which is told of. A caller's decision stands.
        chance: makes the ids of traces that begin here.
    """

    def __init__(self, ratio: float, chance: Random) -> None:
        self._chance = chance
        self._ids_below = round(ratio * (1 << 64))

    def context_of(self, traceparent: str) -> TraceContext | None:
        """Where a request's span belongs; None where none is wanted."""
        parent = parse_traceparent(traceparent)
        if parent is not None:
            return TraceContext(parent.trace_id, parent.span_id) if parent.is_sampled else None
        trace_id = self._chance.getrandbits(128) or 1
        # By the id, as others who see it would decide.
        return TraceContext(trace_id, None) if trace_id & _LOW_HALF < self._ids_below else None
