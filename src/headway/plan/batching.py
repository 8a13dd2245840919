"""What batches are worth: time, throughput and the load that keeps the deadline, by batch size.

Knows one model in one kind of slice. A larger batch serves more rows a second, and takes longer, so
that less of the budget is left to wait in. The best size is the smallest that comes near the
highest rate which still keeps the objective, or costs hardly more of a slice's time at the rate
there is; it is what seats are reckoned with (`seats`).
"""

from collections.abc import Mapping

from msgspec import Struct

from headway.plan.cuts import Cut, times_there
from headway.plan.demand import ModelDemand
from headway.plan.seats import (
    Refusal,
    batch_sizes,
    fill_ns,
    rate_max_rps,
    seat_terms,
)
from headway.units import NS_PER_S

__all__ = ["BatchPoint", "batching_curve"]


class BatchPoint(Struct, frozen=True, kw_only=True):
    """One batch size."""

    rows: int
    batch_ns: int
    rows_per_s: float
    """Of batches one after another."""
    gain: float
    """Rows a second over those of batches of one request."""
    memory_bytes: int
    """Weights, process and rows."""
    fits: bool
    """In the slice's memory."""
    rate_max_rps: float
    """Requests a second that keep the objective; 0 where none does."""
    fill_ns: int
    """That a batch takes to come together at the rate of one portion of the model's load."""
    is_best: bool
    assumed: str
    """What the times rest on; empty where they were measured there."""


def batching_curve(model: ModelDemand, cut: Cut, speeds: Mapping[str, float]) -> list[BatchPoint]:
    """Every size that is worth a look, ascending; none where no times are known."""
    times = times_there(model, cut, speeds)
    if times is None:
        return []
    terms = seat_terms(model, cut, speeds)
    best_rows = None if isinstance(terms, Refusal) else terms.batch_rows
    fixed_bytes = model.weights_bytes // model.gang_devices + model.overhead_bytes
    first_ns = times.profile.service_ns(model.request_rows)
    points = []
    for rows in batch_sizes(model, times.profile):
        batch_ns = times.profile.service_ns(rows)
        rate = rate_max_rps(model, rows, times.profile)
        memory_bytes = fixed_bytes + model.row_bytes * rows
        points.append(
            BatchPoint(
                rows=rows,
                batch_ns=batch_ns,
                rows_per_s=rows * NS_PER_S / batch_ns,
                gain=(rows / batch_ns) / (model.request_rows / first_ns),
                memory_bytes=memory_bytes,
                fits=memory_bytes <= cut.memory_bytes,
                rate_max_rps=rate,
                fill_ns=fill_ns(model, rows, times.profile),
                is_best=rows == best_rows,
                assumed=times.assumed,
            )
        )
    return points
