"""The words of a scenario of a generating model, as plain structures.

Knows which fields there are and what may stand in each. Refuses to know what they mean together.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from headway.sim.words import Span
from headway.units import parse_bytes
from headway.workload import TraceFormat

__all__ = [
    "BurstsSpec",
    "ColocatedSpec",
    "DisaggregatedSpec",
    "EngineSpec",
    "GenerationSpec",
    "LayoutSpec",
    "LengthSpec",
    "OffloadSpec",
    "SchedulerName",
    "Size",
    "StepSpec",
    "TargetSpec",
    "TraceSpec",
]

_Count = Annotated[int, Meta(ge=1)]
_Whole = Annotated[int, Meta(ge=0)]
_Positive = Annotated[float, Meta(gt=0)]
SchedulerName = Literal["headway", "fcfs", "priority", "vtc"]


class Size:
    """A number of bytes, written as a string such as "24GiB"."""

    __slots__ = ("bytes",)

    def __init__(self, text: object) -> None:
        if not isinstance(text, str):
            raise ValueError(f'`{text}` is not a size such as "128KiB" or "24GiB"')  # noqa: TRY004 (msgspec adds the path to a ValueError only)
        self.bytes = parse_bytes(text)


class _Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every part shares: a field that is not known is refused."""


class StepSpec(_Spec, frozen=True):
    """How long a step takes, by what is in it."""

    base: Span
    prefill_token: Span
    """Of a token of prompt beyond the free ones."""
    context_token: Span = Span.of(0)
    """Of a token whose keys and values are read."""
    sequence: Span = Span.of(0)
    """Of a sequence that decodes."""
    free_tokens: _Whole = 0


class EngineSpec(_Spec, frozen=True):
    """One engine: a device with a copy of the model."""

    memory: Size
    weights: Size
    kv_token: Size
    """Keys and values of a token."""
    step: StepSpec
    reserve: Size = Size("1GiB")
    """Of the device's memory, for neither weights nor keys and values."""
    layers: _Count = 32
    block_tokens: _Count = 16
    sequences_max: _Count = 256
    step_tokens_max: _Count = 2_048


class TargetSpec(_Spec, frozen=True):
    """What a tier promises, and how many requests are of it."""

    priority: _Whole = 0
    ttft: Span | None = None
    tpot: Span | None = None
    part: _Count = 1
    """Of requests, relative to the other tiers."""
    gated: bool = False


class TraceSpec(_Spec, frozen=True, tag_field="kind", tag="trace"):
    """A stretch of a recorded trace."""

    trace: str
    format: TraceFormat
    count: _Count
    first: _Whole = 0
    speed: _Positive = 1.0
    output_tokens_max: _Count = 2_048


class LengthSpec(_Spec, frozen=True):
    """Lengths by a power law."""

    exponent: _Positive
    min: _Count
    max: _Count


class BurstsSpec(_Spec, frozen=True, tag_field="kind", tag="bursts"):
    """Requests in bursts, drawn; to be labelled generated."""

    rate_rps: _Positive
    count: _Count
    cv: Annotated[float, Meta(ge=0)] = 3.0
    window: Span = Span.of(20_000_000_000)
    window_cv: Annotated[float, Meta(ge=0)] = 0.6
    prompt: LengthSpec = LengthSpec(exponent=0.7, min=64, max=8_192)
    output: LengthSpec = LengthSpec(exponent=0.7, min=16, max=1_024)
    output_tokens_max: _Count = 2_048


class ColocatedSpec(_Spec, frozen=True, tag_field="kind", tag="colocated"):
    """Every engine does all of a request."""

    engines: _Count
    scheduler: SchedulerName | None = None
    step_tokens: _Count | None = None


class DisaggregatedSpec(_Spec, frozen=True, tag_field="kind", tag="disaggregated"):
    """Some engines for prompts, some for answers."""

    prefill: _Count
    decode: _Count
    link: Size
    """Bytes a second that come to an engine."""
    latency: Span = Span.of(0)
    scheduler: SchedulerName | None = None
    step_tokens: _Count | None = None


class OffloadSpec(_Spec, frozen=True, tag_field="kind", tag="offload"):
    """Engines with layers on their hosts."""

    engines: _Count
    host_layers: _Count
    link: Size
    """Bytes a second from host to device."""
    scheduler: SchedulerName | None = None
    step_tokens: _Count | None = None


LayoutSpec = ColocatedSpec | DisaggregatedSpec | OffloadSpec


class GenerationSpec(_Spec, frozen=True):
    """A scenario file."""

    engine: EngineSpec
    tiers: Annotated[dict[str, dict[str, Any]], Meta(min_length=1)]
    """Each a `TargetSpec`; read one by one, so that a mistake is named with its tier."""
    requests: TraceSpec | BurstsSpec
    layouts: dict[str, dict[str, Any]] = {}
    """Each a `LayoutSpec`, likewise."""
    scheduler: SchedulerName = "headway"
    step_tokens: _Count = 2_048
    """Of `fcfs`, `priority` and `vtc`, the budget of every step."""
    seed: _Whole = 0
