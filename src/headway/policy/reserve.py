"""What is held free of low work for high requests that are still to come.

Two kinds of devices, two questions. Where lanes divide the device, a low batch occupies a lane: how
many high requests would find no other. Where slots share all of it, a low batch slows all that run
beside it: how many high requests would be late for that, which the predictor says of a high request
of every kind that has been arriving.

Knows rates of arrivals, forecasts and how far they scatter. Refuses to know who waits.
"""

from math import erf, log, sqrt
from typing import Final, NamedTuple

from headway.core import (
    BatchId,
    DeviceName,
    DeviceView,
    FleetView,
    Predictor,
    Request,
    Run,
    SlotClass,
    SlotIndex,
)
from headway.policy.guard import Guard
from headway.policy.lanes_now import LaneNow
from headway.policy.outlook import Outlook
from headway.policy.prospects import Prospect
from headway.policy.waiting_list import Stream

__all__ = ["LowStart", "Reserve"]

_SIGMAS_OF_BOUND: Final = 1.645
"""Where a bound lies that holds for 95 %."""
_SAFE_TIMES: Final = 1.5
"""What has more than this times its time alone, were it to take turns with all that run and the
start, is not forecast: it is in time in any case."""
_SCATTER_MIN: Final = 0.1
_SCATTER_UNKNOWN: Final = 0.2


class LowStart(NamedTuple):
    """A low batch that would be started."""

    lane: LaneNow
    prospect: Prospect


class _Expected(NamedTuple):
    """What a high request would take that started now."""

    mean_ns: float
    scatter: float
    """Standard deviation of the logarithm of what it takes in the end."""

    def late_ratio(self, budget_ns: int, stretch_ratio: float = 1.0) -> float:
        """Chance that it takes longer than its budget, if it is so much longer on average."""
        margin = log(max(budget_ns, 1) / (self.mean_ns * stretch_ratio))
        return 0.5 * (1.0 - erf(margin / (self.scatter * sqrt(2.0))))


class Reserve:
    """Whether a start of low work costs expected high work too much.

    Args:
        outlook: high work that is expected.
        predictor: says what a high request would take.
        guard: the outer loop, which scales the reserve of lanes.
        lane_ratio: of the reserve of lanes: a high request that may be made late counts so many
            times as much as the start; 0 for none.
        harm_ratio: high requests that a start may make late on devices that all slots share; 0 for
            no limit.

    Invariants: a device that runs nothing may always start something, unless lanes are reserved.
    """

    def __init__(
        self,
        outlook: Outlook,
        predictor: Predictor,
        guard: Guard,
        *,
        lane_ratio: float,
        harm_ratio: float,
    ) -> None:
        self._outlook = outlook
        self._predictor = predictor
        self._guard = guard
        self._lane_ratio = lane_ratio
        self._harm_ratio = harm_ratio
        self._expected: dict[tuple[DeviceName, Stream], _Expected | None] = {}
        self._key: tuple[int, tuple[BatchId, ...]] = (-1, ())

    def holds_lanes(self, request: Request) -> bool:
        """Whether a request may be kept off a lane that runs nothing."""
        return request.slot_class is SlotClass.LOW and self._lane_ratio > 0.0

    def allows(self, start: LowStart, fleet: FleetView, now_ns: int) -> bool:
        """Whether the start is worth what it is expected to cost."""
        if start.lane.device.shares_all:
            return self._leaves_speed(start, fleet, now_ns)
        return self._leaves_lanes(start, fleet, now_ns)

    def _leaves_lanes(self, start: LowStart, fleet: FleetView, now_ns: int) -> bool:
        """Whether fewer high requests would find no lane than the start is worth."""
        ratio = self._lane_ratio * self._guard.times
        if ratio <= 0.0 or start.lane.lies_beneath:
            return True
        late = 0.0
        for stream in self._outlook.waiting.streams(SlotClass.HIGH):
            spare_ns = max(0.0, stream.budget_ns - stream.work_ns)
            if stream.work_ns > spare_ns:
                late += stream.rate(now_ns) * max(0.0, start.prospect.own_ns - spare_ns)
        return late * self._busy_ratio(start, fleet, now_ns) * ratio <= 1.0

    def _busy_ratio(self, start: LowStart, fleet: FleetView, now_ns: int) -> float:
        """Chance that a high request finds no lane but those that low work is on."""
        load = self._outlook.high_load(fleet, now_ns)
        ratio = 1.0
        for device in fleet.all_devices():
            held = {batch.lane for batch in device.running()}
            for other in set(device.slot_lanes) - held:
                if device is not start.lane.device or other != start.lane.lane:
                    ratio *= load
        return ratio

    def _leaves_speed(self, start: LowStart, fleet: FleetView, now_ns: int) -> bool:
        """Whether few enough high requests would be late that come while it runs.

        They are taken to spread evenly over the devices. How much longer each takes for the start
        is what those take that run now.
        """
        device, prospect = start.lane.device, start.prospect
        if self._harm_ratio <= 0.0 or not device.running():
            return True
        crowd = len(device.running()) + 2
        late = 0.0
        for stream in self._outlook.waiting.streams(SlotClass.HIGH):
            if stream.budget_ns > _SAFE_TIMES * crowd * stream.work_ns:
                continue
            expected = self._of(stream, device, fleet, now_ns)
            if expected is not None:
                before = expected.late_ratio(stream.budget_ns)
                after = expected.late_ratio(stream.budget_ns, prospect.stretch_ratio)
                late += stream.rate(now_ns) * prospect.own_ns * (after - before)
        return late <= self._harm_ratio * len(fleet.all_devices())

    def _of(
        self, stream: Stream, device: DeviceView, fleet: FleetView, now_ns: int
    ) -> _Expected | None:
        """Forecast once while the same runs; None of what nothing is known."""
        ids = [batch.batch_id for each in fleet.all_devices() for batch in each.running()]
        key = (now_ns, tuple(ids))
        if key != self._key:
            self._key = key
            self._expected.clear()
        known = (device.name, stream)
        if known not in self._expected:
            self._expected[known] = self._forecast(stream, device, now_ns)
        return self._expected[known]

    def _forecast(self, stream: Stream, device: DeviceView, now_ns: int) -> _Expected | None:
        request = stream.last
        taken = {batch.slot for batch in device.running()}
        free = [slot for slot in range(len(device.slot_lanes)) if slot not in taken]
        slot = SlotIndex(free[0] if free else 0)
        run = Run(
            model=request.model,
            bucket=request.bucket,
            rows=request.rows,
            payload_bytes=request.payload_bytes,
            device=device.name,
            slot=slot,
            lane=device.slot_lanes[slot],
            slot_class=request.slot_class,
            priority=request.priority,
        )
        own = self._predictor.beside(run, device.name, now_ns)[0]
        if own.mean_ns <= 0:
            return None
        if own.bound_ns <= own.mean_ns:
            return _Expected(own.mean_ns, _SCATTER_UNKNOWN)
        scatter = log(own.bound_ns / own.mean_ns) / _SIGMAS_OF_BOUND
        return _Expected(own.mean_ns, max(_SCATTER_MIN, scatter))
