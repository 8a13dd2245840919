"""Where the next batch starts, whether it should wait, or whether it is given up: by prediction.

One pass over the lanes that are free, with a forecast for each that differs. Knows what runs, what
waits and what is expected. The rules are told in `headway.policy.headway`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headway.core import (
    BatchView,
    BucketView,
    DeviceView,
    FleetView,
    GiveUp,
    Hold,
    ModelParams,
    Placing,
    Request,
    Run,
    SlotClass,
    SlotOption,
    Start,
)
from headway.policy.candidate import candidate
from headway.policy.guard import Guard
from headway.policy.hopeless import Hopeless
from headway.policy.outlook import Outlook
from headway.policy.prospects import Prospect, Prospects
from headway.policy.running import emptiest, has_shared_lanes
from headway.policy.sizes import Sizes
from headway.policy.urgency import Promotion
from headway.units import NS_PER_S

__all__ = ["Foresighted", "Knobs"]

_LOOKS_MAX: Final = 8
"""Lanes that are forecast for one decision."""
_PREEMPTED_RATIO: Final = 0.2
"""Share of low work beside high work below which it counts as preempted."""
_GAIN_RATIO: Final = 0.5
"""Part of what it gains by sharing a lane that a batch may cost the others there."""
_FREE_RIDE_RATIO: Final = 0.05
"""Part of the wait for a lane that it may cost them in any case."""
_NEVER_NS: Final = 10**15
_PROMOTED_BURST_NS: Final = 0.25 * NS_PER_S


class Knobs(NamedTuple):
    """Settings of `Foresighted`."""

    reserve_ratio: float
    starvation_share_ratio: float
    drops: bool


class _Lane(NamedTuple):
    """A lane that the batch may have."""

    option: SlotOption
    device: DeviceView
    mates: list[BatchView]
    """Those there that are not less important."""
    free_ns: float
    """Until the last of them ends."""

    @property
    def lies_beneath(self) -> bool:
        """Whether low work here gets only what high work leaves."""
        return self.device.low_weight_ratio < _PREEMPTED_RATIO

    @property
    def has_low(self) -> bool:
        """Whether low work is among them."""
        return any(batch.slot_class is SlotClass.LOW for batch in self.mates)


class Foresighted:
    """Placement by forecast.

    Invariants: with nothing known of a model its work starts as soon as a slot is free; a lane
    without batches that matter takes whatever is in time.
    Cost: a forecast of each device and of each differing lane, at most `_LOOKS_MAX`.
    """

    def __init__(
        self,
        outlook: Outlook,
        prospects: Prospects,
        sizes: Sizes,
        hopeless: Hopeless,
        promotion: Promotion,
        guard: Guard,
        knobs: Knobs,
    ) -> None:
        self._outlook = outlook
        self._prospects = prospects
        self._sizes = sizes
        self._hopeless = hopeless
        self._promotion = promotion
        self._guard = guard
        self._knobs = knobs
        self._promoted_ns = _PROMOTED_BURST_NS
        """Device time that promoted work may still take, a budget that time refills."""
        self._promoted_at_ns = 0

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """Start, hold or give up the head of a bucket."""
        (head,) = bucket.front(1)
        work_ns = self._outlook.work_ns(head, bucket.head_rows_left)
        if work_ns <= 0.0:
            return _start_anywhere(options)
        if now_ns + work_ns > head.deadline_at_ns:
            return self._late(head, options, now_ns)
        if self._is_lost(bucket, head, fleet, work_ns, now_ns):
            return self._without(head, options, now_ns)
        lanes = [self._lane(option, head, fleet, now_ns) for option in _distinct(options)]
        bound_at_ns = self._promotion.bound_at_ns(head)
        if bound_at_ns is not None and now_ns >= bound_at_ns:
            shared = [lane for lane in lanes if not lane.lies_beneath]
            if shared:
                return self._overdue(bucket, model, shared, head, now_ns)
            # Beneath high work a start costs nobody anything, so the usual rules and order do.
            if not self._outlook.is_first(head):
                return Hold()
        best: tuple[tuple[bool, float], Prospect, int] | None = None
        for lane in lanes[:_LOOKS_MAX]:
            if lane.mates and not self._may_share(lane, head, work_ns, now_ns):
                continue
            rows = self._rows(lane, bucket, model, head, now_ns)
            prospect = self._prospect(lane, bucket, model, rows, now_ns)
            rest_ns = self._rest_ns(bucket, head, rows, work_ns)
            if not self._is_good(prospect, lane, head, work_ns, rest_ns, fleet, now_ns):
                continue
            rank = (bool(lane.mates), prospect.own_ns)
            if best is None or rank < best[0]:
                best = (rank, prospect, rows)
        if best is not None:
            return Start(best[1].option, best[2])
        if head.slot_class is SlotClass.HIGH and not self._can_wait(
            head, model, fleet, work_ns, now_ns
        ):
            return self._without(head, options, now_ns)
        return Hold(bound_at_ns)

    def _is_lost(
        self, bucket: BucketView, head: Request, fleet: FleetView, work_ns: float, now_ns: int
    ) -> bool:
        """Whether it is given up for others' sake; low work only where someone is behind it."""
        if not self._knobs.drops:
            return False
        if head.request_id not in self._outlook.lost(head.slot_class, fleet, now_ns):
            return False
        if head.slot_class is SlotClass.HIGH or bucket.count > 1:
            return True
        speed = self._outlook.low_speed(fleet, now_ns)
        return now_ns + work_ns / speed > head.deadline_at_ns

    def _late(self, head: Request, options: Sequence[SlotOption], now_ns: int) -> Placing:
        """What cannot be in time even alone is given up, or served late if that is wanted."""
        if head.late_ns > 0:
            free = [option for option in options if option.lane_running == 0]
            return _start_anywhere(free) if free else Hold()
        return self._without(head, options, now_ns)

    def _without(self, head: Request, options: Sequence[SlotOption], now_ns: int) -> Placing:
        """Give it up, unless so many were that what is known of its model must be looked into."""
        if head.late_ns > 0:
            return Hold()
        if self._hopeless.gives_up(head, _NEVER_NS, now_ns):
            return GiveUp()
        return _start_anywhere(options)

    def _lane(self, option: SlotOption, head: Request, fleet: FleetView, now_ns: int) -> _Lane:
        device = fleet.device(option.device)
        is_low = head.slot_class is SlotClass.LOW
        lies_beneath = is_low and device.low_weight_ratio < _PREEMPTED_RATIO
        mates = [
            batch
            for batch in device.running()
            if batch.lane == option.lane and _matters(batch, is_low, lies_beneath)
        ]
        free_ns = self._prospects.free_ns(device, mates, now_ns) if mates else 0.0
        return _Lane(option, device, mates, free_ns)

    def _may_share(self, lane: _Lane, head: Request, work_ns: float, now_ns: int) -> bool:
        """Whether it is worth a forecast: low work never shares where it can wait."""
        if head.slot_class is SlotClass.HIGH:
            return True
        if lane.has_low:
            return False  # one low batch a lane: else an urgent one might find no slot there
        return now_ns + lane.free_ns + work_ns > head.deadline_at_ns

    def _rows(
        self, lane: _Lane, bucket: BucketView, model: ModelParams, head: Request, now_ns: int
    ) -> int:
        is_low = head.slot_class is SlotClass.LOW
        if is_low and lane.device.low_weight_ratio >= _PREEMPTED_RATIO:
            return self._sizes.segment_rows(bucket, model, head, now_ns)
        return self._sizes.rows(bucket, model, head, now_ns)

    def _prospect(
        self, lane: _Lane, bucket: BucketView, model: ModelParams, rows: int, now_ns: int
    ) -> Prospect:
        run: Run = candidate(bucket, model, lane.option, rows)
        return self._prospects.of(run, lane.option, lane.device, lane.mates, now_ns)

    def _rest_ns(self, bucket: BucketView, head: Request, rows: int, work_ns: float) -> float:
        """Work of the head that would be left after such a batch."""
        rows_left = bucket.head_rows_left
        return work_ns * (rows_left - rows) / rows_left if rows < rows_left else 0.0

    def _is_good(
        self,
        prospect: Prospect,
        lane: _Lane,
        head: Request,
        work_ns: float,
        rest_ns: float,
        fleet: FleetView,
        now_ns: int,
    ) -> bool:
        """In time, harmless, and worth what it costs those on its lane."""
        if not prospect.is_harmless:
            return False
        if now_ns + prospect.own_ns + rest_ns > head.deadline_at_ns:
            return False
        if lane.mates:
            waited_ns = lane.free_ns + work_ns
            if now_ns + waited_ns <= head.deadline_at_ns:
                gain_ns = _GAIN_RATIO * (waited_ns - prospect.own_ns)
                if prospect.delays_ns > gain_ns + _FREE_RIDE_RATIO * lane.free_ns:
                    return False
        return head.slot_class is SlotClass.HIGH or self._is_affordable(
            prospect, lane, fleet, now_ns
        )

    def _is_affordable(
        self, prospect: Prospect, lane: _Lane, fleet: FleetView, now_ns: int
    ) -> bool:
        """Whether fewer high requests would be made late than the start is worth."""
        reserve_ratio = self._knobs.reserve_ratio * self._guard.times
        device = lane.device
        if reserve_ratio <= 0.0 or device.low_weight_ratio < _PREEMPTED_RATIO:
            return True
        busy_ratio = self._busy_ratio(lane, fleet, now_ns)
        lost = 0.0
        for stream in self._outlook.waiting.streams(SlotClass.HIGH):
            spare_ns = max(0.0, stream.budget_ns - stream.work_ns)
            if stream.work_ns > spare_ns:
                lost += stream.rate(now_ns) * max(0.0, prospect.own_ns - spare_ns)
        return lost * busy_ratio * reserve_ratio <= 1.0

    def _busy_ratio(self, lane: _Lane, fleet: FleetView, now_ns: int) -> float:
        """Chance that a high request finds no lane but those that low work is on."""
        load = self._outlook.high_load(fleet, now_ns)
        ratio = 1.0
        for device in fleet.all_devices():
            held = {b.lane: b.slot_class for b in device.running()}
            for other in set(device.slot_lanes):
                if device is lane.device and other == lane.option.lane:
                    continue
                slot_class = held.get(other)
                if slot_class is None:
                    ratio *= load
        return ratio

    def _overdue(
        self,
        bucket: BucketView,
        model: ModelParams,
        lanes: Sequence[_Lane],
        head: Request,
        now_ns: int,
    ) -> Placing:
        """It has waited for as long as it may: start it where that costs least, or say no."""
        refill_ns = (now_ns - self._promoted_at_ns) * self._knobs.starvation_share_ratio
        self._promoted_ns = min(_PROMOTED_BURST_NS, self._promoted_ns + refill_ns)
        self._promoted_at_ns = now_ns
        open_lanes = [lane for lane in lanes[:_LOOKS_MAX] if not lane.has_low]
        if not open_lanes:
            return Hold()
        prospects = []
        for lane in open_lanes:
            rows = self._rows(lane, bucket, model, head, now_ns)
            prospect = self._prospect(lane, bucket, model, rows, now_ns)
            prospects.append((not prospect.is_harmless, prospect.delays_ns, prospect, rows))
        does_harm, _, prospect, rows = min(prospects, key=lambda each: each[:2])
        if does_harm and self._promoted_ns <= 0.0:
            return self._without(head, [lane.option for lane in lanes], now_ns)
        if does_harm:
            self._promoted_ns -= prospect.own_ns
        return Start(prospect.option, rows)

    def _can_wait(
        self, head: Request, model: ModelParams, fleet: FleetView, work_ns: float, now_ns: int
    ) -> bool:
        """Whether some lane will be free of high work early enough."""
        for name in model.devices:
            device = fleet.device(name)
            by_lane: dict[int, float] = dict.fromkeys(device.slot_lanes, 0.0)
            for batch in device.running():
                if batch.slot_class is SlotClass.HIGH or not has_shared_lanes(device):
                    left_ns = self._prospects.left_ns(device, batch, now_ns)
                    by_lane[batch.lane] = max(by_lane[batch.lane], left_ns)
            if now_ns + min(by_lane.values()) + work_ns <= head.deadline_at_ns:
                return True
        return False


def _start_anywhere(options: Sequence[SlotOption]) -> Start:
    best = emptiest(options)
    assert best is not None, "the kernel asks only where there is a free slot"
    return Start(best)


def _matters(batch: BatchView, is_low: bool, lies_beneath: bool) -> bool:
    """Whether a batch of its lane is in a newcomer's way.

    The less important are not, nor are high ones beneath which low work lies.
    """
    if not is_low:
        return batch.slot_class is SlotClass.HIGH
    return batch.slot_class is SlotClass.LOW or not lies_beneath


def _distinct(options: Sequence[SlotOption]) -> list[SlotOption]:
    """One option of each lane; of lanes that run nothing one a device, for they are alike."""
    seen: set[tuple[str, int]] = set()
    distinct = []
    for option in options:
        is_like = option.lane_running == 0
        key = (option.device, -1 if is_like else option.lane)
        if key not in seen:
            seen.add(key)
            distinct.append(option)
    return sorted(distinct, key=lambda option: option.lane_running)
