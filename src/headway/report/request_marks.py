"""A request on the timeline: its arrival, its end, and the arrow from the one to the other.

Knows one request. Never a batch, nor what else waits.

An arrow is a flow: it starts at the mark of the arrival, goes through every batch that the request
was in, and ends at the mark of its reply, or of whatever else it ended with. A mark is a slice
without length, or an instant where there was no answer, named by the reason.
"""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import UNSET

from headway.core import (
    UNKNOWN,
    Cancel,
    Complete,
    Expire,
    ExpireReason,
    Fail,
    Reject,
    Request,
)
from headway.report.trace_events import Phase, TraceEvent, instant_us
from headway.units import NS_PER_MS

__all__ = ["Place", "arrival_events", "end_events", "unfinished_events"]


class Place(NamedTuple):
    """The thread that a request's marks are on."""

    pid: int
    tid: int


def arrival_events(request: Request, now_ns: int, place: Place) -> Iterator[TraceEvent]:
    """It came."""
    yield _mark(str(request.model), "arrival", now_ns, place, _args(request))
    yield _flow(Phase.FLOW_START, request, now_ns, place)


def end_events(
    request: Request,
    command: Complete | Reject | Expire | Cancel | Fail,
    now_ns: int,
    place: Place,
    *,
    is_flow: bool,
) -> Iterator[TraceEvent]:
    """It has ended: its reply, or why there is none."""
    args = _args(request) | _end_args(request, command, now_ns)
    if isinstance(command, Complete):
        is_late = now_ns > request.deadline_at_ns
        yield _mark("answered late" if is_late else "answered", "reply", now_ns, place, args)
    else:
        yield _instant(_end_name(command), now_ns, place, args)
    if is_flow:
        yield _flow(Phase.FLOW_END, request, now_ns, place)


def unfinished_events(request: Request, now_ns: int, place: Place) -> Iterator[TraceEvent]:
    """The records end while it waits or runs."""
    yield _instant("unfinished", now_ns, place, _args(request))
    yield _flow(Phase.FLOW_END, request, now_ns, place)


def _instant(name: str, now_ns: int, place: Place, args: dict[str, object]) -> TraceEvent:
    return TraceEvent(
        ph=Phase.INSTANT,
        name=name,
        category="end",
        at_us=instant_us(now_ns),
        pid=place.pid,
        tid=place.tid,
        scope="t",
        args=args,
    )


def _mark(
    name: str, category: str, now_ns: int, place: Place, args: dict[str, object]
) -> TraceEvent:
    return TraceEvent(
        ph=Phase.SLICE,
        name=name,
        category=category,
        at_us=instant_us(now_ns),
        length_us=0.0,
        pid=place.pid,
        tid=place.tid,
        args=args,
    )


def _flow(phase: Phase, request: Request, now_ns: int, place: Place) -> TraceEvent:
    return TraceEvent(
        ph=phase,
        name="request",
        category="request",
        flow=str(request.request_id),
        binds="e" if phase is Phase.FLOW_END else None,
        at_us=instant_us(now_ns),
        pid=place.pid,
        tid=place.tid,
    )


def _args(request: Request) -> dict[str, object]:
    args: dict[str, object] = {
        "request": request.request_id,
        "model": request.model,
        "rows": request.rows,
        "tenant": request.tenant,
        "budget_ms": request.budget_ns / NS_PER_MS,
    }
    if request.origin is not UNSET:
        args["pipeline_call"] = request.origin
    return args


def _end_args(
    request: Request, command: Complete | Reject | Expire | Cancel | Fail, now_ns: int
) -> dict[str, object]:
    """What it took, beside what was expected of it when it was let in."""
    took_ns = now_ns - request.arrived_at_ns
    args: dict[str, object] = {"after_ms": took_ns / NS_PER_MS}
    foreseen = command.foreseen if isinstance(command, Complete | Expire) else UNKNOWN
    if foreseen.bound_ns:
        args |= {
            "expected_ms": foreseen.mean_ns / NS_PER_MS,
            "bound_ms": foreseen.bound_ns / NS_PER_MS,
        }
    match command:
        case Complete():
            args |= {
                "queue_ms": command.queue_delay_ns / NS_PER_MS,
                "service_ms": command.service_ns / NS_PER_MS,
                "late_ms": max(0, took_ns - request.budget_ns) / NS_PER_MS,
            }
        case Reject():
            args |= {
                "reason": command.reason,
                "retry_after_ms": command.retry_after_ns / NS_PER_MS,
            }
        case Expire():
            args |= {"reason": command.reason, "stage": command.stage}
        case Cancel():
            args["stage"] = command.stage
        case Fail():
            args |= {"reason": command.code, "stage": command.stage, "error": command.message}
    return args


def _end_name(command: Reject | Expire | Cancel | Fail) -> str:
    match command:
        case Reject():
            return f"refused: {command.reason}"
        case Expire(reason=ExpireReason.DEADLINE_PAST):
            return f"expired while {command.stage}"
        case Expire():
            return f"given up: {command.reason}"
        case Cancel():
            return f"cancelled while {command.stage}"
        case Fail():
            return f"failed: {command.code}"
