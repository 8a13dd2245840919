"""A run as a timeline: kernel steps in, trace events out, for Perfetto.

Knows Records, devices and the trace event format. Never a policy, and never a clock.

A process a device, with a thread a slot, in the order of its lanes; a slice a batch, and beside the
threads a span of what was expected of it and of its bound. One more process holds the requests: a
thread a class, on which each request is a mark when it arrives and another one when it ends; an
arrow leads from its arrival through the batches that ran it to its end. Counters say what waits in
each class and how many batches run on each device. Decisions are instants: why a batch started, why
a request was refused or given up, and what befell models and workers.

Records may begin anywhere in a run, as the last steps of a live server do. A batch whose start was
not recorded is left out; one whose members came before is drawn, and says how many.

A batch is drawn when it has ended, for only then is it known who was answered in time. What is held
meanwhile is what waits or runs, so the size of a journal does not matter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

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
    Fail,
    KeepSegment,
    Record,
    Reject,
    ReplicasLost,
    ReplicaWarmed,
    Request,
    RequestArrived,
    RequestCancelled,
    RequestId,
    SlotClass,
    TimerFired,
)
from headway.report.batch_slices import BatchEnd, Member, RunningBatch, batch_events
from headway.report.model_marks import ModelMarks
from headway.report.request_marks import Place, arrival_events, end_events, unfinished_events
from headway.report.trace_events import Phase, TraceEvent, TraceFile, instant_us
from headway.units import NS_PER_MS

__all__ = ["Timeline", "TimelineObserver", "Window", "timeline_bytes", "write_timeline"]

_REQUESTS_PID: Final = 1
_DEVICES_PID: Final = 2
"""Of the first device; the others follow."""
_TIDS: Final = 1_000
"""Threads of a process begin at its number times this, so that no two are alike."""
_CLASSES_MAX: Final = 32
"""A client may choose its priority; classes beyond so many are drawn as one."""

_Ended = Complete | Reject | Expire | Cancel | Fail

_BECAUSE: Final[tuple[tuple[type[Event], str], ...]] = (
    (RequestArrived, "a request came and a slot was free"),
    (BatchFinished, "a slot came free"),
    (BatchFailed, "a slot came free"),
    (TimerFired, "its time had come"),
    (ReplicaWarmed, "a replica was warm"),
    (ReplicasLost, "a worker was lost"),
    (RequestCancelled, "another was taken back"),
)
"""What a batch started upon. A timer is a linger's end, or an instant that the policy named."""


class Window(NamedTuple):
    """The part of a run that is drawn; what is in it at all is drawn whole."""

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

    __slots__ = ("batch_id", "is_drawn", "request", "row")

    def __init__(self, request: Request, row: "_Class", *, is_drawn: bool) -> None:
        self.request = request
        self.row = row
        self.is_drawn = is_drawn
        """Its arrival is on the timeline, and so will its end be."""
        self.batch_id: BatchId | None = None
        """Where it runs; None while it waits."""


class _Class:
    """Requests of one tier and priority: a thread of marks and a line of the counter."""

    __slots__ = ("is_named", "name", "place", "priority", "waiting")

    def __init__(self, name: str, tid: int, priority: int) -> None:
        self.name = name
        self.place = Place(_REQUESTS_PID, tid)
        self.priority = priority
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
    is written only when it has changed; whatever arrow begins, ends.
    """

    def __init__(self, devices: Iterable[DeviceParams], window: Window | None = None) -> None:
        self._window = window or Window()
        self._devices: dict[DeviceName, _Device] = {
            params.name: _Device(params, _DEVICES_PID + index)
            for index, params in enumerate(devices)
        }
        self._classes: dict[str, _Class] = {}
        self._live: dict[RequestId, _Live] = {}
        self._drawn_count = 0
        """Of those, the drawn ones."""
        self._batches: dict[BatchId, RunningBatch] = {}
        self._models = ModelMarks(
            {name: device.pid for name, device in self._devices.items()}, _REQUESTS_PID
        )
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
            and self._drawn_count == 0
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
        ends: list[TraceEvent] = []
        for command in commands:
            if isinstance(command, Dispatch):
                self._start(command, event)
            elif isinstance(command, KeepSegment):
                self._keep(command)
            elif isinstance(command, CancelBatch):
                self._mark_abandoned(command.batch_id)
            elif isinstance(command, _Ended):
                ends += self._end_request(command)
        # Now, for the commands have just said who was answered in time; and before the ends of
        # requests, for an arrow goes through its batch first.
        yield from self._end_batches(event)
        yield from ends
        is_drawn = self._window.has(now_ns)
        yield from self._models.step(now_ns, event, commands, is_drawn=is_drawn)
        if is_drawn:
            yield from self._counters()

    def end(self) -> Iterator[TraceEvent]:
        """What still ran, waited or loaded when the run ended."""
        for batch_id in list(self._batches):
            yield from self._end_batch(batch_id, BatchEnd("unfinished"))
        for live in self._live.values():
            if live.is_drawn:
                yield from unfinished_events(live.request, self._now_ns, live.row.place)
        yield from self._models.end(self._now_ns)

    # --- requests ---------------------------------------------------------------------------------

    def _arrive(self, request: Request) -> Iterator[TraceEvent]:
        row = self._class_of(request)
        if not row.is_named:
            row.is_named = True
            pid, tid = row.place
            yield _named("thread_name", pid, row.name, tid)
            yield _sorted("thread_sort_index", pid, request.priority, tid)
        is_drawn = self._window.has(self._now_ns)
        self._live[request.request_id] = _Live(request, row, is_drawn=is_drawn)
        row.waiting += 1
        if is_drawn:
            self._drawn_count += 1
            yield from arrival_events(request, self._now_ns, row.place)

    def _class_of(self, request: Request) -> _Class:
        """Its class, or what stands for all beyond the limit."""
        name = f"{request.tier}, priority {request.priority}"
        if name not in self._classes and len(self._classes) >= _CLASSES_MAX:
            name = "others"
        row = self._classes.get(name)
        if row is None:
            tid = _REQUESTS_PID * _TIDS + 1 + len(self._classes)
            row = self._classes[name] = _Class(name, tid, request.priority)
        return row

    def _end_request(self, command: _Ended) -> Iterator[TraceEvent]:
        live = self._live.pop(command.request_id, None)
        if live is None:
            return
        self._drawn_count -= live.is_drawn
        if live.batch_id is None:
            live.row.waiting -= 1
        elif (batch := self._batches.get(live.batch_id)) is not None:
            is_met = isinstance(command, Complete) and self._now_ns <= live.request.deadline_at_ns
            batch.count_end(is_answered=isinstance(command, Complete), is_met=is_met)
        if live.is_drawn or self._window.has(self._now_ns):
            yield from end_events(
                live.request, command, self._now_ns, live.row.place, is_flow=live.is_drawn
            )

    # --- batches ----------------------------------------------------------------------------------

    def _start(self, dispatch: Dispatch, event: Event) -> None:
        device = self._devices.get(dispatch.device)
        if device is None or dispatch.slot >= len(device.params.slot_lanes):
            return
        members = [self._live[i] for i in dispatch.request_ids if i in self._live]
        for live in members:
            live.batch_id = dispatch.batch_id
            live.row.waiting -= 1
        self._batches[dispatch.batch_id] = RunningBatch(
            dispatch,
            self._now_ns,
            [Member(live.request, live.is_drawn) for live in members],
            self._why(event, members),
        )
        device.running[dispatch.slot_class] += 1
        self._stale_devices[dispatch.device] = None

    def _why(self, event: Event, members: Sequence[_Live]) -> dict[str, object]:
        """What a batch started upon, and whom it left waiting."""
        because = next((words for kind, words in _BECAUSE if isinstance(event, kind)), "other")
        why: dict[str, object] = {"because": because}
        waiting = {row.name: row.waiting for row in self._classes.values() if row.waiting}
        if members:
            first = min(members, key=lambda live: live.request.priority)
            why["first_of"] = first.row.name
            waited_ns = self._now_ns - first.request.arrived_at_ns
            why["waited_ms"] = waited_ns / NS_PER_MS
            why["passed_over"] = sum(
                row.waiting for row in self._classes.values() if row.priority < first.row.priority
            )
        return why | {"left_waiting": waiting}

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
        target: Path | BinaryIO,
        devices: Iterable[DeviceParams],
        *,
        window: Window | None = None,
        notes: Mapping[str, object] | None = None,
    ) -> None:
        """Begin, with a file that is created or truncated.

        Args:
            target: file, compressed if its name ends in `.gz`; or what is written to.
            devices: those of the run.
            window: None for all of it.
            notes: words on the whole, such as the policy.

        Raises:
            OSError: it cannot be written.
        """
        self._file = TraceFile(target, notes or {})
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
    return _draw(records, TimelineObserver(path, devices, window=window, notes=notes))


def timeline_bytes(
    records: Iterable[Record],
    devices: Iterable[DeviceParams],
    *,
    window: Window | None = None,
    notes: Mapping[str, object] | None = None,
) -> bytes:
    """A recorded run, or the last part of one, as the bytes of a timeline file.

    Cost: some ten microseconds a record, so a server has a thread do it.
    """
    stream = BytesIO()
    _draw(records, TimelineObserver(stream, devices, window=window, notes=notes))
    return stream.getvalue()


def _draw(records: Iterable[Record], observer: TimelineObserver) -> int:
    try:
        for record in records:
            observer(record.now_ns, record.event, record.commands)
            if observer.is_over:
                break
    finally:
        observer.close()
    return observer.count


def _named(kind: str, pid: int, name: str, tid: int | None = None) -> TraceEvent:
    return TraceEvent(ph=Phase.METADATA, name=kind, pid=pid, tid=tid, args={"name": name})


def _sorted(kind: str, pid: int, index: int, tid: int | None = None) -> TraceEvent:
    return TraceEvent(ph=Phase.METADATA, name=kind, pid=pid, tid=tid, args={"sort_index": index})
