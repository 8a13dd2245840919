"""Recorded traces, read from the files that their authors publish.

Knows the formats. Ships none of the files: the folder is an argument. A file that does not hold
what its format says raises `ConfigError` with the file and the line.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from headway.errors import ConfigError
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload.arrivals import Arrivals, Phase, Piecewise, Poisson, Recorded, Uniform
from headway.workload.faults import located
from headway.workload.shapes import GapFamily, GapShape

__all__ = [
    "SERVEGEN_WINDOW_NS",
    "DisbTask",
    "FunctionLoad",
    "Trace",
    "TraceFormat",
    "load_arrivals",
    "load_disb",
    "load_faasrail",
    "load_servegen",
    "load_trace",
]

_T = TypeVar("_T")
SERVEGEN_WINDOW_NS: Final = 600 * NS_PER_S
_MINUTE_NS: Final = 60 * NS_PER_S
_MOONCAKE_BLOCK_TOKENS: Final = 512


class TraceFormat(StrEnum):
    """Whose recording it is, which says how to read it."""

    AZURE_LLM = "azure_llm"
    """Azure LLM inference 2023, CSV: TIMESTAMP, ContextTokens, GeneratedTokens."""
    AZURE_FUNCTIONS = "azure_functions"
    """Azure Functions 2021, CSV: app, func, end_timestamp, duration in seconds."""
    MOONCAKE = "mooncake"
    """Mooncake, JSON lines: timestamp in ms, input_length, output_length, hash_ids."""
    ORION = "orion"
    """Orion, one JSON array of gaps in seconds."""
    SERVEGEN = "servegen"
    """ServeGen, one client a CSV: a rate and a gap distribution for each ten minutes."""


class Trace(Struct, frozen=True):
    """Recorded arrivals; columns that the recording lacks are empty."""

    name: str
    at_ns: tuple[int, ...]
    """Ascending, the first at 0."""
    input_tokens: tuple[int, ...] = ()
    output_tokens: tuple[int, ...] = ()
    service_ns: tuple[int, ...] = ()
    prefix_keys: tuple[tuple[int, ...], ...] = ()
    """Of each prompt, a key a block of `prefix_block_tokens`: equal up to where prompts are."""
    prefix_block_tokens: int = 0

    def recorded(self, rate_rps: float | None = None) -> Recorded:
        """Its gaps as an arrival process; None keeps the recorded rate."""
        return Recorded.of_instants(self.at_ns, rate_rps)


class FunctionLoad(Struct, frozen=True):
    """How often one serverless function was called, and for how long it ran."""

    name: str
    service_mean_ns: int
    arrivals: Piecewise


class DisbTask(Struct, frozen=True):
    """One client of a DISB benchmark."""

    name: str
    model: str
    is_real_time: bool
    rows: int
    arrivals: Arrivals | None
    """None for a closed loop, which sends again as soon as it is answered."""


def load_trace(path: Path, trace_format: TraceFormat) -> Trace:
    """Read arrivals that were recorded one by one.

    Raises:
        ConfigError: the file is missing or is not of this format.
    """
    reader = _READERS.get(trace_format)
    if reader is None:
        message = f"`{trace_format}` records rates, not arrivals"
        raise ConfigError(message, path=str(path), value=str(trace_format))
    return reader(path)


def load_arrivals(
    path: Path,
    trace_format: TraceFormat,
    *,
    rate_rps: float | None = None,
    window_ns: int | None = None,
) -> Arrivals:
    """Read any format as an arrival process, scaled to a rate in the long run.

    Args:
        path: the file.
        trace_format: how to read it.
        rate_rps: None keeps the recorded rate.
        window_ns: how long a ServeGen window lasts here, to see two days drift by in minutes;
            None keeps its ten minutes.

    Raises:
        ConfigError: the file is missing, is not of this format, or has no arrivals to play.
    """
    with located(str(path)):
        if trace_format is not TraceFormat.SERVEGEN:
            return load_trace(path, trace_format).recorded(rate_rps)
        arrivals = load_servegen(path, window_ns=window_ns or SERVEGEN_WINDOW_NS)
        return arrivals if rate_rps is None else arrivals.scaled(rate_rps / arrivals.rate_rps)


def load_servegen(path: Path, *, window_ns: int = SERVEGEN_WINDOW_NS) -> Piecewise:
    """Read one ServeGen client: windows of ten minutes, each with its rate and shape of gaps.

    The rate column sets the mean; of the two fitted parameters only the first, the exponent, is
    used, because the second would state the mean again.
    """
    phases = []
    for where, row in _rows(path, columns=6):
        with located(where):
            rate_rps, family = float(row[1]), row[3].lower()
            shape = GapShape(GapFamily(family), float(row[4])) if rate_rps > 0 else GapShape()
            phases.append(Phase(window_ns, rate_rps, shape))
    with located(str(path)):
        return Piecewise(tuple(phases))


def load_faasrail(path: Path) -> list[FunctionLoad]:
    """Read a FaaSRail plan: a mean duration in ms and a count a minute, one function a line."""
    loads = []
    rows = _rows(path, columns=3)
    next(rows, None)
    for where, row in rows:
        with located(where):
            counts = [int(text) for text in row[2:]]
            if not any(counts):
                continue
            phases = tuple(Phase(_MINUTE_NS, count / 60) for count in counts)
            name = msgspec.json.decode(row[1], type=_FaasrailTarget).bench
            service_mean_ns = round(float(row[0]) * NS_PER_MS)
            loads.append(FunctionLoad(name, service_mean_ns, Piecewise(phases)))
    return loads


def load_disb(path: Path) -> list[DisbTask]:
    """Read a DISB benchmark: one task a client, periodic, Poisson or closed loop."""
    plan = _decode(path, _DisbPlan)
    tasks = []
    for index, task in enumerate(plan.tasks):
        with located(f"{path}: tasks[{index}]"):
            tasks.append(
                DisbTask(
                    name=task.id,
                    model=task.client.model_name,
                    is_real_time=task.load.priority == 0 or task.id.endswith("_rt"),
                    rows=task.client.batch_size,
                    arrivals=_disb_arrivals(task.load),
                )
            )
    return tasks


class _FaasrailTarget(Struct):
    bench: str


class _DisbLoad(Struct):
    type: str
    priority: int | None = None
    frequency: float = 0.0


class _DisbClient(Struct):
    model_name: str
    batch_size: int = 1


class _DisbEntry(Struct):
    id: str
    load: _DisbLoad
    client: _DisbClient


class _DisbPlan(Struct):
    tasks: list[_DisbEntry]


class _MooncakeLine(Struct):
    timestamp: int
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...] = ()


def _disb_arrivals(load: _DisbLoad) -> Arrivals | None:
    match load.type:
        case "periodic" | "uniform":
            return Uniform(load.frequency)
        case "poisson":
            return Poisson(load.frequency)
        case "continuous":
            return None
        case other:
            raise ValueError(f"unknown load type `{other}`")


def _azure_llm(path: Path) -> Trace:
    rows = _rows(path, columns=3)
    next(rows, None)
    lines = list(rows)
    with located(str(path)):
        stamps = np.array([row[0] for _, row in lines], dtype="datetime64[ns]")
        return _sorted_trace(
            path,
            stamps.astype(np.int64).tolist(),
            input_tokens=[int(row[1]) for _, row in lines],
            output_tokens=[int(row[2]) for _, row in lines],
        )


def _mooncake(path: Path) -> Trace:
    decoder = msgspec.json.Decoder(_MooncakeLine)
    lines = []
    for number, text in enumerate(_read(path).splitlines(), start=1):
        with located(f"{path}:{number}"):
            lines.append(decoder.decode(text))
    return _sorted_trace(
        path,
        [line.timestamp * NS_PER_MS for line in lines],
        input_tokens=[line.input_length for line in lines],
        output_tokens=[line.output_length for line in lines],
        prefix_keys=[line.hash_ids for line in lines],
    )


def _orion(path: Path) -> Trace:
    gaps = np.array(_decode(path, list[float]))  # (gap,) float64, seconds
    at_s = np.concatenate([[0.0], np.cumsum(gaps)])
    return _sorted_trace(path, np.rint(at_s * NS_PER_S).astype(np.int64).tolist())


def _azure_functions(path: Path) -> Trace:
    rows = _rows(path, columns=4)
    next(rows, None)
    at_ns, service_ns = [], []
    for where, row in rows:
        with located(where):
            end_s, service_s = float(row[2]), float(row[3])
            at_ns.append(round((end_s - service_s) * NS_PER_S))
            service_ns.append(round(service_s * NS_PER_S))
    return _sorted_trace(path, at_ns, service_ns=service_ns)


_READERS: Final[dict[TraceFormat, Callable[[Path], Trace]]] = {
    TraceFormat.AZURE_LLM: _azure_llm,
    TraceFormat.AZURE_FUNCTIONS: _azure_functions,
    TraceFormat.MOONCAKE: _mooncake,
    TraceFormat.ORION: _orion,
}


def _sorted_trace(
    path: Path,
    at_ns: Sequence[int],
    *,
    input_tokens: Sequence[int] = (),
    output_tokens: Sequence[int] = (),
    service_ns: Sequence[int] = (),
    prefix_keys: Sequence[tuple[int, ...]] = (),
) -> Trace:
    order = sorted(range(len(at_ns)), key=at_ns.__getitem__)
    origin_ns = at_ns[order[0]] if order else 0

    def arranged(column: Sequence[int]) -> tuple[int, ...]:
        return tuple(column[index] for index in order) if column else ()

    return Trace(
        name=path.stem,
        at_ns=tuple(at_ns[index] - origin_ns for index in order),
        input_tokens=arranged(input_tokens),
        output_tokens=arranged(output_tokens),
        service_ns=arranged(service_ns),
        prefix_keys=tuple(prefix_keys[index] for index in order) if prefix_keys else (),
        prefix_block_tokens=_MOONCAKE_BLOCK_TOKENS if prefix_keys else 0,
    )


def _rows(path: Path, *, columns: int) -> Iterator[tuple[str, list[str]]]:
    """Each line of a CSV file that is not empty, with where it stands."""
    for number, row in enumerate(csv.reader(_read(path).splitlines()), start=1):
        if not row:
            continue
        where = f"{path}:{number}"
        if len(row) < columns:
            message = f"`{where}` has {len(row)} columns, {columns} are needed"
            raise ConfigError(message, path=where, value=",".join(row))
        yield where, row


def _decode(path: Path, kind: type[_T]) -> _T:
    with located(str(path)):
        return msgspec.json.decode(_read(path), type=kind)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        hint = "traces are not part of headway; name the folder that holds them"
        message = f"cannot read the trace `{path}`: {error.strerror}"
        raise ConfigError(message, path=str(path), hint=hint) from error
