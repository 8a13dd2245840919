"""The paths between host memory and devices as a tree, and how those who use it share it.

Knows capacities, and which copy engines are at work. Refuses to know sizes, time and chance: what
is copied, and since when, is `flows.py`'s.

Sharing is max-min fair (progressive filling; Bertsekas and Gallager, Data Networks, 6.5.2): all
rates rise together until a link is full, whoever crosses that link keeps the rate, the others go
on rising. A device has one copy engine a direction and an engine works on one copy at a time, so
engines, not copies, share the links.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from headway.core import DeviceName

__all__ = ["Direction", "Link", "LinkShares", "LinkTree", "max_min"]

_CACHED_MAX: Final = 4096
"""Sets of busy engines whose rates are kept; four devices have no more than 256."""
_DEPTH_MAX: Final = 16
"""Links on the way to a device; a longer way is a circle."""


class Direction(StrEnum):
    """As the device sees it."""

    IN = "in"
    OUT = "out"
    __hash__ = str.__hash__


class Link(Struct, frozen=True, kw_only=True):
    """An edge of the tree: a device's own link, a switch, a root port, or a node's memory."""

    name: str
    parent: str = ""
    """The next link on the way to host memory; empty where it ends there."""
    in_bytes_per_s: float
    """Capacity towards devices."""
    out_bytes_per_s: float
    both_bytes_per_s: float = 0.0
    """What both directions may take together; 0 where they do not disturb each other. Only for a
    link without a parent: further down, sharing would no longer be monotone in load."""


class LinkTree(Struct, frozen=True, kw_only=True):
    """What is known of the way to each device.

    Raises:
        ValueError: a name is used twice or missing, a circle, a capacity that is not positive.
    """

    links: tuple[Link, ...]
    devices: dict[DeviceName, str]
    """The link at which a device hangs. Devices at one link share its capacity."""
    launch_ns: int
    """From the call to the first byte; its engine does nothing else meanwhile."""
    chunk_bytes: int
    """A copy is sent in pieces of at most this, between which a more important one may go."""

    def __post_init__(self) -> None:
        names = {link.name for link in self.links}
        if len(names) != len(self.links) or "" in names:
            raise ValueError("links need names, each its own")
        for link in self.links:
            if min(link.in_bytes_per_s, link.out_bytes_per_s) <= 0 or link.both_bytes_per_s < 0:
                raise ValueError(f"link `{link.name}` needs positive capacities")
            if link.parent and link.both_bytes_per_s:
                raise ValueError(f"link `{link.name}` has a parent: no limit on both directions")
            if link.parent and link.parent not in names:
                raise ValueError(f"link `{link.name}` hangs at `{link.parent}`, which is missing")
        if not self.devices or self.launch_ns < 0 or self.chunk_bytes < 1:
            raise ValueError("a tree needs a device, launch_ns >= 0 and chunk_bytes >= 1")
        for device in self.devices:
            self.path(device)

    def path(self, device: DeviceName) -> tuple[Link, ...]:
        """The links from a device to host memory.

        Raises:
            ValueError: a link is missing, or the way never ends.
        """
        by_name = {link.name: link for link in self.links}
        at = self.devices[device]
        found: list[Link] = []
        while at:
            if at not in by_name or len(found) == _DEPTH_MAX:
                raise ValueError(f"the way to `{device}` does not reach host memory at `{at}`")
            found.append(by_name[at])
            at = by_name[at].parent
        return tuple(found)


def max_min(paths: Sequence[Sequence[int]], capacities: Sequence[float]) -> list[float]:
    """Max-min fair rates, one a path.

    Args:
        paths: the limits that each user is under, as indices of ``capacities``; none is empty.
        capacities: of each limit, positive.

    Cost: O(limits x users) for each limit that becomes full.
    """
    rates = [0.0] * len(paths)
    left = list(capacities)
    rising = set(range(len(paths)))
    while rising:
        users = [0] * len(left)
        for user in rising:
            for limit in paths[user]:
                users[limit] += 1
        share, full = min((left[i] / count, i) for i, count in enumerate(users) if count)
        for user in [u for u in rising if full in paths[u]]:
            rising.discard(user)
            rates[user] = share
            for limit in paths[user]:
                left[limit] = max(0.0, left[limit] - share)
    return rates


class LinkShares:
    """The rates of a tree's copy engines, by which of them are at work.

    Engine ``2 i`` brings data in to device ``i`` of the tree, ``2 i + 1`` takes it out.

    Cost: a dict look-up for a set of engines that was asked for before.
    """

    __slots__ = ("_alone", "_capacities", "_devices", "_links", "_paths", "_rates", "engine_count")

    def __init__(self, tree: LinkTree) -> None:
        self._devices = {device: index for index, device in enumerate(tree.devices)}
        self.engine_count = 2 * len(tree.devices)
        self._capacities: list[float] = []
        limits: dict[tuple[str, str], int] = {}
        self._paths: list[tuple[int, ...]] = []
        self._links: list[tuple[str, ...]] = []
        for device in tree.devices:
            for direction in Direction:
                keys = []
                path = tree.path(device)
                self._links.append(tuple(link.name for link in path))
                for link in path:
                    is_in = direction is Direction.IN
                    rate = link.in_bytes_per_s if is_in else link.out_bytes_per_s
                    keys.append((link.name, str(direction), rate))
                    if link.both_bytes_per_s:
                        keys.append((link.name, "both", link.both_bytes_per_s))
                for name, kind, rate in keys:
                    if (name, kind) not in limits:
                        limits[name, kind] = len(self._capacities)
                        self._capacities.append(rate / 1e9)
                self._paths.append(tuple(limits[name, kind] for name, kind, _ in keys))
        self._alone = [min(self._capacities[limit] for limit in path) for path in self._paths]
        self._rates: dict[int, tuple[float, ...]] = {}

    def engine(self, device: DeviceName, direction: Direction) -> int:
        """The engine that copies this way.

        Raises:
            KeyError: the tree has no such device.
        """
        return 2 * self._devices[device] + (direction is Direction.OUT)

    def alone_bytes_per_ns(self, engine: int) -> float:
        """The rate of an engine that has the tree to itself."""
        return self._alone[engine]

    def links(self, engine: int) -> tuple[str, ...]:
        """The links that an engine uses, its own first."""
        return self._links[engine]

    def rates(self, busy: int) -> tuple[float, ...]:
        """Bytes per nanosecond of each busy engine, in the order of their numbers.

        Args:
            busy: a bit for each engine.
        """
        rates = self._rates.get(busy)
        if rates is None:
            if len(self._rates) >= _CACHED_MAX:
                self._rates.clear()
            engines = [e for e in range(self.engine_count) if busy >> e & 1]
            rates = tuple(max_min([self._paths[e] for e in engines], self._capacities))
            self._rates[busy] = rates
        return rates
