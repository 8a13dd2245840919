"""A batch on the timeline: the slice that it is, and the arrows that lead to it.

Knows one batch, from its start to its end, and its members. Never what else runs.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headway.core import BatchFinished, Dispatch, Request
from headway.report.trace_events import Phase, TraceEvent, instant_us
from headway.units import NS_PER_MS

__all__ = ["BatchEnd", "RunningBatch", "batch_events"]

_MEMBERS_SHOWN_MAX: Final = 16
"""Of a batch; the others are counted."""


class BatchEnd(NamedTuple):
    """How a batch ended."""

    how: str
    stages: BatchFinished | None = None
    """With the times of its stages, where it has run."""
    error: str | None = None


class RunningBatch:
    """A batch that runs, and what has become of its members so far."""

    __slots__ = (
        "dispatch",
        "early_count",
        "is_abandoned",
        "late_count",
        "members",
        "met_count",
        "started_at_ns",
    )

    def __init__(
        self, dispatch: Dispatch, started_at_ns: int, members: Sequence[tuple[Request, int]]
    ) -> None:
        self.dispatch = dispatch
        self.started_at_ns = started_at_ns
        self.members = members
        """With the thread on which each has its mark."""
        self.met_count = 0
        self.late_count = 0
        self.early_count = 0
        """Members that ended without an answer while it ran."""
        self.is_abandoned = False
        """Nobody waits for it any more."""

    def count_end(self, *, is_answered: bool, is_met: bool) -> None:
        """A member has ended."""
        if not is_answered:
            self.early_count += 1
        elif is_met:
            self.met_count += 1
        else:
            self.late_count += 1


def batch_events(
    batch: RunningBatch, end: BatchEnd, now_ns: int, *, pid: int, tid: int, requests_pid: int
) -> Iterator[TraceEvent]:
    """The slice, then an arrow from each member's arrival to it."""
    start_us = instant_us(batch.started_at_ns)
    yield TraceEvent(
        ph=Phase.SLICE,
        name=_name(batch, end),
        category=str(batch.dispatch.slot_class),
        at_us=start_us,
        length_us=instant_us(now_ns - batch.started_at_ns),
        pid=pid,
        tid=tid,
        args=_args(batch, end, now_ns),
    )
    for request, row_tid in batch.members[:_MEMBERS_SHOWN_MAX]:
        flow = f"{request.request_id}.{batch.dispatch.batch_id}"
        yield TraceEvent(
            ph=Phase.FLOW_START,
            name="waits",
            category="flow",
            flow=flow,
            at_us=instant_us(request.arrived_at_ns),
            pid=requests_pid,
            tid=row_tid,
        )
        yield TraceEvent(
            ph=Phase.FLOW_END,
            name="waits",
            category="flow",
            flow=flow,
            binds="e",
            at_us=start_us,
            pid=pid,
            tid=tid,
        )


def _name(batch: RunningBatch, end: BatchEnd) -> str:
    """The model, and what is wrong: viewers choose the colour by the name."""
    model = str(batch.dispatch.model)
    if end.how != "finished":
        return f"{model}, {end.how}"
    if batch.is_abandoned:
        return f"{model}, abandoned"
    return f"{model}, late" if batch.late_count else model


def _args(batch: RunningBatch, end: BatchEnd, now_ns: int) -> dict[str, object]:
    dispatch = batch.dispatch
    requests = [request for request, _ in batch.members]
    shown = list(dispatch.request_ids[:_MEMBERS_SHOWN_MAX])
    args: dict[str, object] = {
        "batch": dispatch.batch_id,
        "model": dispatch.model,
        "rows": dispatch.rows,
        "slot_class": dispatch.slot_class,
        "requests": shown,
        "requests_count": len(dispatch.request_ids),
        "outcome": end.how,
        "met": batch.met_count,
        "late": batch.late_count,
        "ended_early": batch.early_count,
    }
    if requests:
        args["tiers"] = sorted({str(request.tier) for request in requests})
        args["priority"] = min(request.priority for request in requests)
        waited_ns = batch.started_at_ns - min(request.arrived_at_ns for request in requests)
        left_ns = min(request.deadline_at_ns for request in requests) - batch.started_at_ns
        args |= {"waited_ms_max": waited_ns / NS_PER_MS, "left_ms_min": left_ns / NS_PER_MS}
    if dispatch.is_segment:
        args["first_row"] = dispatch.first_row
    if end.error is not None:
        args["error"] = end.error
    return args | _times(batch, end, now_ns)


def _times(batch: RunningBatch, end: BatchEnd, now_ns: int) -> dict[str, object]:
    """What was predicted beside what it took."""
    actual_ns = now_ns - batch.started_at_ns
    times: dict[str, object] = {"actual_ms": actual_ns / NS_PER_MS}
    if batch.dispatch.bound_ns:
        expected_ns, bound_ns = batch.dispatch.expected_ns, batch.dispatch.bound_ns
        times |= {"expected_ms": expected_ns / NS_PER_MS, "bound_ms": bound_ns / NS_PER_MS}
        if end.how == "finished" and actual_ns:
            times["error_ratio"] = round((expected_ns - actual_ns) / actual_ns, 4)
            times["is_within_bound"] = actual_ns <= bound_ns
    stages = end.stages
    if stages is not None and stages.execution_ns:
        times |= {
            "transfer_in_ms": stages.transfer_in_ns / NS_PER_MS,
            "execution_ms": stages.execution_ns / NS_PER_MS,
            "transfer_out_ms": stages.transfer_out_ns / NS_PER_MS,
        }
    return times
