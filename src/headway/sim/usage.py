"""What a run made of its devices: how busy they were, what was in vain, how right forecasts were.

Reads kernel steps like every other observer. Knows batches and the ends of requests; refuses to
know what a request was for. A batch's time on its slot is divided over its members by their rows.
What was spent on a request counts as useful once the request is answered in time, and as waste when
it ends in any other way.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Cancel,
    Command,
    Complete,
    DeviceParams,
    Dispatch,
    Event,
    Expire,
    Fail,
    Reject,
    ReplicaId,
    ReplicasLost,
    Request,
    RequestArrived,
    RequestId,
    SlotClass,
)
from headway.sim.histogram import bucket_of, quantile_ns

__all__ = ["Usage", "UsageFigures"]

_MILLION = 1_000_000
_ENDS = (Cancel, Expire, Fail, Reject)


class UsageFigures(Struct, frozen=True, kw_only=True):
    """Ratios of one run; those of predictions are None where none was judged."""

    batches: int
    batch_rows_mean: float
    lanes_busy_ratio: float
    """Part of the lanes' time with a batch to run."""
    devices_busy_ratio: float
    """Part of the devices' time with a batch to run."""
    waste_ratio: float
    """Part of the slots' time that went to requests that were late or gone."""
    error_mean_ratio: float | None
    """Of |predicted - actual| / actual of a batch's service, as predicted at its dispatch."""
    error_median_ratio: float | None
    covered_ratio: float | None
    """Part of the batches that ended within the bound that was predicted then."""


class _Live:
    """A request that has not ended."""

    __slots__ = ("request", "spent_ns")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.spent_ns = 0.0


class _Busy:
    """A device or a lane: how many batches it runs, and for how long it has run any."""

    __slots__ = ("busy_ns", "running", "since_ns")

    def __init__(self) -> None:
        self.running = 0
        self.since_ns = 0
        self.busy_ns = 0

    def start(self, now_ns: int) -> None:
        if not self.running:
            self.since_ns = now_ns
        self.running += 1

    def end(self, now_ns: int) -> None:
        self.running -= 1
        if not self.running:
            self.busy_ns += now_ns - self.since_ns


class Usage:
    """An observer that follows every batch to its end.

    Args:
        devices: where batches run.
        work_ns: what a request takes alone, for `work_done_ns`.

    Invariants: spent = useful + wasted + what live requests were given so far. Memory does not grow
    with the number of requests that ended.
    """

    def __init__(
        self, devices: Sequence[DeviceParams], work_ns: Callable[[Request], float] | None = None
    ) -> None:
        self.spent_ns = 0.0
        self.wasted_ns = 0.0
        self.useful_ns = 0.0
        self.work_done_ns: dict[SlotClass, float] = dict.fromkeys(SlotClass, 0.0)
        """What the requests that were answered in time take alone."""
        self._work_ns = work_ns
        self._live: dict[RequestId, _Live] = {}
        self._running: dict[BatchId, tuple[Dispatch, int]] = {}
        """With the instant of the start."""
        self._slot_lanes = {device.name: device.slot_lanes for device in devices}
        self._devices = {device.name: _Busy() for device in devices}
        self._lanes = {(d.name, lane): _Busy() for d in devices for lane in d.slot_lanes}
        self._batches = 0
        self._rows = 0
        self._errors: dict[int, int] = {}
        """Errors in millionths, by bucket."""
        self._error_sum = 0.0
        self._covered = 0

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Take one kernel step."""
        if isinstance(event, RequestArrived):
            self._live[event.request.request_id] = _Live(event.request)
        elif isinstance(event, BatchFinished):
            self._finish(event.batch_id, now_ns)
        elif isinstance(event, BatchFailed):
            self._end(event.batch_id, now_ns)
        elif isinstance(event, ReplicasLost):
            self._lose(event.replica_ids, now_ns)
        for command in commands:
            if isinstance(command, Complete):
                live = self._live.pop(command.request_id)
                if now_ns <= live.request.deadline_at_ns:
                    self._meet(live)
                else:
                    self.wasted_ns += live.spent_ns
            elif isinstance(command, Dispatch):
                self._running[command.batch_id] = (command, now_ns)
                for busy in self._places(command):
                    busy.start(now_ns)
            elif isinstance(command, _ENDS):
                self.wasted_ns += self._live.pop(command.request_id).spent_ns

    def figures(self, duration_ns: int) -> UsageFigures:
        """The ratios over a time; what ran for longer than that counts as all of it."""
        judged = sum(self._errors.values())
        median = quantile_ns(self._errors, 0.5)
        return UsageFigures(
            batches=self._batches,
            batch_rows_mean=self._rows / self._batches if self._batches else 0.0,
            lanes_busy_ratio=_busy_ratio(list(self._lanes.values()), duration_ns),
            devices_busy_ratio=_busy_ratio(list(self._devices.values()), duration_ns),
            waste_ratio=self.wasted_ns / self.spent_ns if self.spent_ns else 0.0,
            error_mean_ratio=self._error_sum / judged if judged else None,
            error_median_ratio=None if median is None else median / _MILLION,
            covered_ratio=self._covered / judged if judged else None,
        )

    def _places(self, dispatch: Dispatch) -> tuple[_Busy, _Busy]:
        lane = self._slot_lanes[dispatch.device][dispatch.slot]
        return self._devices[dispatch.device], self._lanes[dispatch.device, lane]

    def _meet(self, live: _Live) -> None:
        self.useful_ns += live.spent_ns
        if self._work_ns is not None:
            self.work_done_ns[live.request.slot_class] += self._work_ns(live.request)

    def _finish(self, batch_id: BatchId, now_ns: int) -> None:
        """Judge its prediction, if there was one, and divide its time over its members."""
        if batch_id not in self._running:
            return
        dispatch, started_at_ns = self._running[batch_id]
        service_ns = max(1, now_ns - started_at_ns)
        if dispatch.expected_ns:
            error = abs(dispatch.expected_ns - service_ns) / service_ns
            bucket = bucket_of(round(error * _MILLION))
            self._errors[bucket] = self._errors.get(bucket, 0) + 1
            self._error_sum += error
            self._covered += service_ns <= dispatch.bound_ns
        self._end(batch_id, now_ns)

    def _lose(self, replica_ids: Sequence[ReplicaId], now_ns: int) -> None:
        lost = [b for b, (d, _) in self._running.items() if d.replica_id in replica_ids]
        for batch_id in lost:
            self._end(batch_id, now_ns)

    def _end(self, batch_id: BatchId, now_ns: int) -> None:
        dispatch, started_at_ns = self._running.pop(batch_id, (None, 0))
        if dispatch is None:
            return
        for busy in self._places(dispatch):
            busy.end(now_ns)
        self._batches += 1
        self._rows += dispatch.rows
        service_ns = now_ns - started_at_ns
        self.spent_ns += service_ns
        left_ns = float(service_ns)
        for request_id in dispatch.request_ids:
            live = self._live.get(request_id)
            if live is not None:
                share_ns = service_ns * min(1.0, live.request.rows / dispatch.rows)
                live.spent_ns += share_ns
                left_ns -= share_ns
        # What is left was done for members that had ended before.
        self.wasted_ns += max(0.0, left_ns)


def _busy_ratio(places: Sequence[_Busy], duration_ns: int) -> float:
    busy_ns = sum(min(place.busy_ns, duration_ns) for place in places)
    return busy_ns / (duration_ns * len(places))
