"""What a device did, span by span: of Nsight Systems' SQLite file, or a trace of torch's profiler.

Knows names of tables and columns, and of a Chrome trace's keys; torch is not needed to read one.
Totals by kernel are `nsight_systems.py`'s. What a file has beyond two million spans or events is
left out.

A trace holds its instants in microseconds as decimal numbers. The allocator's view is in it where
it was recorded with `profile_memory=True`: what tensors hold, and what is reserved for them.
"""

import gzip
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from headway.errors import ConfigError, HeadwayError
from headway.profiling.nsight import Direction

__all__ = ["AllocatorPoint", "CopySpan", "DeviceActivity", "DeviceSpan", "read_activity"]

_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_SPANS_MAX: Final = 2_000_000
_TRACE_BYTES_MAX: Final = 1 << 30
"""Of a trace when it is unpacked."""
_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_KINDS: Final = {1: Direction.HOST_TO_DEVICE, 2: Direction.DEVICE_TO_HOST}
"""CUPTI's, of the copies over the link; the others stay on one side."""
_WORDS: Final = {"htod": Direction.HOST_TO_DEVICE, "dtoh": Direction.DEVICE_TO_HOST}
_CUDA: Final = 1
"""torch's number for devices of that kind, in memory events."""


class DeviceSpan(NamedTuple):
    """Something ran from here to there, by the profiler's clock."""

    start_ns: int
    end_ns: int


class CopySpan(NamedTuple):
    """A copy."""

    start_ns: int
    end_ns: int
    direction: Direction
    size_bytes: int


class AllocatorPoint(NamedTuple):
    """What the allocator of a device says at an instant."""

    at_ns: int
    allocated_bytes: int
    """Held by tensors."""
    reserved_bytes: int
    """Taken from the device, for tensors now or later."""


class DeviceActivity(Struct, frozen=True, kw_only=True):
    """What one file says; each in order of its beginnings."""

    file: str
    kernels: tuple[DeviceSpan, ...] = ()
    copies: tuple[CopySpan, ...] = ()
    memory: tuple[AllocatorPoint, ...] = ()
    """Of the device that most of its memory events are about."""


def read_activity(path: Path) -> DeviceActivity | None:
    """Spans of a SQLite file of Nsight Systems or of a Chrome trace; None for any other file.

    Raises:
        ConfigError: the file cannot be read.
        HeadwayError: it is of either kind, and broken.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_MAGIC))
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror}", value=str(path)) from error
    if head == _SQLITE_MAGIC:
        return _of_sqlite(path)
    if head[:1] in {b"{", b"["} or head[:2] == _GZIP_MAGIC:
        return _of_chrome(path)
    return None


# --- Nsight Systems -------------------------------------------------------------------------------


def _of_sqlite(path: Path) -> DeviceActivity:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA query_only = ON")
            kernel_rows = _rows(database, _KERNELS, ("start", "end"))
            copy_rows = _rows(database, _MEMCPY, ("start", "end", "copyKind", "bytes"))
        kernels = [DeviceSpan(int(start), int(end)) for start, end in kernel_rows]
        copies = [
            CopySpan(int(start), int(end), _KINDS.get(kind, Direction.OTHER), int(size_bytes))
            for start, end, kind, size_bytes in copy_rows
        ]
    except (sqlite3.Error, TypeError, ValueError) as error:
        raise HeadwayError(
            f"`{path}` is no export of Nsight Systems: {error}",
            hint="`nsys export -t sqlite run.nsys-rep` writes one",
        ) from error
    return DeviceActivity(file=path.name, kernels=tuple(kernels), copies=tuple(copies))


def _rows(
    database: sqlite3.Connection, table: str, columns: tuple[str, ...]
) -> list[tuple[Any, ...]]:
    """Nothing where the table was never made: there was nothing to put into it."""
    known = {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}
    if not set(columns) <= known:
        return []
    names = ", ".join(f'"{column}"' for column in columns)
    query = f"SELECT {names} FROM {table} ORDER BY start LIMIT {_SPANS_MAX}"  # noqa: S608 - our own words
    return database.execute(query).fetchall()


# --- torch's profiler -----------------------------------------------------------------------------


def _of_chrome(path: Path) -> DeviceActivity | None:
    try:
        document = msgspec.json.decode(_unpacked(path))
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        raise HeadwayError(
            f"`{path}` is no Chrome trace: {error}",
            hint="`prof.export_chrome_trace(path)` of torch's profiler writes one",
        ) from error
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        return None
    try:
        activity = _of_events(path, events)
    except (OverflowError, TypeError, ValueError) as error:
        raise HeadwayError(f"`{path}` has an event that is broken: {error}") from error
    if not (activity.kernels or activity.copies or activity.memory):
        # Such as a trace of cores alone; nothing was looked at, and that is not health.
        raise HeadwayError(
            f"`{path}` has no kernel, no copy and nothing of an allocator",
            hint="have torch's profiler trace `ProfilerActivity.CUDA`, with `profile_memory=True`",
        )
    return activity


def _of_events(path: Path, events: Sequence[object]) -> DeviceActivity:
    kernels, copies = [], []
    memory: dict[object, list[AllocatorPoint]] = {}
    for event in events[:_SPANS_MAX]:
        if not isinstance(event, dict):
            continue
        category, args = event.get("cat"), event.get("args")
        args = args if isinstance(args, dict) else {}
        if category == "kernel":
            kernels.append(DeviceSpan(*_span_of(event)))
        elif category == "gpu_memcpy":
            direction = _direction(str(event.get("name", "")))
            copies.append(CopySpan(*_span_of(event), direction, int(args.get("bytes", 0))))
        elif event.get("name") == "[memory]" and args.get("Device Type") == _CUDA:
            memory.setdefault(args.get("Device Id"), []).append(_point_of(event, args))
    points = max(memory.values(), key=len, default=[])
    return DeviceActivity(
        file=path.name,
        kernels=tuple(sorted(kernels)),
        copies=tuple(sorted(copies)),
        memory=tuple(sorted(points)),
    )


def _unpacked(path: Path) -> bytes:
    with path.open("rb") as file:
        is_packed = file.read(2) == _GZIP_MAGIC
    with gzip.open(path) if is_packed else path.open("rb") as stream:
        data = stream.read(_TRACE_BYTES_MAX + 1)
    if len(data) > _TRACE_BYTES_MAX:
        raise HeadwayError(f"`{path}` is larger than a trace should be", hint="trace less time")
    return data


def _span_of(event: Mapping[str, Any]) -> tuple[int, int]:
    start_ns = _ns(event.get("ts"))
    return start_ns, start_ns + _ns(event.get("dur"))


def _ns(value: object) -> int:
    """Of microseconds, which some versions write as text."""
    try:
        return round(float(str(value)) * 1_000)
    except ValueError:
        return 0


def _direction(name: str) -> Direction:
    """Of `Memcpy HtoD (Pageable -> Device)`."""
    word = name.lower()
    return next((found for part, found in _WORDS.items() if part in word), Direction.OTHER)


def _point_of(event: Mapping[str, Any], args: Mapping[str, Any]) -> AllocatorPoint:
    return AllocatorPoint(
        _ns(event.get("ts")),
        int(args.get("Total Allocated", 0)),
        int(args.get("Total Reserved", 0)),
    )
