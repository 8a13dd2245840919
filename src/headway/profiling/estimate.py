"""A profile of a model that has never run: its graph under the machine's ceilings.

Knows graphs and ceilings. Refuses to pass for a measurement: its times say that they are of no run,
and whoever learns from there holds them loosely.
"""

from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from headway.core import DeviceName, ModelName
from headway.devices import Ceilings
from headway.errors import HeadwayError
from headway.executors import ModelSpec
from headway.predict import ModelProfile, SoloTime
from headway.profiling.graph import profile_from_graph
from headway.profiling.roofline import Roof, estimate_solo_ns

__all__ = ["can_count_graphs", "estimated_profile"]


def can_count_graphs() -> bool:
    """Whether the package that reads graphs is installed."""
    return find_spec("onnx") is not None


def estimated_profile(
    spec: ModelSpec, device: DeviceName, ceilings: Ceilings, *, rows_max: int
) -> ModelProfile:
    """Work and bytes counted in an ONNX graph, and from them times of one row and of the most.

    The median is `estimate_solo_ns`'s likely time, the 95th percentile its most, in nanoseconds.
    With n threads an execution gets n times one core's ceilings, at most those of all cores.

    Args:
        spec: an `onnx` model; its warm-up shapes close the axes that the graph leaves open.
        device: where it will run.
        ceilings: of this machine, as `headway calibrate` measured them.
        rows_max: the largest batch.

    Raises:
        HeadwayError: the graph cannot be read or followed, a shape is missing, or a ceiling is 0.
    """
    counted = profile_from_graph(
        Path(spec.path),
        model=ModelName(spec.name),
        device=device,
        shapes=dict(spec.warmup_shapes),
    )
    roof = _roof(ceilings, spec.options.get("intra_op_threads", 1))
    solo = []
    for rows in sorted({1, rows_max}):
        guess = estimate_solo_ns(counted, roof, rows)
        median_ns = max(1, guess.likely_ns)
        solo.append(
            SoloTime(rows=rows, median_ns=median_ns, p95_ns=max(median_ns, guess.most_ns), runs=0)
        )
    return replace(counted, solo=tuple(solo))


def _roof(ceilings: Ceilings, threads: object) -> Roof:
    """What one execution may reach."""
    share = threads if isinstance(threads, int) and threads > 1 else 1
    one, every = ceilings.one, ceilings.every
    try:
        return Roof(
            flop_per_s=min(share * one.flop_per_s, max(one.flop_per_s, every.flop_per_s)),
            bytes_per_s=min(share * one.bytes_per_s, max(one.bytes_per_s, every.bytes_per_s)),
        )
    except ValueError as error:
        raise HeadwayError(
            f"the calibration is of no use: {error}", hint="measure again: headway calibrate"
        ) from error
