"""A batch on the timeline: the slice that it is, what was predicted of it, and why it started.

Knows one batch, from its start to its end, and its members. Never what else runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headway.core import BatchFinished, Dispatch, Request
from headway.report.trace_events import Phase, TraceEvent, instant_us
from headway.units import NS_PER_MS

__all__ = ["BatchEnd", "Member", "RunningBatch", "batch_events"]

_MEMBERS_SHOWN_MAX: Final = 16
"""Of a batch, in its arguments; the others are counted."""


class BatchEnd(NamedTuple):
    """How a batch ended."""

    how: str
    stages: BatchFinished | None = None
    """With the times of its stages, where it has run."""
    error: str | None = None


class Member(NamedTuple):
    """A request of a batch whose arrival is known."""

    request: Request
    is_drawn: bool
    """Its arrival is on the timeline, so that an arrow can begin there."""


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
        "why",
    )

    def __init__(
        self,
        dispatch: Dispatch,
        started_at_ns: int,
        members: Sequence[Member],
        why: Mapping[str, object],
    ) -> None:
        self.dispatch = dispatch
        self.started_at_ns = started_at_ns
        self.members = members
        """Without those that arrived before the records began."""
        self.why = why
        """What led to its start, and who waited then."""
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
    batch: RunningBatch, end: BatchEnd, now_ns: int, *, pid: int, tid: int
) -> Iterator[TraceEvent]:
    """The slice, the arrows through it, why it started, and its bound beside it.

    In this order: an arrow goes through whatever slice was begun last on its thread.
    """
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
    for request, is_drawn in batch.members:
        if is_drawn:
            yield TraceEvent(
                ph=Phase.FLOW_STEP,
                name="request",
                category="request",
                flow=str(request.request_id),
                at_us=start_us,
                pid=pid,
                tid=tid,
            )
    yield TraceEvent(
        ph=Phase.INSTANT,
        name=f"starts: {batch.why['because']}",
        category="decision",
        at_us=start_us,
        pid=pid,
        tid=tid,
        scope="t",
        args=batch.why,
    )
    if batch.dispatch.bound_ns:
        yield from _bound(batch, pid)


def _bound(batch: RunningBatch, pid: int) -> Iterator[TraceEvent]:
    """What was expected and what was not to be exceeded.

    Spans, for they may reach into the next batch of the slot, which slices of a thread must not.
    """
    dispatch = batch.dispatch
    spans = (
        (Phase.SPAN_BEGIN, f"slot {dispatch.slot} bound", 0),
        (Phase.SPAN_BEGIN, "expected", 0),
        (Phase.SPAN_END, "expected", dispatch.expected_ns),
        (Phase.SPAN_END, f"slot {dispatch.slot} bound", dispatch.bound_ns),
    )
    for phase, name, after_ns in spans:
        args: dict[str, object] = {}
        if phase is Phase.SPAN_BEGIN:
            args = {"batch": dispatch.batch_id, "model": dispatch.model}
        yield TraceEvent(
            ph=phase,
            name=name,
            category="prediction",
            flow=str(dispatch.batch_id),
            at_us=instant_us(batch.started_at_ns + after_ns),
            pid=pid,
            args=args,
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
    requests = [member.request for member in batch.members]
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
    if len(requests) < len(dispatch.request_ids):
        args["arrived_before"] = len(dispatch.request_ids) - len(requests)
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
