"""What happens to models, workers and the server, on the timeline: loads as spans, the rest marks.

Knows the events and commands of models. Never a request or a batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headway.core import (
    Command,
    ConcludeUnload,
    DeviceName,
    DrainStarted,
    Event,
    LoadReplica,
    ModelLoadRequested,
    ModelUnloadRequested,
    PredictorTrained,
    ReplaceWorker,
    ReplicaId,
    ReplicaLoadFailed,
    ReplicasLost,
    ReplicaWarmed,
)
from headway.report.trace_events import Phase, TraceEvent, instant_us

__all__ = ["ModelMarks"]

_CATEGORY: Final = "models"


class ModelMarks:
    """Draws the marks of one run.

    Args:
        pids: the process of each device.
        server_pid: of what is about no device.

    Invariants: a span that was begun is ended once, at the latest by `end`.
    """

    def __init__(self, pids: Mapping[DeviceName, int], server_pid: int) -> None:
        self._pids = pids
        self._server_pid = server_pid
        self._loading: dict[ReplicaId, LoadReplica] = {}
        """Those whose begin is drawn."""

    def step(
        self, now_ns: int, event: Event, commands: Sequence[Command], *, is_drawn: bool
    ) -> Iterator[TraceEvent]:
        """What one step adds; without being drawn only the ends of spans that have begun."""
        yield from self._ends(event, now_ns)
        if is_drawn:
            yield from self._marks(event, now_ns)
            for command in commands:
                yield from self._obeyed(command, now_ns)

    def end(self, now_ns: int) -> Iterator[TraceEvent]:
        """What still loaded when the records ended."""
        for replica_id in list(self._loading):
            yield from self._loaded(replica_id, now_ns)

    def _ends(self, event: Event, now_ns: int) -> Iterator[TraceEvent]:
        if isinstance(event, ReplicaWarmed | ReplicaLoadFailed):
            yield from self._loaded(event.replica_id, now_ns)
        elif isinstance(event, ReplicasLost):
            for replica_id in event.replica_ids:
                yield from self._loaded(replica_id, now_ns)

    def _loaded(self, replica_id: ReplicaId, now_ns: int) -> Iterator[TraceEvent]:
        load = self._loading.pop(replica_id, None)
        if load is not None:
            yield self._span(Phase.SPAN_END, load, now_ns)

    def _marks(self, event: Event, now_ns: int) -> Iterator[TraceEvent]:
        args: Mapping[str, object]
        match event:
            case ReplicaLoadFailed():
                args = {"replica": event.replica_id, "message": event.message}
                yield self._mark("load failed", now_ns, args)
            case ReplicasLost():
                args = {"replicas": event.replica_ids, "message": event.message}
                yield self._mark("worker lost", now_ns, args, scope="g")
            case ModelLoadRequested():
                args = {"model": event.model.name, "version": event.model.version}
                yield self._mark("load asked for", now_ns, args)
            case ModelUnloadRequested():
                yield self._mark("unload asked for", now_ns, {"model": event.model})
            case DrainStarted():
                yield self._mark("drain started", now_ns, {})
            case PredictorTrained():
                yield self._mark("predictor refitted", now_ns, {"observations": event.count})
            case _:
                pass

    def _obeyed(self, command: Command, now_ns: int) -> Iterator[TraceEvent]:
        if isinstance(command, LoadReplica):
            yield from self._loaded(command.replica_id, now_ns)  # asked for again meanwhile
            self._loading[command.replica_id] = command
            yield self._span(Phase.SPAN_BEGIN, command, now_ns)
        elif isinstance(command, ReplaceWorker):
            args = {"batch": command.batch_id}
            yield self._mark("hung: worker is replaced", now_ns, args)
        elif isinstance(command, ConcludeUnload):
            yield self._mark("unloaded", now_ns, {"model": command.model})

    def _span(self, phase: Phase, load: LoadReplica, now_ns: int) -> TraceEvent:
        return TraceEvent(
            ph=phase,
            name=f"loading {load.model}",
            category=_CATEGORY,
            flow=f"load {load.replica_id}",
            at_us=instant_us(now_ns),
            pid=self._pids.get(load.device, self._server_pid),
            args={"version": load.version} if phase is Phase.SPAN_BEGIN else {},
        )

    def _mark(
        self, name: str, now_ns: int, args: Mapping[str, object], *, scope: str = "p"
    ) -> TraceEvent:
        return TraceEvent(
            ph=Phase.INSTANT,
            name=name,
            category=_CATEGORY,
            at_us=instant_us(now_ns),
            pid=self._server_pid,
            scope=scope,
            args=args,
        )
