"""Who of those that wait can still be in time, given what runs and what is expected.

Knows all that waits, what runs, and how much high work has been arriving. Refuses to choose lanes.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from headway.core import DeviceView, FleetView, Request, RequestId, SlotClass
from headway.policy.hopefuls import hopeless_among
from headway.policy.prospects import Prospects
from headway.policy.running import lanes_of
from headway.policy.waiting_list import WaitingList

__all__ = ["Outlook"]

_WISHES_MAX: Final = 48
"""Waiting requests of a class that are scheduled; who is behind them waits for them to move on."""
_CROWDED_RATIO: Final = 0.6
"""Of the lanes that high work is expected to take, from which low work counts as starved."""
_SPEED_MIN: Final = 0.1
_ARRIVING_RATIO: Final = 2.0
"""Of the work that waits, what is served before whoever is ahead of its share: as much again may
come meanwhile. Under a lasting overload what waits grows until it is more than budgets allow."""
_PACKED_RATIO: Final = 0.6
"""Part of what high work leaves that low work is expected to get done in time: high work comes in
bursts, and lanes are not one machine. Found with the simulated mixes; from 0.5 to 0.8 does."""


class _Capacity(NamedTuple):
    """What the devices can do for a class."""

    start_ns: float
    """Until they are free of what runs, on average."""
    lanes_rate: float
    """Work a lane of its own, per elapsed time."""


class Outlook:
    """Schedules of what waits, made once as long as nothing changes.

    Args:
        waiting: all that waits.
        prospects: of what runs.
        discount_ratio: part of the expected high load that is taken off the capacity for low work.
    """

    def __init__(self, waiting: WaitingList, prospects: Prospects, discount_ratio: float) -> None:
        self.waiting = waiting
        self._prospects = prospects
        self._discount_ratio = discount_ratio
        self._known: dict[SlotClass, tuple[tuple[int, ...], Collection[RequestId]]] = {}
        self._capacity: dict[SlotClass, _Capacity] = {}
        self.fleet: FleetView | None = None
        """As it is shown to whoever places, for those who are not shown it."""

    def is_crowded_out(self, now_ns: int) -> bool:
        """Whether high work alone takes about all there is, so that low work may get nothing.

        Else low work that waits for long does so for its own class, which no order helps.
        """
        return self.fleet is None or self.high_load(self.fleet, now_ns) >= _CROWDED_RATIO

    def high_load(self, fleet: FleetView, now_ns: int) -> float:
        """Part of the lanes that high work is expected to take, 0 to 1."""
        lanes = sum([lanes_of(device) for device in fleet.all_devices()])
        return min(1.0, self.waiting.work_rate(SlotClass.HIGH, now_ns) / max(1, lanes))

    def low_speed(self, fleet: FleetView, now_ns: int) -> float:
        """Part of its speed alone that low work is expected to get."""
        return max(_SPEED_MIN, 1.0 - self._discount_ratio * self.high_load(fleet, now_ns))

    def lost(self, slot_class: SlotClass, fleet: FleetView, now_ns: int) -> Collection[RequestId]:
        """Who waits and is given up for others' sake.

        Not who finds no place for being there too late: beside others it may still have one.
        """
        key = (now_ns, self.waiting.changes, fleet.free_slots)
        known = self._known.get(slot_class)
        if known is not None and known[0] == key:
            return known[1]
        capacity = self._capacity_of(slot_class, fleet, now_ns)
        self._capacity[slot_class] = capacity
        start_at_ns, rate = now_ns + capacity.start_ns, capacity.lanes_rate
        lost = hopeless_among(
            [
                wish
                for wish in self.waiting.front(slot_class, _WISHES_MAX)
                if start_at_ns + wish.work_ns / rate <= wish.deadline_at_ns
            ],
            start_at_ns=start_at_ns,
            lanes_rate=rate,
        )
        self._known[slot_class] = (key, lost)
        return lost

    def is_first(self, request: Request) -> bool:
        """Whether it has the earliest deadline of its class."""
        front = self.waiting.front(request.slot_class, 1)
        return not front or front[0].request_id == request.request_id

    def would_be_lost(self, request: Request, now_ns: int) -> bool:
        """Whether a request that arrives now would be the one that is given up.

        By the capacity when it was last looked at; what is not known of, is let in.
        """
        capacity = self._capacity.get(request.slot_class)
        wish = self.waiting.wish_of(request)
        front = self.waiting.front(request.slot_class, _WISHES_MAX)
        if capacity is None or wish.work_ns <= 0.0 or len(front) < 2:
            return False
        lost = hopeless_among(
            sorted([*front, wish]), start_at_ns=now_ns, lanes_rate=capacity.lanes_rate
        )
        return request.request_id in lost

    def turn_ns(self, request: Request, now_ns: int) -> int:
        """Until the turn of its tenant, which may be ahead of its share; 0 while unknown.

        However far ahead it is, nobody goes before it but who waits, or comes while those are
        served: time that others do not ask for is its own.
        """
        ahead_ns = self.waiting.accounts.ahead_ns(request)
        if ahead_ns <= 0.0 or self.fleet is None:
            return 0
        slot_class = request.slot_class
        capacity = self._capacity.get(slot_class)
        if capacity is None:
            capacity = self._capacity_of(slot_class, self.fleet, now_ns)
        front = self.waiting.front(slot_class, _WISHES_MAX)
        behind_ratio = self.waiting.count(slot_class) / max(1, len(front))
        waits_ns = sum([wish.work_ns for wish in front]) * behind_ratio
        ahead_ns = min(ahead_ns, _ARRIVING_RATIO * waits_ns)
        return int(ahead_ns / capacity.lanes_rate)

    def backlog_ns(self, request: Request) -> int:
        """Work of its class that waits, per what can be done for it: when to try again."""
        capacity = self._capacity.get(request.slot_class)
        if capacity is None:
            return 0
        front = self.waiting.front(request.slot_class, _WISHES_MAX)
        return int(sum([wish.work_ns for wish in front]) / capacity.lanes_rate)

    def _capacity_of(self, slot_class: SlotClass, fleet: FleetView, now_ns: int) -> _Capacity:
        lanes, left_ns = 0.0, 0.0
        for device in fleet.all_devices():
            lanes += lanes_of(device)
            left_ns += self._left_ns(device, slot_class, now_ns)
        lanes = max(lanes, 1.0)
        speed = 1.0
        if slot_class is SlotClass.LOW:
            speed = _PACKED_RATIO * self.low_speed(fleet, now_ns)
        return _Capacity(left_ns / lanes, lanes * speed)

    def _left_ns(self, device: DeviceView, slot_class: SlotClass, now_ns: int) -> float:
        """Time left of what runs and goes before a class.

        Low work does not go before high work: it starts beside it.
        """
        return sum(
            [
                self._prospects.left_ns(device, batch, now_ns)
                for batch in device.running()
                if batch.slot_class is SlotClass.HIGH or slot_class is SlotClass.LOW
            ]
        )
