"""Where the next batch starts, whether it should wait, or whether it is given up: by prediction.

One pass over the lanes that are free, with a forecast for each that differs. Knows what runs, what
waits and what is expected. The rules are told in `headway.policy.headway`.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headway.core import (
    BucketView,
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
from headway.policy.hopeless import Hopeless
from headway.policy.lanes_now import LaneNow, LanesNow, in_the_way
from headway.policy.outlook import Outlook
from headway.policy.prospects import Prospect, Prospects
from headway.policy.reserve import LowStart, Reserve
from headway.policy.running import emptiest_of
from headway.policy.sizes import Sizes
from headway.policy.urgency import Promotion

__all__ = ["Foresighted"]

_LOOKS_MAX: Final = 8
"""Lanes that are forecast for one decision."""
_GAIN_RATIO: Final = 0.5
"""Part of what it gains by sharing a lane that a batch may cost the others there."""
_FREE_RIDE_RATIO: Final = 0.05
"""Part of the wait for a lane that it may cost them in any case."""
_SHORT_RATIO: Final = 0.4
"""Of the wait for a lane; what takes longer alone gains too little by sharing it, see above."""
_BENEATH_TIMES: Final = 4
"""Segments beneath high work are so much longer: only other low work waits for them."""


class _Lane(NamedTuple):
    """A lane that the batch may have."""

    option: SlotOption
    now: LaneNow


class _Wanted(NamedTuple):
    """The batch that is to be placed."""

    bucket: BucketView
    model: ModelParams
    head: Request
    work_ns: float
    """What is left of the head, with a lane to itself."""
    fleet: FleetView
    now_ns: int


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
        reserve: Reserve,
        *,
        drops: bool,
    ) -> None:
        self._outlook = outlook
        self._prospects = prospects
        self._lanes = LanesNow(prospects)
        self._sizes = sizes
        self._hopeless = hopeless
        self._promotion = promotion
        self._reserve = reserve
        self._drops = drops

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
        self._outlook.fleet = fleet
        work_ns = self._outlook.waiting.left_ns(head)
        if work_ns <= 0.0:
            return Start(emptiest_of(options))
        if now_ns + work_ns > head.deadline_at_ns:
            return self._late(head, options, now_ns)
        wanted = _Wanted(bucket, model, head, work_ns, fleet, now_ns)
        if self._is_lost(wanted):
            return self._without(head, options)
        self._lanes.look(fleet, self._outlook.waiting.changes, now_ns)
        bound_at_ns = self._promotion.promotes_at_ns(head)
        if bound_at_ns is not None and now_ns >= bound_at_ns:
            if self._outlook.is_crowded_out(now_ns):
                return self._choose_overdue(wanted, options)
            bound_at_ns = None
        if self._must_wait(wanted):
            return Hold(bound_at_ns)
        return self._choose(wanted, options, bound_at_ns)

    def _choose(
        self, wanted: _Wanted, options: Sequence[SlotOption], bound_at_ns: int | None
    ) -> Placing:
        """What becomes of who could be started now."""
        best = self._easy(wanted, options) or self._best(wanted, self._open(wanted, options))
        if best is not None:
            return best
        if wanted.head.slot_class is SlotClass.HIGH and not self._can_wait(wanted):
            return self._without(wanted.head, options)
        return Hold(bound_at_ns)

    def _choose_overdue(self, wanted: _Wanted, options: Sequence[SlotOption]) -> Placing:
        """What becomes of who has waited for as long as it may."""
        head = wanted.head
        if not self._promotion.is_entitled(head):
            return _no(head)
        lanes = self._open(wanted, options)
        shared = [lane for lane in lanes if not lane.now.lies_beneath]
        if shared:
            return self._overdue(wanted, shared)
        # Beneath high work a start costs nobody anything, so it is by the usual rules, or no.
        best = self._best(wanted, lanes) if self._outlook.is_first(head) else None
        return best or _no(head)

    def _open(self, wanted: _Wanted, options: Sequence[SlotOption]) -> list[_Lane]:
        """Lanes with a free slot, as many as are looked at."""
        return [self._lane(option, wanted) for option in _distinct(options)[:_LOOKS_MAX]]

    def _easy(self, wanted: _Wanted, options: Sequence[SlotOption]) -> Start | None:
        """The quick yes: a lane that runs nothing, and nobody in a hurry. None is no answer.

        Only of a model with one device: else which one is better is to be seen.
        """
        idle = [option for option in options if option.lane_running == 0]
        if not idle or len(wanted.model.devices) > 1 or self._reserve.holds_lanes(wanted.head):
            return None
        device = wanted.fleet.device(idle[0].device)
        head, now_ns = wanted.head, wanted.now_ns
        left_ns = head.deadline_at_ns - now_ns
        if not self._prospects.is_easy(device, head.slot_class, left_ns, wanted.work_ns, now_ns):
            return None
        return Start(idle[0], self._rows(self._lane(idle[0], wanted), wanted))

    def _must_wait(self, wanted: _Wanted) -> bool:
        """The quick no: every lane has others in the way, and none is worth sharing.

        With many models waiting this is the answer to all but a few.
        """
        now_ns, head = wanted.now_ns, wanted.head
        widest_ns = self._lanes.widest_ns(wanted.fleet, head.slot_class, now_ns)
        if widest_ns is None or now_ns + widest_ns + wanted.work_ns > head.deadline_at_ns:
            return False
        return head.slot_class is SlotClass.LOW or wanted.work_ns >= _SHORT_RATIO * widest_ns

    def _best(self, wanted: _Wanted, lanes: Sequence[_Lane]) -> Start | None:
        """The lane without others where it ends first, else one that is worth sharing."""
        best: Start | None = None
        best_rank = (True, 0.0)
        for lane in lanes:
            if lane.now.mates and not self._may_share(lane, wanted):
                continue
            for rows in self._rows_tried(lane, wanted):
                prospect = self._prospect(lane, wanted, rows)
                if not self._is_good(prospect, lane, wanted, rows):
                    continue
                rank = (bool(lane.now.mates), prospect.own_ns)
                if best is None or rank < best_rank:
                    best, best_rank = Start(lane.option, rows), rank
                break
        return best

    def _is_lost(self, wanted: _Wanted) -> bool:
        """Whether it is given up for others' sake; never where there is nobody else to gain."""
        head, fleet, now_ns = wanted.head, wanted.fleet, wanted.now_ns
        if not self._drops or not self._is_in_the_way(wanted):
            return False
        return head.request_id in self._outlook.lost(head.slot_class, fleet, now_ns)

    def _is_in_the_way(self, wanted: _Wanted) -> bool:
        """Whether somebody waits who could gain, or low work is too late at the speed it gets."""
        head, fleet, now_ns = wanted.head, wanted.fleet, wanted.now_ns
        if head.slot_class is SlotClass.HIGH:
            return self._outlook.waiting.count(SlotClass.HIGH) > 1
        if wanted.bucket.count > 1:
            return True
        speed = self._outlook.low_speed(fleet, now_ns)
        return now_ns + wanted.work_ns / speed > head.deadline_at_ns

    def _late(self, head: Request, options: Sequence[SlotOption], now_ns: int) -> Placing:
        """What cannot be in time even alone is given up, or served late if that is wanted.

        But then after those of its class who can be in time, or each would make the next one late.
        """
        if head.late_ns > 0:
            last = self._outlook.waiting.last(head.slot_class)
            if last is not None and now_ns + last.work_ns <= last.deadline_at_ns:
                return Hold(last.deadline_at_ns)
            free = [option for option in options if option.lane_running == 0]
            return Start(emptiest_of(free)) if free else Hold()
        return self._without(head, options)

    def _without(self, head: Request, options: Sequence[SlotOption]) -> Placing:
        """Give it up, unless so many were that what is known of its model must be looked into."""
        if head.late_ns > 0 or self._hopeless.may_give_up(head):
            return _no(head)
        return Start(emptiest_of(options))

    def _lane(self, option: SlotOption, wanted: _Wanted) -> _Lane:
        device = wanted.fleet.device(option.device)
        slot_class = wanted.head.slot_class
        return _Lane(option, self._lanes.lane(device, option.lane, slot_class, wanted.now_ns))

    def _may_share(self, lane: _Lane, wanted: _Wanted) -> bool:
        """Whether it is worth a forecast: who can wait must be short beside whom it would join."""
        if lane.now.has_low:
            return False  # one low batch a lane: else an urgent one might find no slot there
        head, free_ns = wanted.head, lane.now.free_ns
        is_short = head.slot_class is SlotClass.HIGH and wanted.work_ns < _SHORT_RATIO * free_ns
        return is_short or wanted.now_ns + free_ns + wanted.work_ns > head.deadline_at_ns

    def _rows(self, lane: _Lane, wanted: _Wanted) -> int:
        bucket, model, head = wanted.bucket, wanted.model, wanted.head
        if head.slot_class is SlotClass.HIGH:
            return self._sizes.rows(bucket, model, head, wanted.now_ns)
        if lane.now.device.shares_all and not model.can_split:
            return self._sizes.shared_rows(bucket, model, head, wanted.now_ns)
        times = _BENEATH_TIMES if lane.now.lies_beneath else 1
        return self._sizes.segment_rows(bucket, model, head, times, wanted.now_ns)

    def _rows_tried(self, lane: _Lane, wanted: _Wanted) -> Iterator[int]:
        """What it would have alone, then ever fewer: beside others a large batch may be late."""
        rows = self._rows(lane, wanted)
        yield rows
        least = wanted.head.rows
        while rows > least and not wanted.model.can_split:
            rows = max(least, rows // 2)
            yield rows

    def _prospect(self, lane: _Lane, wanted: _Wanted, rows: int) -> Prospect:
        run: Run = candidate(wanted.bucket, wanted.model, lane.option, rows)
        return self._prospects.of(run, lane.option, lane.now.device, lane.now.mates, wanted.now_ns)

    def _is_good(self, prospect: Prospect, lane: _Lane, wanted: _Wanted, rows: int) -> bool:
        """In time, harmless, and worth what it costs those on its lane."""
        if not prospect.is_harmless:
            return False
        head, work_ns, now_ns = wanted.head, wanted.work_ns, wanted.now_ns
        rows_left = wanted.bucket.head_rows_left
        rest_ns = work_ns * (rows_left - rows) / rows_left if rows < rows_left else 0.0
        if now_ns + prospect.own_ns + rest_ns > head.deadline_at_ns:
            return False
        free_ns = lane.now.free_ns
        if lane.now.mates and now_ns + free_ns + work_ns <= head.deadline_at_ns:
            gain_ns = _GAIN_RATIO * (free_ns + work_ns - prospect.own_ns)
            if prospect.delays_ns > gain_ns + _FREE_RIDE_RATIO * free_ns:
                return False
        if self._should_gather(lane, wanted, rows):
            return False
        if head.slot_class is SlotClass.HIGH:
            return True
        return self._reserve.allows(LowStart(lane.now, prospect), wanted.fleet, now_ns)

    def _should_gather(self, lane: _Lane, wanted: _Wanted, rows: int) -> bool:
        """Whether others of its model should join it while those on the device end.

        Where slots share all of a device one large batch costs it less than two small ones do, so
        that who can wait for it to be free of its equals does.
        """
        device, head = lane.now.device, wanted.head
        if not device.shares_all or not self._sizes.gains_by_more(wanted.model, rows):
            return False
        others = in_the_way(device.running(), head.slot_class, lies_beneath=False)
        wait_ns = self._prospects.free_ns(device, others, wanted.now_ns)
        ends_at_ns = wanted.now_ns + wait_ns + wanted.work_ns
        return wait_ns > 0.0 and ends_at_ns <= head.deadline_at_ns

    def _overdue(self, wanted: _Wanted, lanes: Sequence[_Lane]) -> Placing:
        """It has waited for as long as it may: start it where that costs least, or say no.

        What it costs high work is paid only out of what low work is owed.
        """
        now_ns = wanted.now_ns
        open_lanes = [lane for lane in lanes if not lane.now.has_low]
        if not open_lanes:
            return Hold()
        choices = []
        for lane in open_lanes:
            rows = self._rows(lane, wanted)
            choices.append((self._prospect(lane, wanted, rows), rows))
        prospect, rows = min(choices, key=lambda each: (not each[0].is_harmless, each[0].delays_ns))
        is_free = prospect.is_harmless and not prospect.option.lane_running
        is_free = is_free and not self._outlook.waiting.count(SlotClass.HIGH)
        if is_free or self._promotion.is_owed(wanted.fleet, now_ns):
            return Start(prospect.option, rows)
        return _no(wanted.head)

    def _can_wait(self, wanted: _Wanted) -> bool:
        """Whether some lane will be free of high work early enough."""
        spare_ns = wanted.head.deadline_at_ns - wanted.now_ns - wanted.work_ns
        fleet, now_ns = wanted.fleet, wanted.now_ns
        return any(
            self._lanes.free_ns(fleet.device(name), now_ns) <= spare_ns
            for name in wanted.model.devices
        )


def _no(head: Request) -> Placing:
    """Given up, or left for later where late answers are wanted."""
    return Hold() if head.late_ns > 0 else GiveUp()


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
