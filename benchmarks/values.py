"""What it costs to make an immutable value of eight fields: dataclass, msgspec Struct, tuple.

Usage: `python benchmarks/values.py [--quick] [--format table|json]`. A full run puts the document
into `benchmarks/results/values.json`; decision 0007 quotes it.
"""

from __future__ import annotations

import dataclasses
import sys
import timeit
from collections.abc import Callable
from typing import NamedTuple

import harness
import msgspec
from harness import Row

NAME = "values"
COLUMNS = ("kind", "ns_each")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """The standard library's way."""

    a: int
    b: int
    c: str
    d: str
    e: int
    f: int
    g: str
    h: str


class Struct(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What `core` uses."""

    a: int
    b: int
    c: str
    d: str
    e: int
    f: int
    g: str
    h: str


class Tuple(NamedTuple):
    """Immutable, but comparable with any tuple."""

    a: int
    b: int
    c: str
    d: str
    e: int
    f: int
    g: str
    h: str


KINDS: dict[str, Callable[..., object]] = {
    "frozen slotted dataclass": Frozen,
    "frozen msgspec Struct": Struct,
    "NamedTuple": Tuple,
}


def measure(kind: str, count: int) -> Row:
    """The best of seven rounds, as the noise of a shared machine only ever adds."""
    make = KINDS[kind]

    def one() -> object:
        return make(a=1, b=2, c="x", d="y", e=3, f=4, g="h", h="i")

    best_s = min(timeit.repeat(one, number=count, repeat=7))
    return {"kind": kind, "ns_each": round(best_s / count * 1e9)}


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    arguments = harness.quick_parser(__doc__, "fewer repetitions").parse_args()
    rows = [measure(kind, 10_000 if arguments.quick else 200_000) for kind in KINDS]
    harness.publish(NAME, rows, COLUMNS, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
