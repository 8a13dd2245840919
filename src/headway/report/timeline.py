"""A run as a timeline: kernel steps in, trace events out, for Perfetto.

Knows Records, devices and the trace event format. Never a policy, and never a clock.

A process a device, with a thread a slot, in the order of its lanes; a slice a batch. One more
process holds the requests: a thread a class, on which each request is a mark when it arrives and
another one if it ends without an answer; an arrow leads from its arrival to the batches that ran
it. Counters say what waits in each class and how many batches run on each device.

A batch is drawn when it has ended, for only then is it known who was answered in time. What is held
meanwhile is what waits or runs, so the size of a journal does not matter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Cancel,
    CancelBatch,
    Command,
    Complete,
    DeviceName,
    DeviceParams,
    Dispatch,
    Event,
    Expire,
    ExpireReason,
    Fail,
    KeepSegment,
    Record,
    Reject,
    ReplicasLost,
    Request,
    RequestArrived,
    RequestId,
    SlotClass,
)
from headway.report.batch_slices import BatchEnd, RunningBatch, batch_events
from headway.report.trace_events import Phase, TraceEvent, TraceFile, instant_us
from headway.units import NS_PER_MS

__all__ = ["Timeline", "TimelineObserver", "Window", "write_timeline"]

_REQUESTS_PID: Final = 1
_DEVICES_PID: Final = 2
"""Of the first device; the others follow."""
_TIDS: Final = 1_000
"""Threads of a process begin at its number times this, so that no two are alike."""
_CLASSES_MAX: Final = 32
"""A client may choose its priority; classes beyond so many are drawn as one."""

_Ended = Complete | Reject | Expire | Cancel | Fail


class Window(NamedTuple):
    """The part of a run that is drawn; a batch that is in it at all is drawn whole."""

    from_ns: int = 0
    to_ns: int | None = None
    """None for the end of the run."""

    def has(self, at_ns: int) -> bool:
        """An instant is in it."""
        return self.overlaps(at_ns, at_ns)

    def overlaps(self, start_ns: int, end_ns: int) -> bool:
        """Some of a span is in it."""
        return end_ns >= self.from_ns and (self.to_ns is None or start_ns < self.to_ns)


class _Live:
    """A request that waits or runs."""

    __slots__ = ("batch_id", "request", "row")

    def __init__(self, request: Request, row: "_Class") -> None:
        self.request = request
        self.row = row
        self.batch_id: BatchId | None = None
        """Where it runs; None while it waits."""


class _Class:
    """Requests of one tier and priority: a thread of marks and a line of the counter."""

    __slots__ = ("is_named", "name", "tid", "waiting")

    def __init__(self, name: str, tid: int) -> None:
        self.name = name
        self.tid = tid
        self.is_named = False
        self.waiting = 0


class _Device:
    """A device's process and what runs on it."""

    __slots__ = ("params", "pid", "running")

    def __init__(self, params: DeviceParams, pid: int) -> None:
        self.params = params
        self.pid = pid
        self.running = dict.fromkeys(SlotClass, 0)

    def tid(self, slot: int) -> int:
        """Of a slot's thread."""
        return self.pid * _TIDS + 1 + slot


class Timeline:
    """Turns steps into events, one step after another.

    Invariants: slices of one thread never overlap, for a slot runs one batch at a time; a counter
    is written only when it has changed.
    """

    def __init__(self, devices: Iterable[DeviceParams], window: Window | None = None) -> None:
        self._window = window or Window()
        self._devices: dict[DeviceName, _Device] = {
            params.name: _Device(params, _DEVICES_PID + index)
            for index, params in enumerate(devices)
        }
        self._classes: dict[str, _Class] = {}
        self._live: dict[RequestId, _Live] = {}
        self._batches: dict[BatchId, RunningBatch] = {}
        self._now_ns = 0
        self._waiting_drawn: dict[str, int] = {}
        self._stale_devices: dict[DeviceName, None] = {}

    @property
    def is_over(self) -> bool:
        """Nothing that may still come is in the window."""
        to_ns = self._window.to_ns
        return (
            to_ns is not None
            and self._now_ns >= to_ns
            and all(batch.started_at_ns >= to_ns for batch in self._batches.values())
        )

    def begin(self) -> Iterator[TraceEvent]:
        """Names of what is known beforehand."""
        yield _named("process_name", _REQUESTS_PID, "requests")
        yield _sorted("process_sort_index", _REQUESTS_PID, 0)
        for device in self._devices.values():
            yield _named("process_name", device.pid, str(device.params.name))
            yield _sorted("process_sort_index", device.pid, device.pid)
            for slot, lane in enumerate(device.params.slot_lanes):
                tid = device.tid(slot)
                yield _named("thread_name", device.pid, f"lane {lane}, slot {slot}", tid)
                yield _sorted("thread_sort_index", device.pid, lane * _TIDS + slot, tid)

    def step(self, now_ns: int, event: Event, commands: Sequence[Command]) -> Iterator[TraceEvent]:
        """What one step adds. Take all of it before the next step."""
        self._now_ns = now_ns
        if isinstance(event, RequestArrived):
            yield from self._arrive(event.request)
        for command in commands:
            if isinstance(command, Dispatch):
                self._start(command)
            elif isinstance(command, KeepSegment):
                self._keep(command)
            elif isinstance(command, CancelBatch):
                self._mark_abandoned(command.batch_id)
            elif isinstance(command, _Ended):
                yield from self._end_request(command)
        # Last, for the commands have just said who was answered in time.
        yield from self._end_batches(event)
        if self._window.has(now_ns):
            yield from self._counters()

    def end(self) -> Iterator[TraceEvent]:
        """What still ran when the run ended."""
        for batch_id in list(self._batches):
            yield from self._end_batch(batch_id, BatchEnd("unfinished"))

    # --- requests ---------------------------------------------------------------------------------

    def _arrive(self, request: Request) -> Iterator[TraceEvent]:
        row = self._class_of(request)
        if not row.is_named:
            row.is_named = True
            yield _named("thread_name", _REQUESTS_PID, row.name, row.tid)
            yield _sorted("thread_sort_index", _REQUESTS_PID, request.priority, row.tid)
        self._live[request.request_id] = _Live(request, row)
        row.waiting += 1
        if self._window.has(self._now_ns):
            # A slice without length, for an arrow must begin at a slice.
            yield TraceEvent(
                ph=Phase.SLICE,
                name=str(request.model),
                category="arrival",
                at_us=instant_us(self._now_ns),
                length_us=0.0,
                pid=_REQUESTS_PID,
                tid=row.tid,
                args=_request_args(request),
            )

    def _class_of(self, request: Request) -> _Class:
        """Its class, or what stands for all beyond the limit."""
        name = f"{request.tier}, priority {request.priority}"
        if name not in self._classes and len(self._classes) >= _CLASSES_MAX:
            name = "others"
        row = self._classes.get(name)
        if row is None:
            tid = _REQUESTS_PID * _TIDS + 1 + len(self._classes)
            row = self._classes[name] = _Class(name, tid)
        return row

    def _end_request(self, command: _Ended) -> Iterator[TraceEvent]:
        live = self._live.pop(command.request_id, None)
        if live is None:
            return
        if live.batch_id is None:
            live.row.waiting -= 1
        elif (batch := self._batches.get(live.batch_id)) is not None:
            is_met = isinstance(command, Complete) and self._now_ns <= live.request.deadline_at_ns
            batch.count_end(is_answered=isinstance(command, Complete), is_met=is_met)
        if not isinstance(command, Complete) and self._window.has(self._now_ns):
            waited_ns = self._now_ns - live.request.arrived_at_ns
            yield TraceEvent(
                ph=Phase.INSTANT,
                name=_end_name(command),
                category="end",
                at_us=instant_us(self._now_ns),
                pid=_REQUESTS_PID,
                tid=live.row.tid,
                scope="t",
                args=_request_args(live.request) | {"after_ms": waited_ns / NS_PER_MS},
            )

    # --- batches ----------------------------------------------------------------------------------

    def _start(self, dispatch: Dispatch) -> None:
        device = self._devices.get(dispatch.device)
        if device is None:
            return
        members = [self._live[i] for i in dispatch.request_ids if i in self._live]
        for live in members:
            live.batch_id = dispatch.batch_id
            live.row.waiting -= 1
        self._batches[dispatch.batch_id] = RunningBatch(
            dispatch, self._now_ns, [(live.request, live.row.tid) for live in members]
        )
        device.running[dispatch.slot_class] += 1
        self._stale_devices[dispatch.device] = None

    def _keep(self, command: KeepSegment) -> None:
        live = self._live.get(command.request_id)
        if live is not None and live.batch_id is not None:
            live.batch_id = None
            live.row.waiting += 1

    def _mark_abandoned(self, batch_id: BatchId) -> None:
        batch = self._batches.get(batch_id)
        if batch is not None:
            batch.is_abandoned = True

    def _end_batches(self, event: Event) -> Iterator[TraceEvent]:
        match event:
            case BatchFinished():
                yield from self._end_batch(event.batch_id, BatchEnd("finished", event))
            case BatchFailed():
                yield from self._end_batch(event.batch_id, BatchEnd("failed", error=event.message))
            case ReplicasLost():
                if self._window.has(self._now_ns):
                    yield _loss(event, self._now_ns)
                for batch_id, batch in list(self._batches.items()):
                    if batch.dispatch.replica_id in event.replica_ids:
                        yield from self._end_batch(batch_id, BatchEnd("lost", error=event.message))
            case _:
                pass

    def _end_batch(self, batch_id: BatchId, end: BatchEnd) -> Iterator[TraceEvent]:
        batch = self._batches.pop(batch_id, None)
        if batch is None:
            return
        device = self._devices[batch.dispatch.device]
        device.running[batch.dispatch.slot_class] -= 1
        self._stale_devices[batch.dispatch.device] = None
        if self._window.overlaps(batch.started_at_ns, self._now_ns):
            yield from batch_events(
                batch,
                end,
                self._now_ns,
                pid=device.pid,
                tid=device.tid(batch.dispatch.slot),
                requests_pid=_REQUESTS_PID,
            )

    # --- counters ---------------------------------------------------------------------------------

    def _counters(self) -> Iterator[TraceEvent]:
        waiting = {row.name: row.waiting for row in self._classes.values()}
        if waiting != self._waiting_drawn:
            self._waiting_drawn = waiting
            yield self._counter("waiting", _REQUESTS_PID, waiting)
        for name in self._stale_devices:
            device = self._devices[name]
            running = {str(kind): count for kind, count in device.running.items()}
            yield self._counter("running", device.pid, running)
        self._stale_devices.clear()

    def _counter(self, name: str, pid: int, values: Mapping[str, int]) -> TraceEvent:
        at_us = instant_us(self._now_ns)
        return TraceEvent(ph=Phase.COUNTER, name=name, at_us=at_us, pid=pid, args=values)


class TimelineObserver:
    """Writes the timeline of a run while it goes on; close it at the end.

    It encodes and writes as it is told, so a live server should keep a journal instead, and
    `write_timeline` be called afterwards.
    """

    def __init__(
        self,
        path: Path,
        devices: Iterable[DeviceParams],
        *,
        window: Window | None = None,
        notes: Mapping[str, object] | None = None,
    ) -> None:
        """Create or truncate the file.

        Args:
            path: of the file; compressed if it ends in `.gz`.
            devices: those of the run.
            window: None for all of it.
            notes: words on the whole, such as the policy.

        Raises:
            OSError: it cannot be written.
        """
        self._file = TraceFile(path, notes or {})
        self._timeline = Timeline(devices, window)
        self._file.write(self._timeline.begin())

    @property
    def count(self) -> int:
        """Events written so far."""
        return self._file.count

    @property
    def is_over(self) -> bool:
        """See `Timeline`."""
        return self._timeline.is_over

    def __call__(self, now_ns: int, event: Event, commands: Sequence[Command]) -> None:
        """Draw one step."""
        self._file.write(self._timeline.step(now_ns, event, commands))

    def close(self) -> None:
        """Draw what still runs, and end the file."""
        self._file.write(self._timeline.end())
        self._file.close()


def write_timeline(
    records: Iterable[Record],
    path: Path,
    devices: Iterable[DeviceParams],
    *,
    window: Window | None = None,
    notes: Mapping[str, object] | None = None,
) -> int:
    """Draw a recorded run, reading no further than the window; returns how many events it is.

    Raises:
        OSError: the file cannot be written.
    """
    observer = TimelineObserver(path, devices, window=window, notes=notes)
    try:
        for record in records:
            observer(record.now_ns, record.event, record.commands)
            if observer.is_over:
                break
    finally:
        observer.close()
    return observer.count


def _request_args(request: Request) -> dict[str, object]:
    return {
        "request": request.request_id,
        "model": request.model,
        "rows": request.rows,
        "tenant": request.tenant,
        "budget_ms": request.budget_ns / NS_PER_MS,
    }


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


def _loss(event: ReplicasLost, now_ns: int) -> TraceEvent:
    return TraceEvent(
        ph=Phase.INSTANT,
        name="worker lost",
        category="worker",
        at_us=instant_us(now_ns),
        pid=_DEVICES_PID,
        scope="g",
        args={"replicas": event.replica_ids, "message": event.message},
    )


def _named(kind: str, pid: int, name: str, tid: int | None = None) -> TraceEvent:
    return TraceEvent(ph=Phase.METADATA, name=kind, pid=pid, tid=tid, args={"name": name})


def _sorted(kind: str, pid: int, index: int, tid: int | None = None) -> TraceEvent:
    return TraceEvent(ph=Phase.METADATA, name=kind, pid=pid, tid=tid, args={"sort_index": index})
