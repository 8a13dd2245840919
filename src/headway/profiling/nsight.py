"""What Nvidia's profilers measured, in one form whichever of them wrote the file.

Knows totals by kernel and by direction of copies, and how to read numbers and tables from text that
has other text around it. Refuses to know models: `nsight_compute.py` and `nsight_systems.py` each
read one profiler's files.
"""

import csv
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from msgspec import Struct

from headway.errors import ConfigError, HeadwayError

__all__ = [
    "Copies",
    "Direction",
    "KernelTotal",
    "Line",
    "NsightProfile",
    "number_of",
    "refuse",
    "rows_of",
    "unit_size",
]

_LINES_MAX: Final = 4_000_000
_LINE_CHARS_MAX: Final = 1 << 20
_UNITS: Final[Mapping[str, float]] = {
    "": 1,
    "%": 1,
    "inst": 1,
    "b": 1,
    "byte": 1,
    "kb": 1e3,
    "kbyte": 1e3,
    "mb": 1e6,
    "mbyte": 1e6,
    "gb": 1e9,
    "gbyte": 1e9,
    "tb": 1e12,
    "tbyte": 1e12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "ns": 1,
    "nsecond": 1,
    "us": 1e3,
    "usecond": 1e3,
    "ms": 1e6,
    "msecond": 1e6,
    "s": 1e9,
    "second": 1e9,
    "sec": 1e9,
}
"""Bytes and nanoseconds in a unit, as the profilers write it."""


class Direction(StrEnum):
    """Where a copy goes."""

    HOST_TO_DEVICE = "host_to_device"
    DEVICE_TO_HOST = "device_to_host"
    DEVICE_TO_DEVICE = "device_to_device"
    PEER_TO_PEER = "peer_to_peer"
    HOST_TO_HOST = "host_to_host"
    SET = "set"
    """Memory filled with one value."""
    OTHER = "other"


class KernelTotal(Struct, frozen=True, kw_only=True):
    """All runs of one kernel; what was not recorded is None."""

    name: str
    runs: int
    time_ns: float | None = None
    flop: float | None = None
    """Without tensor cores' own."""
    traffic_bytes: float | None = None
    """Between the device and its memory."""
    has_tensor_cores: bool = False
    """It used them, so `flop` is too low."""


class Copies(Struct, frozen=True, kw_only=True):
    """All copies in one direction; what was not recorded is None."""

    direction: Direction
    count: int
    time_ns: float | None = None
    size_bytes: float | None = None


class NsightProfile(Struct, frozen=True, kw_only=True):
    """What one file says."""

    file: str
    kernels: tuple[KernelTotal, ...] = ()
    """The one that took longest first."""
    copies: tuple[Copies, ...] = ()

    @property
    def time_ns(self) -> float | None:
        """Of all kernels; None where a kernel's is not known."""
        return _total([kernel.time_ns for kernel in self.kernels])

    @property
    def flop(self) -> float | None:
        """Of all kernels; None where a kernel's is not known, or too low for its tensor cores."""
        has_tensor_cores = any(kernel.has_tensor_cores for kernel in self.kernels)
        return None if has_tensor_cores else _total([kernel.flop for kernel in self.kernels])

    @property
    def traffic_bytes(self) -> float | None:
        """Of all kernels; None where a kernel's is not known."""
        return _total([kernel.traffic_bytes for kernel in self.kernels])


class Line(NamedTuple):
    """One row of a table and where it stands."""

    number: int
    cells: list[str]


def rows_of(path: Path) -> Iterator[Line]:
    """Every line of a text file, split as CSV; an empty line has no cells.

    Raises:
        ConfigError: the file cannot be read.
        HeadwayError: it is longer than any profile, or a line is.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            number = 0
            while text := file.readline(_LINE_CHARS_MAX):
                number += 1
                if number > _LINES_MAX or len(text) == _LINE_CHARS_MAX:
                    refuse(path, number, "is longer than any profile", "is it the right file?")
                yield Line(number, _cells(text))
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror}", value=str(path)) from error


def _cells(text: str) -> list[str]:
    """One line's cells; what is no CSV, such as a program's own output, is one cell."""
    text = text.strip("\r\n\0")
    if not text.strip():
        return []
    try:
        rows = list(csv.reader([text.replace("\r", " ")], strict=True, skipinitialspace=True))
    except csv.Error:
        return [text]
    return [cell.strip() for cell in rows[0]] if rows else []


def number_of(path: Path, line: int, column: str, text: str) -> float | None:
    """A number with or without thousands separators; None for `n/a` and nothing.

    Raises:
        HeadwayError: it is no number, is negative, or is not finite.
    """
    plain = (
        text.replace(",", "")
        .replace("\N{NO-BREAK SPACE}", "")
        .replace("\N{NARROW NO-BREAK SPACE}", "")
        .strip()
    )
    if plain.lower() in ("", "n/a", "na", "nan", "-", "null", "none"):
        return None
    try:
        value = float(plain)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        refuse(path, line, f"has `{text}` as `{column}`, which is no amount", _EXPORT_AGAIN)
    return value


def unit_size(path: Path, line: int, unit: str) -> float:
    """Bytes or nanoseconds in a unit.

    Raises:
        HeadwayError: an unknown unit.
    """
    size = _UNITS.get(unit.strip().lower())
    if size is None:
        refuse(
            path, line, f"has the unit `{unit}`, which is not known", "export with default units"
        )
    return size


_EXPORT_AGAIN: Final = "export the file again, in English and without editing it"


def refuse(path: Path, line: int | None, what: str, hint: str) -> NoReturn:
    """Say what is wrong with a file, where, and what to do.

    Raises:
        HeadwayError: always.
    """
    where = f"`{path}`" if line is None else f"`{path}`, line {line},"
    raise HeadwayError(f"{where} {what}", hint=hint)


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
