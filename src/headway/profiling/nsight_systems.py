"""Nsight Systems' totals: CSV of `nsys stats`, or the SQLite file of `nsys export`.

Knows names of columns, reports and tables, old and new. Never a column's place.

A CSV file may hold several reports, one after the other, with words between them. Sizes in CSV are
rounded to a thousandth of a megabyte, which is taken for 10^6 bytes; the SQLite file has them
exactly. Its tables are only there if something was recorded for them.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from headway.errors import ConfigError, HeadwayError
from headway.profiling.nsight import (
    Copies,
    Direction,
    KernelTotal,
    Line,
    NsightProfile,
    number_of,
    refuse,
    rows_of,
    unit_size,
)

__all__ = ["read_nsys"]

_SQLITE_MAGIC: Final = b"SQLite format 3\0"
_TOTAL: Final = re.compile(r"Total(?: Time)? \((\w+)\)")
_HINT: Final = (
    "record with `nsys profile -t cuda -o run PROGRAM`, then `nsys stats -r cuda_gpu_kern_sum,"
    "cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum -f csv run.nsys-rep > run.csv`, or "
    "`nsys export -t sqlite run.nsys-rep`"
)
_KINDS: Final = {
    1: Direction.HOST_TO_DEVICE,
    2: Direction.DEVICE_TO_HOST,
    3: Direction.HOST_TO_DEVICE,
    4: Direction.DEVICE_TO_HOST,
    5: Direction.DEVICE_TO_DEVICE,
    6: Direction.DEVICE_TO_DEVICE,
    7: Direction.DEVICE_TO_DEVICE,
    8: Direction.DEVICE_TO_DEVICE,
    9: Direction.HOST_TO_HOST,
    10: Direction.PEER_TO_PEER,
}
"""CUPTI's kinds of copies; arrays of textures are on the device."""
_WORDS: Final = (
    ("memset", Direction.SET),
    ("htod", Direction.HOST_TO_DEVICE),
    ("dtoh", Direction.DEVICE_TO_HOST),
    ("dtod", Direction.DEVICE_TO_DEVICE),
    ("htoh", Direction.HOST_TO_HOST),
    ("ptop", Direction.PEER_TO_PEER),
)
_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"


class _Sums:
    """Totals of the rows that were read so far."""

    def __init__(self) -> None:
        self.has_table = False
        self.kernels: dict[str, tuple[int, float]] = {}
        self.counts: dict[Direction, int] = {}
        self.times_ns: dict[Direction, float] = {}
        self.sizes_bytes: dict[Direction, float] = {}

    def add_kernel(self, name: str, runs: int, time_ns: float) -> None:
        before = self.kernels.get(name, (0, 0.0))
        self.kernels[name] = (before[0] + runs, before[1] + time_ns)

    def profile(self, file: str) -> NsightProfile:
        kernels = [
            KernelTotal(name=name, runs=runs, time_ns=time_ns)
            for name, (runs, time_ns) in self.kernels.items()
        ]
        copies = [
            Copies(
                direction=direction,
                count=count,
                time_ns=self.times_ns.get(direction),
                size_bytes=self.sizes_bytes.get(direction),
            )
            for direction, count in self.counts.items()
        ]
        return NsightProfile(
            file=file,
            kernels=tuple(sorted(kernels, key=lambda kernel: -(kernel.time_ns or 0.0))),
            copies=tuple(sorted(copies, key=lambda each: each.direction)),
        )


def read_nsys(path: Path) -> NsightProfile:
    """Totals by kernel and by direction of copies, out of a CSV or a SQLite file.

    Raises:
        ConfigError: the file cannot be read.
        HeadwayError: nothing of a GPU is in it, or a line of it makes no sense.
    """
    try:
        with path.open("rb") as file:
            is_sqlite = file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror}", value=str(path)) from error
    return _read_sqlite(path) if is_sqlite else _read_csv(path)


# --- CSV ------------------------------------------------------------------------------------------


def _read_csv(path: Path) -> NsightProfile:
    sums = _Sums()
    header: Line | None = None
    counted: set[Direction] = set()
    for row in rows_of(path):
        if _is_header(row.cells):
            header, counted = row, set()
        elif not row.cells:
            header = None  # an empty line ends a report
        elif header is not None and len(row.cells) == len(header.cells):
            _take(path, header, row, sums, counted)
        elif header is not None and len(row.cells) > 2:
            what = f"has {len(row.cells)} cells under {len(header.cells)} columns"
            refuse(path, row.number, what, "the file was cut or edited: export it again")
    if not sums.has_table:
        refuse(path, None, "has no report of kernels or copies", _HINT)
    return sums.profile(path.name)


def _is_header(cells: list[str]) -> bool:
    return any(_TOTAL.fullmatch(cell) for cell in cells) and bool(
        {"Instances", "Count", "Operations", "Num Calls"} & set(cells)
    )


def _take(path: Path, header: Line, row: Line, sums: _Sums, counted: set[Direction]) -> None:
    """One row of a report of kernels, of copies' times or of copies' sizes; others are ignored."""
    cells = dict(zip(header.cells, row.cells, strict=True))
    column = next(cell for cell in header.cells if _TOTAL.fullmatch(cell))
    name = cells.get("Name", cells.get("Operation"))
    count_column = next((c for c in ("Instances", "Count", "Operations") if c in cells), None)
    if name is None or count_column is None or "Range" in cells:
        return
    sums.has_table = True
    amount = number_of(path, row.number, column, cells[column])
    count = int(number_of(path, row.number, count_column, cells[count_column]) or 0)
    if amount is None:
        return
    unit = _TOTAL.fullmatch(column)
    amount *= unit_size(path, header.number, unit[1] if unit else "")
    direction = _direction(name)
    if direction is None:
        if column.startswith("Total Time"):
            sums.add_kernel(name, count, amount)
        return
    totals = sums.times_ns if column.startswith("Total Time") else sums.sizes_bytes
    totals[direction] = totals.get(direction, 0.0) + amount
    # Two reports list the same copies; two lines of one report are different ones.
    before = sums.counts.get(direction, 0) if direction in counted else 0
    sums.counts[direction] = max(sums.counts.get(direction, 0), before + count)
    counted.add(direction)


def _direction(name: str) -> Direction | None:
    """Of `[CUDA memcpy Host-to-Device]`, in older versions `[CUDA memcpy HtoD]`; None: a kernel."""
    if not name.lower().startswith(("[cuda mem", "cuda mem")):
        return None
    word = name.lower().replace("host", "h").replace("device", "d").replace("peer", "p")
    word = word.replace("-", "").replace("unified ", "")
    return next((direction for part, direction in _WORDS if part in word), Direction.OTHER)


# --- SQLite ---------------------------------------------------------------------------------------


def _read_sqlite(path: Path) -> NsightProfile:
    sums = _Sums()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA query_only = ON")
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            for name, runs, time_ns in _kernels(database):
                sums.add_kernel(name, runs, time_ns)
            for direction, count, time_ns, size_bytes in _copies(database):
                sums.counts[direction] = sums.counts.get(direction, 0) + count
                sums.times_ns[direction] = sums.times_ns.get(direction, 0.0) + time_ns
                sums.sizes_bytes[direction] = sums.sizes_bytes.get(direction, 0.0) + size_bytes
    except (sqlite3.Error, UnicodeDecodeError) as error:  # names in it may be anything
        raise HeadwayError(
            f"`{path}` is no export of Nsight Systems: {error}", hint=_HINT
        ) from error
    if not sums.kernels and not sums.counts:
        refuse(path, None, "holds no kernel and no copy", _HINT)
    return sums.profile(path.name)


def _kernels(database: sqlite3.Connection) -> Iterator[tuple[str, int, float]]:
    columns = _columns(database, _KERNELS)
    named = next((c for c in ("demangledName", "shortName", "mangledName") if c in columns), None)
    if not {"start", "end"} <= columns:
        return
    has_names = named is not None and {"id", "value"} <= _columns(database, "StringIds")
    name = "StringIds.value" if has_names else "NULL"
    join = f"LEFT JOIN StringIds ON StringIds.id = kernels.{named}" if has_names else ""
    query = (
        f"SELECT {name}, COUNT(*), TOTAL(MAX(0, kernels.end - kernels.start)) "  # noqa: S608 - our own words
        f"FROM {_KERNELS} AS kernels {join} GROUP BY 1"
    )
    for text, runs, time_ns in database.execute(query):
        yield (
            str(text) if text is not None else "a kernel without a name",
            int(runs),
            float(time_ns),
        )


def _copies(database: sqlite3.Connection) -> Iterator[tuple[Direction, int, float, float]]:
    for table, kind in ((_MEMCPY, "copyKind"), (_MEMSET, "NULL")):
        columns = _columns(database, table)
        if not {"start", "end", "bytes"} <= columns or (kind != "NULL" and kind not in columns):
            continue
        query = (
            f"SELECT {kind}, COUNT(*), TOTAL(MAX(0, end - start)), TOTAL(MAX(0, bytes)) "  # noqa: S608 - our own words
            f"FROM {table} GROUP BY 1"
        )
        for number, count, time_ns, size_bytes in database.execute(query):
            direction = _KINDS.get(number, Direction.OTHER) if table == _MEMCPY else Direction.SET
            yield direction, int(count), float(time_ns), float(size_bytes)


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    """A table's columns; none where the table was never made."""
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}
