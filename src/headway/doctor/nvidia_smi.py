"""What `nvidia-smi` wrote down, read back as readings: one for each instant.

Knows two of its CSV forms, told apart by their columns: `--query-gpu=timestamp,...` and
`--query-compute-apps=timestamp,...`, with units or without. Columns that were not asked for are
unknown; so is what a device could not tell, which the program writes in square brackets.
"""

import csv
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from headway.devices import THROTTLE_BITS, DeviceProcess, DeviceReading
from headway.doctor.readings import Reading
from headway.errors import ConfigError, HeadwayError
from headway.units import NS_PER_S

__all__ = ["read_nvidia_smi"]

_ROWS_MAX: Final = 500_000
_INSTANT: Final = "%Y/%m/%d %H:%M:%S.%f"
"""Of the machine's own time zone."""
_UNITS: Final[Mapping[str, int]] = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MEMORY_UNIT: Final = "MiB"
"""Without units the program counts memory in these, as its column says."""
_NEAR_NS: Final = 2 * NS_PER_S
"""Processes and devices are asked by two commands, which look at slightly different instants."""
_REASON_NAMES: Final[Mapping[str, str]] = {
    "applications_clocks_setting": "applications_clocks",
    "sw_power_cap": "sw_power_cap",
    "hw_slowdown": "hw_slowdown",
    "sync_boost": "sync_boost",
    "sw_thermal_slowdown": "sw_thermal",
    "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake_slowdown": "hw_power_brake",
}
_REASON_PREFIXES: Final = ("clocks_event_reasons.", "clocks_throttle_reasons.")
"""Of newer and of older versions."""
_IS_ACTIVE: Final = "Active"
_Row = Mapping[str, str]


class _App(NamedTuple):
    """A process that holds memory of a device."""

    at_ns: int
    device: str
    pid: int
    used_bytes: int | None


def read_nvidia_smi(paths: Sequence[Path]) -> tuple[Reading, ...]:
    """Readings out of one or several files, in order of their instants.

    Raises:
        ConfigError: a file cannot be read.
        HeadwayError: it is none of those that are known here.
    """
    devices: dict[int, list[DeviceReading]] = {}
    uuids: dict[str, str] = {}
    apps: list[_App] = []
    for path in paths:
        for row in _rows(path):
            at_ns = _instant(row, path)
            if "pid" in row:
                used_bytes = _bytes(row, "used_gpu_memory", "used_memory")
                apps.append(_App(at_ns, row.get("gpu_uuid", ""), _pid(row, path), used_bytes))
            else:
                device = _device(row)
                devices.setdefault(at_ns, []).append(device)
                uuids[row.get("uuid", "") or row.get("gpu_uuid", "")] = device.name
    instants = _joined(devices) if devices else {app.at_ns: {} for app in apps}
    looks = sorted(instants)
    for app in apps:
        nearest_ns = _nearest(looks, app.at_ns)
        if nearest_ns is not None:
            _place(app, uuids, instants[nearest_ns])
    return tuple(
        Reading(at_ns=at_ns, devices=tuple(found.values()))
        for at_ns, found in sorted(instants.items())
    )


def _joined(devices: Mapping[int, Sequence[DeviceReading]]) -> dict[int, dict[str, DeviceReading]]:
    """Rows of one look, each of which has an instant of its own some milliseconds on."""
    instants: dict[int, dict[str, DeviceReading]] = {}
    last_ns: int | None = None
    for at_ns in sorted(devices):
        for device in devices[at_ns]:
            if last_ns is None or device.name in instants[last_ns]:
                last_ns = at_ns
                instants[last_ns] = {}
            instants[last_ns][device.name] = device
    return instants


def _nearest(looks: Sequence[int], at_ns: int) -> int | None:
    """None where none is near."""
    index = bisect_left(looks, at_ns)
    near = [each for each in looks[max(0, index - 1) : index + 1] if abs(each - at_ns) <= _NEAR_NS]
    return min(near, key=lambda each: abs(each - at_ns), default=None)


def _place(app: _App, uuids: Mapping[str, str], found: dict[str, DeviceReading]) -> None:
    """Into a look at its device; without a name that is known it is the only one's."""
    only = next(iter(found)) if len(found) == 1 else app.device or "gpu"
    name = uuids.get(app.device, only)
    device = found.get(name, DeviceReading(name=name))
    process = DeviceProcess(app.pid, app.used_bytes)
    found[name] = replace(device, processes=(*device.processes, process))


def _rows(path: Path) -> Iterator[_Row]:
    """Each line by its columns' names, without the units in their heads."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            lines = csv.reader(file, skipinitialspace=True)
            head = [cell.strip() for cell in next(lines, [])]
            names = [cell.partition(" [")[0] for cell in head]
            if "timestamp" not in names:
                raise HeadwayError(
                    f"`{path}` is no CSV of nvidia-smi with instants",
                    hint="`nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used,"
                    "memory.total,clocks_event_reasons.active --format=csv -l 1` writes one",
                )
            for number, cells in enumerate(lines):
                # The last line may be cut short, where the program was stopped.
                if number < _ROWS_MAX and len(cells) == len(names):
                    yield dict(zip(names, (cell.strip() for cell in cells), strict=True))
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror}", value=str(path)) from error
    except csv.Error as error:
        raise HeadwayError(f"`{path}` is no CSV of nvidia-smi: {error}") from error


def _device(row: _Row) -> DeviceReading:
    reasons = _reasons(row)
    name = row.get("index") or row.get("uuid") or row.get("pci.bus_id") or ""
    return DeviceReading(
        name=f"cuda:{name}" if name.isdecimal() else name or "gpu",
        utilization_ratio=_ratio(row, "utilization.gpu"),
        memory_used_bytes=_bytes(row, "memory.used"),
        memory_total_bytes=_bytes(row, "memory.total"),
        pcie_width=_whole(row, "pcie.link.width.current"),
        pcie_width_max=_whole(row, "pcie.link.width.max"),
        pcie_generation=_whole(row, "pcie.link.gen.current", "pcie.link.gen.gpucurrent"),
        pcie_generation_max=_whole(row, "pcie.link.gen.max"),
        can_tell_throttling=reasons is not None,
        throttle_reasons=tuple(reasons or ()),
    )


def _reasons(row: _Row) -> list[str] | None:
    """By the mask of all of them, or by a column each; None where neither was asked for."""
    told = {
        column.removeprefix(prefix): value
        for column, value in row.items()
        for prefix in _REASON_PREFIXES
        if column.startswith(prefix) and not value.startswith("[")
    }
    mask = told.pop("active", "")
    try:
        bits = int(mask, 16) if mask else None
    except ValueError:
        bits = None
    if bits is not None:
        return [name for name, bit in THROTTLE_BITS.items() if bits & bit]
    known = {name: told[column] for column, name in _REASON_NAMES.items() if column in told}
    return [name for name, value in known.items() if value == _IS_ACTIVE] if known else None


def _number(row: _Row, *columns: str) -> tuple[float, str] | None:
    """The first of these columns that holds a number, with its unit."""
    for column in columns:
        value, _, unit = row.get(column, "").partition(" ")
        try:
            return float(value), unit.strip()
        except ValueError:
            continue
    return None


def _ratio(row: _Row, column: str) -> float | None:
    found = _number(row, column)
    return None if found is None else min(1.0, found[0] / 100)


def _bytes(row: _Row, *columns: str) -> int | None:
    found = _number(row, *columns)
    if found is None:
        return None
    value, unit = found
    return round(value * _UNITS.get(unit or _MEMORY_UNIT, 1))


def _whole(row: _Row, *columns: str) -> int | None:
    found = _number(row, *columns)
    return None if found is None else int(found[0])


def _pid(row: _Row, path: Path) -> int:
    text = row["pid"]
    if not text.isdecimal():
        raise HeadwayError(f"`{path}` has the process `{text[:50]}`", hint="a number is expected")
    return int(text)


def _instant(row: _Row, path: Path) -> int:
    text = row["timestamp"]
    try:
        return round(datetime.strptime(text, _INSTANT).astimezone().timestamp() * NS_PER_S)
    except ValueError as error:
        raise HeadwayError(
            f"`{path}` has the instant `{text[:50]}`", hint="as 2026/11/30 12:00:00.000"
        ) from error
