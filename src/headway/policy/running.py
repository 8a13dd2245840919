"""What runs where: the questions that placements ask of free slots and of the fleet.

Knows lanes and classes of batches. Refuses to know deadlines.

A lane is what the batches on it share: a core, of the cores of a CPU. Where slots share all of the
device, as they do an accelerator, lanes divide nothing, and rules that are stated a lane need
another reading; each says its own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from headway.core import DeviceName, DeviceView, FleetView, SlotClass, SlotOption

__all__ = [
    "OneAtATime",
    "by_device",
    "emptiest",
    "emptiest_of",
    "lanes_of",
    "running_of_class",
]


def emptiest(options: Iterable[SlotOption]) -> SlotOption | None:
    """The first of those whose lane runs least; None of none."""
    return min(options, key=lambda option: option.lane_running, default=None)


def emptiest_of(options: Sequence[SlotOption]) -> SlotOption:
    """The same of some; the kernel asks only where there is a free slot."""
    return min(options, key=lambda option: option.lane_running)


def by_device(options: Sequence[SlotOption]) -> Iterator[tuple[DeviceName, list[SlotOption]]]:
    """The options of each device, in the order of the first of each."""
    groups: dict[DeviceName, list[SlotOption]] = {}
    for option in options:
        groups.setdefault(option.device, []).append(option)
    yield from groups.items()


def lanes_of(device: DeviceView) -> int:
    """How many batches get on at full speed at once, to be generous where slots share all of it."""
    return len(set(device.slot_lanes))


def running_of_class(device: DeviceView, slot_class: SlotClass) -> Counter[int]:
    """Batches of a class that run on a device, by lane."""
    return Counter(batch.lane for batch in device.running() if batch.slot_class is slot_class)


class OneAtATime:
    """Slots as systems have them that run one batch at a time, so that no batch has neighbours.

    What must not be shared is a lane where lanes divide the device, else all of it.

    Args:
        at_once: batches that may run at once on a device, instead; 0 for the rule above.
    """

    def __init__(self, at_once: int = 0) -> None:
        self._at_once = at_once

    def pick(self, options: Sequence[SlotOption], fleet: FleetView) -> SlotOption | None:
        """A slot without neighbours, the emptiest lane first; None where all have some."""
        return emptiest(
            option
            for name, group in by_device(options)
            for option in self._alone(fleet.device(name), group)
        )

    def _alone(self, device: DeviceView, options: list[SlotOption]) -> list[SlotOption]:
        if self._at_once == 0 and not device.shares_all:
            return [option for option in options if option.lane_running == 0]
        running_max = (self._at_once or 1) - 1
        return options if len(device.running()) <= running_max else []
