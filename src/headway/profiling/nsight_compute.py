"""Nsight Compute's `--csv`: counters of every kernel, in any of its three layouts.

Knows names of columns and metrics. Never a column's place: it differs between versions.

* the long form, a line for each kernel and metric (`--csv`);
* the raw page, a column for each metric and a line of units (`--csv --page raw`);
* the summary, a line for each kernel and metric over all its runs (`--print-summary per-kernel`).

FLOP = fadd + fmul + 2 * ffma, and the same of half (`h`) and double (`d`) precision, from
`sm(sp)__sass_thread_inst_executed_op_*_pred_on.sum`. Tensor cores do not appear in those counters,
and the names of their own vary by architecture: a kernel that used them is marked, and its FLOP are
not called complete. Kernels are run several times over to be counted, under locked clocks: the
times are those of the kernels alone, and no measure of the service.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from headway.profiling.nsight import (
    KernelTotal,
    Line,
    NsightProfile,
    number_of,
    refuse,
    rows_of,
    unit_size,
)

__all__ = ["read_ncu"]

_OPERATION: Final = re.compile(
    r"(?:sm|smsp)__sass_thread_inst_executed_op_([fhd])(add|mul|fma)_pred_on\.sum"
)
_TENSOR: Final = re.compile(r"(?:sm|smsp)__(?:inst_executed_pipe_tensor|ops_path_tensor)\w*\.sum")
_TIMES: Final = ("gpu__time_duration.sum", "gpu__time_duration_measured_user.sum", "Duration")
_TRAFFIC: Final = ("dram__bytes.sum",)
_TRAFFIC_PARTS: Final = ("dram__bytes_read.sum", "dram__bytes_write.sum")
_HINT: Final = (
    "record with `ncu --csv --page raw --metrics gpu__time_duration.sum,dram__bytes.sum,"
    "regex:sass_thread_inst_executed_op_[fhd](add|mul|fma)_pred_on.sum PROGRAM`"
)

_Key = tuple[str, str]


class _Kernel:
    """Metrics of one run of a kernel, or of all in a summary."""

    __slots__ = ("metrics", "name", "runs")

    def __init__(self, name: str, runs: int) -> None:
        self.name = name
        self.runs = runs
        self.metrics: dict[str, float] = {}


def read_ncu(path: Path) -> NsightProfile:
    """Totals by kernel out of a CSV file.

    Raises:
        ConfigError: the file cannot be read.
        HeadwayError: it has no table of kernels, or a line of it that makes no sense.
    """
    rows = rows_of(path)
    header = next((row for row in rows if "Kernel Name" in row.cells), None)
    if header is None:
        refuse(path, None, "has no table of kernels: no line has a column `Kernel Name`", _HINT)
    if "Metric Name" in header.cells:
        kernels = _long_form(path, header, rows)
    else:
        kernels = _raw_page(path, header, rows)
    if not any(kernel.metrics for kernel in kernels.values()):
        refuse(path, header.number, "begins a table without a metric that is of use", _HINT)
    return NsightProfile(file=path.name, kernels=_totals(list(kernels.values())))


def _table(path: Path, header: Line, rows: Iterator[Line]) -> Iterator[tuple[int, dict[str, str]]]:
    """Lines of the table; other programs' output between them is passed over."""
    width = len(header.cells)
    for row in rows:
        first = row.cells[0] if row.cells else ""
        if not row.cells or first.startswith("==") or row.cells == header.cells:
            continue
        if len(row.cells) != width:
            if len(row.cells) > 2 and first.isdigit():
                what = f"has {len(row.cells)} cells under {width} columns"
                refuse(path, row.number, what, "the file was cut or edited: export it again")
            continue
        yield row.number, dict(zip(header.cells, row.cells, strict=True))


def _long_form(path: Path, header: Line, rows: Iterator[Line]) -> dict[_Key, _Kernel]:
    value_column = "Metric Value" if "Metric Value" in header.cells else "Average"
    if value_column not in header.cells:
        refuse(path, header.number, "has metrics but no column `Metric Value`", _HINT)
    kernels: dict[_Key, _Kernel] = {}
    for number, row in _table(path, header, rows):
        runs = number_of(path, number, "Invocations", row.get("Invocations", "1"))
        key = (row.get("Process ID", ""), row["ID"] if "ID" in row else row["Kernel Name"])
        kernel = kernels.setdefault(key, _Kernel(row["Kernel Name"], int(runs or 0)))
        scale = kernel.runs if value_column == "Average" else 1
        metric, unit = row["Metric Name"], row.get("Metric Unit", "")
        _take(path, number, kernel, metric, unit, row[value_column], scale)
    return kernels


def _raw_page(path: Path, header: Line, rows: Iterator[Line]) -> dict[_Key, _Kernel]:
    if "ID" not in header.cells:
        refuse(path, header.number, "has a table of kernels without a column `ID`", _HINT)
    kernels: dict[_Key, _Kernel] = {}
    units: Mapping[str, str] = {}
    for number, row in _table(path, header, rows):
        if not row["ID"]:
            units = row
            continue
        key = (row.get("Process ID", ""), row["ID"])
        kernel = kernels.setdefault(key, _Kernel(row["Kernel Name"], 1))
        for column, text in row.items():
            _take(path, number, kernel, column, units.get(column, ""), text, 1)
    return kernels


def _take(
    path: Path, line: int, kernel: _Kernel, metric: str, unit: str, text: str, scale: int
) -> None:
    """Keep a metric that is of use; sections repeat some, with the same value."""
    known = metric in (*_TIMES, *_TRAFFIC, *_TRAFFIC_PARTS)
    if not known and not _OPERATION.fullmatch(metric) and not _TENSOR.fullmatch(metric):
        return
    value = number_of(path, line, metric, text)
    if value is not None:
        kernel.metrics[metric] = value * scale * (unit_size(path, line, unit) if known else 1)


# --- totals ---------------------------------------------------------------------------------------


def _totals(kernels: list[_Kernel]) -> tuple[KernelTotal, ...]:
    by_name: dict[str, list[_Kernel]] = {}
    for kernel in kernels:
        by_name.setdefault(kernel.name, []).append(kernel)
    totals = [
        KernelTotal(
            name=name,
            runs=sum(kernel.runs for kernel in group),
            time_ns=_sum([_first(kernel.metrics, _TIMES) for kernel in group]),
            flop=_sum([_flop(kernel.metrics) for kernel in group]),
            traffic_bytes=_sum([_traffic_bytes(kernel.metrics) for kernel in group]),
            has_tensor_cores=any(_has_tensor_cores(kernel.metrics) for kernel in group),
        )
        for name, group in by_name.items()
    ]
    return tuple(sorted(totals, key=lambda total: -(total.time_ns or 0.0)))


def _flop(metrics: Mapping[str, float]) -> float | None:
    """The same counter of `sm` and of its parts `smsp` counts once."""
    counts: dict[str, float] = {}
    for metric, value in metrics.items():
        if match := _OPERATION.fullmatch(metric):
            operation = match[1] + match[2]
            counts[operation] = max(counts.get(operation, 0.0), value)
    weighed = (count * (2 if name.endswith("fma") else 1) for name, count in counts.items())
    return sum(weighed) if counts else None


def _traffic_bytes(metrics: Mapping[str, float]) -> float | None:
    whole = _first(metrics, _TRAFFIC)
    return _sum([metrics.get(part) for part in _TRAFFIC_PARTS]) if whole is None else whole


def _has_tensor_cores(metrics: Mapping[str, float]) -> bool:
    return any(value > 0 for metric, value in metrics.items() if _TENSOR.fullmatch(metric))


def _first(metrics: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    return next((metrics[name] for name in names if name in metrics), None)


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
