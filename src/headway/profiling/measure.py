"""Measures one model on one core: solo times by batch size, bytes, memory, pressures.

Drives the worker pool as a server does. Knows what is measured and in which order; the stopping
rule is in `spread`, what probes mean in `probes`. Refuses to read a clock of its own, or files.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from headway.core import DeviceName, ModelName
from headway.executors import ModelSpec, Signature
from headway.predict import ModelProfile, SoloTime
from headway.profiling.bench import Bench, BenchLimits, benched
from headway.profiling.inputs import bucket_of, make_rows, row_shapes
from headway.profiling.probes import Probe, ProbeEffort, Request, pressures_of, probe
from headway.profiling.spread import Spread, StopRule, is_enough, spread_of
from headway.profiling.stressors import STRESSORS, Cores, Place, Stressor, open_stressor

__all__ = ["Measured", "Plan", "Step", "Subject", "measure"]

_WARMUP_RUNS: Final = 3
"""Of every size, not counted: the first grow buffers."""
_PROBE_NS_MIN: Final = 2_000_000
"""Probes run the smallest size that takes this long, so that the model is seldom between two."""


class Subject(NamedTuple):
    """A model and where it is measured."""

    spec: ModelSpec
    device: DeviceName
    cores: Cores
    limits: BenchLimits = BenchLimits()


class Plan(NamedTuple):
    """How it is measured."""

    rows: tuple[int, ...] = (1, 2, 4, 8)
    """Batch sizes, ascending; a model without a batch axis has the first only."""
    shapes: Mapping[str, Sequence[int]] = {}
    """Shape of one row by input, for those with free axes."""
    rule: StopRule = StopRule()
    probes: ProbeEffort | None = ProbeEffort()
    """None leaves them out."""
    array_bytes: int = 64 << 20
    """Of each array that a bandwidth stressor streams."""
    seed: int = 1
    """Of the inputs."""


class Step(NamedTuple):
    """Where a measurement stands."""

    done: int
    total: int
    words: str
    """What comes next."""


class Measured(Struct, frozen=True, kw_only=True):
    """What came out."""

    profile: ModelProfile
    shapes: dict[str, tuple[int, ...]] = {}
    """Of one row, by input."""
    probes: tuple[Probe, ...] = ()
    probe_rows: int = 0
    """Of the batches that were probed; 0 without probes."""
    doubts_ratio: tuple[float, ...] = ()
    """± of each solo median, as a part of it."""
    waited_ratio: float = 0.0
    """Part of the solo executions' time in which other programs had the core; the solo times are
    without it."""


class _Solo(NamedTuple):
    rows: int
    spread: Spread
    overhead_ns: int
    output_bytes: int
    execution_ns: int
    """Of all runs together, on the clock, ..."""
    waited_ns: int
    """... and what others had of it."""


def measure(
    subject: Subject,
    plan: Plan,
    now_ns: Callable[[], int],
    *,
    on_step: Callable[[Step], None] = lambda _step: None,
) -> Measured:
    """Load a model in a worker of its own, measure it, and end the worker.

    Args:
        subject: what to measure and where.
        plan: how.
        now_ns: a clock that never goes back.
        on_step: told before each batch size and each stressor.

    Raises:
        LoadError: the model cannot be loaded.
        ExecutorError: it raised, or took too long.
        HeadwayError: a free axis has no size, or a given shape does not fit.
    """
    import uvloop  # here, for a server's own loop is chosen by whoever starts it

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measured(subject, plan, now_ns, on_step))


async def _measured(
    subject: Subject, plan: Plan, now_ns: Callable[[], int], on_step: Callable[[Step], None]
) -> Measured:
    spec, cores = subject.spec, subject.cores
    given = {**spec.warmup_shapes, **plan.shapes}
    spec = replace(spec, warmup_shapes=given)
    async with benched(spec, subject.device, cores.own, now_ns, limits=subject.limits) as bench:
        shapes = row_shapes(bench.signature, given, spec.name)
        await bench.warm()
        requests = _requests(bench.signature, shapes, plan, spec.name)
        stressors = _stressors(plan, cores)
        total = len(requests) + len(stressors)
        solos: list[_Solo] = []
        for done, request in enumerate(requests):
            on_step(Step(done, total, f"rows {request.rows}"))
            solos.append(await _solo(bench, request, plan.rule))
        probed = _probed(requests, solos)
        probes: list[Probe] = []
        for done, stressor in enumerate(stressors, start=len(requests)):
            on_step(Step(done, total, f"beside {stressor.kind}"))
            with open_stressor(stressor, cores, plan.array_bytes) as burners:
                assert plan.probes is not None, "stressors are chosen for probes"
                effort = plan.probes
                probes.append(await probe(bench, probed, stressor, burners, effort, now_ns))
        on_step(Step(total, total, ""))
        profile = _profile(subject, bench.signature, shapes, requests[0], solos)
    return Measured(
        profile=replace(profile, pressures=pressures_of(probes)),
        shapes=shapes,
        probes=tuple(probes),
        probe_rows=probed.rows if probes else 0,
        doubts_ratio=tuple(solo.spread.doubt_ratio for solo in solos),
        waited_ratio=sum(s.waited_ns for s in solos) / max(1, sum(s.execution_ns for s in solos)),
    )


def _requests(
    signature: Signature, shapes: Mapping[str, Sequence[int]], plan: Plan, model: str
) -> list[Request]:
    sizes = plan.rows if signature.can_batch else (1,)
    chance = Random(f"{plan.seed}/{model}")
    return [Request(make_rows(signature, shapes, rows, chance), rows) for rows in sizes]


def _stressors(plan: Plan, cores: Cores) -> list[Stressor]:
    if plan.probes is None:
        return []
    return [s for s in STRESSORS if s.place is not Place.OTHER_CORES or cores.others]


async def _solo(bench: Bench, request: Request, rule: StopRule) -> _Solo:
    """Run one size until its median is known."""
    for _ in range(_WARMUP_RUNS):
        await bench.run(request.inputs, request.rows)
    times_ns: list[int] = []
    overheads_ns: list[int] = []
    execution_ns = waited_ns = 0
    look_at_runs = rule.runs_floor
    while True:
        timed = await bench.run(request.inputs, request.rows)
        times_ns.append(timed.solo_ns)
        overheads_ns.append(timed.overhead_ns)
        execution_ns += timed.execution_ns
        waited_ns += timed.waited_ns
        if len(times_ns) < look_at_runs:
            continue
        if is_enough(times_ns, rule):
            break
        look_at_runs = len(times_ns) + max(1, len(times_ns) // 10)
    return _Solo(
        rows=request.rows,
        spread=spread_of(times_ns),
        overhead_ns=_lower_quartile(overheads_ns),
        output_bytes=timed.output_bytes,
        execution_ns=execution_ns,
        waited_ns=waited_ns,
    )


def _lower_quartile(overheads_ns: Sequence[int]) -> int:
    """Of the way there and back, which other programs lengthen and nothing shortens."""
    return sorted(overheads_ns)[(len(overheads_ns) - 1) // 4]


def _probed(requests: Sequence[Request], solos: Sequence[_Solo]) -> Request:
    """The smallest size that takes long enough, else the largest."""
    pairs = zip(requests, solos, strict=True)
    long = (request for request, solo in pairs if solo.spread.median_ns >= _PROBE_NS_MIN)
    return next(long, requests[-1])


def _profile(
    subject: Subject,
    signature: Signature,
    shapes: Mapping[str, Sequence[int]],
    smallest: Request,
    solos: Sequence[_Solo],
) -> ModelProfile:
    input_bytes = sum(tensor.size_bytes for tensor in smallest.inputs)
    first = solos[0]
    return ModelProfile(
        model=ModelName(subject.spec.name),
        device=subject.device,
        bucket=bucket_of(signature, shapes),
        solo=tuple(
            SoloTime(
                rows=solo.rows,
                median_ns=solo.spread.median_ns,
                p95_ns=solo.spread.p95_ns,
                runs=solo.spread.runs,
            )
            for solo in solos
        ),
        transfer_in_bytes=input_bytes // smallest.rows,
        transfer_out_bytes=first.output_bytes // first.rows,
        memory_bytes=signature.memory_bytes,
        overhead_ns=first.overhead_ns,
    )
