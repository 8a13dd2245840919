"""Workloads as people write them: plain dicts, durations as "20s", faults with their path.

Knows the words of a workload file and builds the objects. Never reads the file itself.

    duration: 60s
    seed: 7
    streams:
      - {model: ocr, tier: batch, arrivals: {kind: poisson, rate_rps: 12}}
      - model: speech
        tier: live
        budget: 200ms
        rows: {kind: uniform, min: 1, max: 4}
        arrivals: {kind: on_off, rate_on_rps: 80, on: 2s, off: 5s}
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from headway.core import ModelName, TenantId, TierName
from headway.errors import ConfigError
from headway.units import parse_duration_ns
from headway.workload.arrivals import (
    Arrivals,
    Gamma,
    OnOff,
    Phase,
    Piecewise,
    Poisson,
    Recorded,
    Uniform,
)
from headway.workload.faults import located
from headway.workload.rows import FixedRows, Rows, UniformRows, WeightedRows
from headway.workload.shapes import GapShape
from headway.workload.streams import Stream, Workload
from headway.workload.traces import TraceFormat, load_arrivals

__all__ = ["StreamSpec", "WorkloadSpec", "workload_from_dict"]

_RATE = Annotated[float, Meta(gt=0)]
_RATE_OR_NONE = Annotated[float, Meta(ge=0)]
_CV = Annotated[float, Meta(ge=0)]
_COUNT = Annotated[int, Meta(ge=1)]


class Span:
    """A length of time, written as a string such as "250ms"."""

    __slots__ = ("ns",)

    def __init__(self, text: object) -> None:
        if not isinstance(text, str):
            raise ValueError(f'`{text}` is not a duration such as "250ms", "1.5s" or "2m"')  # noqa: TRY004 (msgspec adds the path to a ValueError only)
        self.ns = parse_duration_ns(text)


class _Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every part of a workload file shares: a field that is not known is refused."""


class PoissonSpec(_Spec, frozen=True, tag_field="kind", tag="poisson"):
    """Independent arrivals."""

    rate_rps: _RATE

    def build(self, traces: Path | None) -> Arrivals:
        """The process itself."""
        return Poisson(self.rate_rps)


class GammaSpec(_Spec, frozen=True, tag_field="kind", tag="gamma"):
    """Gaps with a given coefficient of variation."""

    rate_rps: _RATE
    cv: _CV

    def build(self, traces: Path | None) -> Arrivals:
        """The process itself."""
        return Gamma(self.rate_rps, self.cv)


class UniformSpec(_Spec, frozen=True, tag_field="kind", tag="uniform"):
    """Equal gaps."""

    rate_rps: _RATE

    def build(self, traces: Path | None) -> Arrivals:
        """The process itself."""
        return Uniform(self.rate_rps)


class OnOffSpec(_Spec, frozen=True, tag_field="kind", tag="on_off"):
    """Bursts and pauses in turn."""

    rate_on_rps: _RATE
    on: Span
    off: Span
    rate_off_rps: _RATE_OR_NONE = 0.0
    are_lengths_random: bool = False
    cv: _CV = 1.0

    def build(self, traces: Path | None) -> Arrivals:
        """The process itself."""
        return OnOff(
            self.rate_on_rps,
            self.on.ns,
            self.off.ns,
            self.rate_off_rps,
            self.are_lengths_random,
            GapShape.of_cv(self.cv),
        )


class PhaseSpec(_Spec, frozen=True):
    """A stretch of time at one rate."""

    duration: Span
    rate_rps: _RATE_OR_NONE


class PiecewiseSpec(_Spec, frozen=True, tag_field="kind", tag="piecewise"):
    """A schedule of rates, repeated."""

    phases: Annotated[list[PhaseSpec], Meta(min_length=1)]
    cv: _CV = 1.0

    def build(self, traces: Path | None) -> Arrivals:
        """The process itself."""
        shape = GapShape.of_cv(self.cv)
        return Piecewise(
            tuple(Phase(phase.duration.ns, phase.rate_rps, shape) for phase in self.phases)
        )


class RecordedSpec(_Spec, frozen=True, tag_field="kind", tag="recorded"):
    """A recorded trace, stretched to a rate and repeated."""

    trace: str
    """File, from the folder of traces."""
    format: TraceFormat
    rate_rps: _RATE | None = None
    """None keeps the recorded rate."""
    is_rotated: bool = False
    """Each seed starts at another place of the recording."""
    window: Span | None = None
    """How long a window of a ServeGen file lasts here; None keeps its ten minutes."""

    def build(self, traces: Path | None) -> Arrivals:
        """The process itself."""
        if traces is None:
            hint = "name the folder that holds the recorded traces"
            raise ConfigError(f"no folder to read the trace `{self.trace}` from", hint=hint)
        arrivals = load_arrivals(
            traces / self.trace,
            self.format,
            rate_rps=self.rate_rps,
            window_ns=self.window.ns if self.window else None,
        )
        if isinstance(arrivals, Recorded):
            return msgspec.structs.replace(arrivals, is_rotated=self.is_rotated)
        return arrivals


class UniformRowsSpec(_Spec, frozen=True, tag_field="kind", tag="uniform"):
    """Every count between two bounds alike."""

    min: _COUNT
    max: _COUNT

    def build(self) -> Rows:
        """The distribution itself."""
        return UniformRows(self.min, self.max)


class WeightedRowsSpec(_Spec, frozen=True, tag_field="kind", tag="weighted"):
    """Counts with weights, e.g. `{1: 8, 16: 1}`."""

    weights: Annotated[dict[_COUNT, _RATE], Meta(min_length=1)]

    def build(self) -> Rows:
        """The distribution itself."""
        return WeightedRows(tuple(sorted(self.weights.items())))


class StreamSpec(_Spec, frozen=True):
    """One stream of a workload file."""

    model: str
    tier: str
    arrivals: PoissonSpec | GammaSpec | UniformSpec | OnOffSpec | PiecewiseSpec | RecordedSpec
    tenant: str = "default"
    rows: _COUNT | UniformRowsSpec | WeightedRowsSpec = 1
    budget: Span | None = None
    priority: Annotated[int, Meta(ge=0)] | None = None
    start: Span | None = None
    stop: Span | None = None

    def build(self, traces: Path | None) -> Stream:
        """The stream itself."""
        return Stream(
            model=ModelName(self.model),
            tier=TierName(self.tier),
            tenant=TenantId(self.tenant),
            arrivals=self.arrivals.build(traces),
            rows=FixedRows(self.rows) if isinstance(self.rows, int) else self.rows.build(),
            budget_ns=self.budget.ns if self.budget else None,
            priority=self.priority,
            start_at_ns=self.start.ns if self.start else 0,
            stop_at_ns=self.stop.ns if self.stop else None,
        )


class WorkloadSpec(_Spec, frozen=True):
    """A workload file."""

    duration: Span
    streams: Annotated[list[StreamSpec], Meta(min_length=1)]
    seed: int = 0

    def build(self, traces: Path | None) -> Workload:
        """The workload itself.

        Raises:
            ConfigError: values that are fine alone and wrong together.
        """
        streams = []
        for index, spec in enumerate(self.streams):
            with located(f"streams[{index}]"):
                streams.append(spec.build(traces))
        with located("duration"):
            return Workload(streams=tuple(streams), duration_ns=self.duration.ns, seed=self.seed)


def workload_from_dict(data: Mapping[str, object], *, traces: Path | None = None) -> Workload:
    """Build a workload from plain values, as YAML or JSON give them.

    Args:
        data: see the module's example.
        traces: folder that the `trace` of a recorded stream is relative to.

    Raises:
        ConfigError: with the path of the wrong value and the value.
    """
    try:
        spec = msgspec.convert(data, WorkloadSpec, dec_hook=_decode, str_keys=True)
    except msgspec.ValidationError as error:
        raise _explained(error, data) from error
    return spec.build(traces)


_PLACE: Final = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`$")
_STEP: Final = re.compile(r"\[(?P<index>\d+)\]|(?P<name>[^.\[\]]+)")
_HINTS: Final = {
    "kind": "arrivals are poisson, gamma, uniform, on_off, piecewise or recorded; "
    "rows a number, uniform or weighted",
    "format": "formats are " + ", ".join(TraceFormat),
}


def _decode(kind: type, value: object) -> object:
    if kind is Span:
        return Span(value)
    raise NotImplementedError(kind)


def _explained(error: msgspec.ValidationError, data: object) -> ConfigError:
    """Take the path out of msgspec's message and look up the value that stands there."""
    text = str(error)
    place = _PLACE.search(text)
    path = place["path"] if place else ""
    value: object = data
    for step in _STEP.finditer(path):
        key = int(step["index"]) if step["index"] else step["name"]
        try:
            value = value[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            value = None
            break
    what = text[: place.start()] if place else text
    shown = f" (it is `{value}`)" if path and not isinstance(value, Mapping | list) else ""
    hint = _HINTS.get(path.rpartition(".")[2])
    return ConfigError(f"`{path or 'workload'}`: {what}{shown}", path=path, value=value, hint=hint)
