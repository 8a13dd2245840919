"""An `InferEstimate` as what JSON encodes: would the request be admitted, and what would it take.

Times are milliseconds, to the nanosecond; what is not known is null. Pure.
"""

from msgspec import Struct

from headway.core import Forecast
from headway.runtime import InferEstimate
from headway.units import NS_PER_MS

__all__ = ["EstimateBody", "estimate_body"]


class EstimateParts(Struct, frozen=True):
    """The terms that the expected time is the sum of."""

    queue: float
    overhead: float
    base: float
    transfer: float
    interference: float


class EstimateMeets(Struct, frozen=True):
    """Whether the deadline would be met in the expected time, and within the bound."""

    expected: bool | None
    bound: bool | None


class EstimateBody(Struct, frozen=True, kw_only=True):
    """The answer of `POST /v2/models/M/estimate`."""

    model_name: str
    model_version: str
    admitted: bool
    reason: str | None
    """Why it would be refused, in the words of a refusal."""
    retry_after_ms: int | None
    is_known: bool
    """Whether there is a prediction; without one the four that follow hold nulls."""
    expected_ms: float | None
    bound_ms: float | None
    parts_ms: EstimateParts | None
    will_meet_deadline: EstimateMeets
    deadline_ms: float
    """Its budget: how long after its arrival the answer would be due."""
    limit: str
    """What set the budget."""
    tier: str


def estimate_body(estimate: InferEstimate) -> EstimateBody:
    """What a client is told of an estimate."""
    foreseen = estimate.foreseen
    is_known = estimate.is_known
    return EstimateBody(
        model_name=estimate.model,
        model_version=estimate.version,
        admitted=estimate.reason is None,
        reason=estimate.reason,
        retry_after_ms=-(-estimate.retry_after_ns // NS_PER_MS) or None,
        is_known=is_known,
        expected_ms=_ms(foreseen.mean_ns) if is_known else None,
        bound_ms=_ms(foreseen.bound_ns) if is_known else None,
        parts_ms=_parts(foreseen) if is_known else None,
        will_meet_deadline=EstimateMeets(
            expected=estimate.will_meet_deadline(foreseen.mean_ns),
            bound=estimate.will_meet_deadline(foreseen.bound_ns),
        ),
        deadline_ms=estimate.budget_ns / NS_PER_MS,
        limit=estimate.budget_source,
        tier=estimate.tier,
    )


def _parts(foreseen: Forecast) -> EstimateParts:
    return EstimateParts(
        queue=_ms(foreseen.queue_ns),
        overhead=_ms(foreseen.overhead_ns),
        base=_ms(foreseen.base_ns),
        transfer=_ms(foreseen.transfer_ns),
        interference=_ms(foreseen.interference_ns),
    )


def _ms(duration_ns: int) -> float:
    return duration_ns / NS_PER_MS
