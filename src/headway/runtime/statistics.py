"""Counters per model, as Triton's statistics extension has them; an observer of kernel steps."""

import time
from collections.abc import Mapping

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Cancel,
    Command,
    Complete,
    Dispatch,
    Event,
    Expire,
    Fail,
    ModelName,
    Reject,
    ReplicasLost,
    Request,
    RequestArrived,
    RequestId,
)
from headway.runtime.engine import ModelStatistics, StageStatistics

__all__ = ["Statistics"]

_BATCH_SIZES_MAX = 256


class _Stage:
    __slots__ = ("count", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0

    def add(self, duration_ns: int, count: int = 1) -> None:
        self.count += count
        self.total_ns += duration_ns * count

    def frozen(self) -> StageStatistics:
        return StageStatistics(count=self.count, total_ns=self.total_ns)


class _Counters:
    __slots__ = ("by_rows", "executions", "fail", "last_ms", "rows", "stages", "success")

    def __init__(self) -> None:
        self.rows = 0
        self.executions = 0
        self.last_ms = 0
        self.success = _Stage()
        self.fail = _Stage()
        self.stages = {name: _Stage() for name in ("queue", "input", "infer", "output")}
        self.by_rows: dict[int, tuple[_Stage, _Stage, _Stage]] = {}


class Statistics:
    """An observer that counts; rows and requests are counted when answered, batches when run."""

    def __init__(self) -> None:
        self._models: dict[ModelName, _Counters] = {}
        self._live: dict[RequestId, tuple[_Counters, int, int]] = {}
        self._batches: dict[BatchId, tuple[_Counters, Dispatch]] = {}

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Take one kernel step."""
        if isinstance(event, RequestArrived):
            self._arrived(event.request)
        elif isinstance(event, BatchFinished):
            self._ran(event)
        elif isinstance(event, BatchFailed):
            self._batches.pop(event.batch_id, None)
        elif isinstance(event, ReplicasLost):
            self._lost(event)
        for command in commands:
            if isinstance(command, Complete):
                self._completed(command, now_ns)
            elif isinstance(command, Dispatch):
                self._dispatched(command)
            elif isinstance(command, Reject | Expire | Fail):
                live = self._live.pop(command.request_id, None)
                if live is not None:
                    live[0].fail.add(now_ns - live[2])
            elif isinstance(command, Cancel):
                self._live.pop(command.request_id, None)

    def know(self, model: ModelName) -> None:
        """Count for this model from now on."""
        self._models.setdefault(model, _Counters())

    def of(self, model: ModelName, version: str, memory_bytes: int) -> ModelStatistics:
        """The counters of one known model."""
        counters = self._models.get(model) or _Counters()
        stages = counters.stages
        return ModelStatistics(
            name=model,
            version=version,
            last_inference_ms=counters.last_ms,
            inference_count=counters.rows,
            execution_count=counters.executions,
            success=counters.success.frozen(),
            fail=counters.fail.frozen(),
            queue=stages["queue"].frozen(),
            compute_input=stages["input"].frozen(),
            compute_infer=stages["infer"].frozen(),
            compute_output=stages["output"].frozen(),
            batch_stats=_by_rows(counters.by_rows),
            memory_bytes=memory_bytes,
        )

    def _arrived(self, request: Request) -> None:
        counters = self._models.get(request.model)
        if counters is not None:
            self._live[request.request_id] = (counters, request.rows, request.arrived_at_ns)

    def _dispatched(self, command: Dispatch) -> None:
        counters = self._models.get(command.model)
        if counters is not None:
            self._batches[command.batch_id] = (counters, command)

    def _completed(self, command: Complete, now_ns: int) -> None:
        live = self._live.pop(command.request_id, None)
        if live is not None:
            counters, rows, arrived_at_ns = live
            counters.rows += rows
            counters.success.add(now_ns - arrived_at_ns)
            counters.stages["queue"].add(command.queue_delay_ns)

    def _lost(self, event: ReplicasLost) -> None:
        """Batches that went down with a worker were not run."""
        self._batches = {
            batch_id: batch
            for batch_id, batch in self._batches.items()
            if batch[1].replica_id not in event.replica_ids
        }

    def _ran(self, event: BatchFinished) -> None:
        batch = self._batches.pop(event.batch_id, None)
        if batch is None:
            return
        counters, dispatch = batch
        rows = dispatch.rows
        counters.executions += 1
        counters.last_ms = time.time_ns() // 1_000_000
        by_rows = counters.by_rows.get(rows)
        if by_rows is None and len(counters.by_rows) < _BATCH_SIZES_MAX:
            by_rows = counters.by_rows[rows] = (_Stage(), _Stage(), _Stage())
        times_ns = (event.transfer_in_ns, event.execution_ns, event.transfer_out_ns)
        for index, (name, time_ns) in enumerate(
            zip(("input", "infer", "output"), times_ns, strict=True)
        ):
            counters.stages[name].add(time_ns)
            if by_rows is not None:
                by_rows[index].add(time_ns)


def _by_rows(
    by_rows: Mapping[int, tuple[_Stage, _Stage, _Stage]],
) -> dict[int, tuple[StageStatistics, StageStatistics, StageStatistics]]:
    return {
        rows: (a.frozen(), b.frozen(), c.frozen()) for rows, (a, b, c) in sorted(by_rows.items())
    }
