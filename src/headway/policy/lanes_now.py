"""What is on each lane at an instant, looked at once however many buckets are asked about.

Knows batches that run and when they are expected to end. Refuses to choose.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headway.core import BatchView, DeviceName, DeviceView, FleetView, SlotClass
from headway.policy.prospects import Prospects

__all__ = ["LaneNow", "LanesNow", "in_the_way"]

_PREEMPTED_RATIO: Final = 0.2
"""Share of low work beside high work below which it counts as preempted."""


class LaneNow(NamedTuple):
    """A lane as a batch of some class finds it."""

    device: DeviceView
    lane: int
    mates: tuple[BatchView, ...]
    """Those there that are not less important, and in its way."""
    free_ns: float
    """Until the last of them ends."""
    has_low: bool
    """Whether low work is among them."""
    lies_beneath: bool
    """Whether low work here gets only what high work leaves."""


class LanesNow:
    """Lanes by device and class.

    Invariants: a snapshot is used only while the same runs and waits, at the same instant.
    """

    def __init__(self, prospects: Prospects) -> None:
        self._prospects = prospects
        self._key: tuple[int, ...] = ()
        self._lanes: dict[tuple[DeviceName, int, SlotClass], LaneNow] = {}
        self._free_ns: dict[DeviceName, float] = {}
        self._widest_ns: dict[SlotClass, float | None] = {}

    def look(self, fleet: FleetView, changes: int, now_ns: int) -> None:
        """Forget what was true before, if anything has changed since."""
        key = (now_ns, changes, fleet.free_slots)
        if key != self._key:
            self._key = key
            self._lanes.clear()
            self._free_ns.clear()
            self._widest_ns.clear()

    def lane(self, device: DeviceView, lane: int, slot_class: SlotClass, now_ns: int) -> LaneNow:
        """One lane, as a batch of a class finds it."""
        key = (device.name, lane, slot_class)
        known = self._lanes.get(key)
        if known is None:
            known = self._lanes[key] = self._found(device, lane, slot_class, now_ns)
        return known

    def widest_ns(self, fleet: FleetView, slot_class: SlotClass, now_ns: int) -> float | None:
        """The longest wait for a lane with a free slot that a batch of a class could share.

        None where some such lane has nobody in its way; 0 where there is none to share.
        """
        if slot_class not in self._widest_ns:
            self._widest_ns[slot_class] = self._widest(fleet, slot_class, now_ns)
        return self._widest_ns[slot_class]

    def _widest(self, fleet: FleetView, slot_class: SlotClass, now_ns: int) -> float | None:
        widest_ns = 0.0
        for device in fleet.all_devices():
            for lane, count in device.lane_running.items():
                if count == device.slot_lanes.count(lane):
                    continue
                found = self.lane(device, lane, slot_class, now_ns)
                if not found.mates:
                    return None
                if not found.has_low:
                    widest_ns = max(widest_ns, found.free_ns)
        return widest_ns

    def free_ns(self, device: DeviceView, now_ns: int) -> float:
        """Until some lane of a device is free of high work.

        Of a device that its slots share, until one of them is free.
        """
        known = self._free_ns.get(device.name)
        if known is None:
            ends = dict.fromkeys(device.slot_lanes, 0.0)
            for batch in device.running():
                if batch.slot_class is SlotClass.HIGH or device.shares_all:
                    left_ns = self._prospects.left_ns(device, batch, now_ns)
                    ends[batch.lane] = max(ends[batch.lane], left_ns)
            known = self._free_ns[device.name] = min(ends.values())
        return known

    def _found(self, device: DeviceView, lane: int, slot_class: SlotClass, now_ns: int) -> LaneNow:
        has_room = device.slot_lanes.count(lane) > 1  # else nothing lies beneath anything
        lies_beneath = has_room and device.low_weight_ratio < _PREEMPTED_RATIO
        on_it = [batch for batch in device.running() if batch.lane == lane]
        mates = tuple(in_the_way(on_it, slot_class, lies_beneath=lies_beneath))
        free_ns = self._prospects.free_ns(device, mates, now_ns) if mates else 0.0
        has_low = any(batch.slot_class is SlotClass.LOW for batch in mates)
        return LaneNow(device, lane, mates, free_ns, has_low, lies_beneath)


def in_the_way(
    batches: Sequence[BatchView], slot_class: SlotClass, *, lies_beneath: bool
) -> Sequence[BatchView]:
    """The less important are not, nor are high ones beneath which low work lies."""
    if slot_class is SlotClass.HIGH:
        return [batch for batch in batches if batch.slot_class is SlotClass.HIGH]
    if lies_beneath:
        return [batch for batch in batches if batch.slot_class is SlotClass.LOW]
    return batches
