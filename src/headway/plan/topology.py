"""How near devices of a fleet are to each other, and the steps of a chain in a plan.

Knows what each device says of itself, and what was read of its node (`node_topology`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from msgspec import Struct

from headway.core import DeviceName, ModelName
from headway.plan.demand import Demand
from headway.plan.fleet import Fleet, FleetDevice
from headway.plan.node_topology import NodeTopology, Proximity
from headway.plan.sharing import SharingPlan

__all__ = ["ChainReach", "chain_reaches", "proximity"]


class ChainReach(Struct, frozen=True, kw_only=True):
    """How far the requests of a chain travel between steps."""

    chain: ModelName
    hops: Mapping[str, float]
    """Part of the hops, by how far they go, if each replica is asked by its part of the load."""

    @property
    def worst(self) -> str:
        """The farthest that any hop goes."""
        return max(self.hops, key=lambda name: Proximity[name.upper()], default="same")


def proximity(
    one: FleetDevice, other: FleetDevice, nodes: Mapping[str, NodeTopology] | None = None
) -> Proximity:
    """How far it is between two devices, by what is known of them.

    Args:
        one: of the fleet.
        other: of the fleet.
        nodes: what was read of nodes, by name; it counts before what the devices say.
    """
    if one.name == other.name:
        return Proximity.SAME
    if one.nvlink_domain is not None and one.nvlink_domain == other.nvlink_domain:
        return Proximity.NVLINK
    if one.node != other.node:
        return Proximity.NETWORK
    key = (min(one.index, other.index), max(one.index, other.index))
    known = (nodes or {}).get(one.node)
    if known is not None and key in known.pairs:
        return known.pairs[key]
    if one.numa_node is not None and one.numa_node == other.numa_node:
        return Proximity.SOCKET
    return Proximity.NODE


def chain_reaches(plan: SharingPlan, demand: Demand, fleet: Fleet) -> Iterator[ChainReach]:
    """How near the steps of each chain are placed."""
    devices = {device.name: device for device in fleet.devices}
    seats: defaultdict[ModelName, list[tuple[DeviceName, float]]] = defaultdict(list)
    for share in plan.devices:
        for part in share.slices:
            for seat in part.seats:
                if not seat.gang_rank:
                    seats[seat.model].append((share.device, seat.rate_rps))
    for chain in demand.chains:
        hops: defaultdict[str, float] = defaultdict(float)
        for one, other in pairwise(chain.steps):
            total = sum(r for _, r in seats[one]) * sum(r for _, r in seats[other])
            for here, from_rps in seats[one]:
                for there, to_rps in seats[other]:
                    near = proximity(devices[here], devices[there], fleet.topologies)
                    ratio = from_rps * to_rps / total if total else 0.0
                    hops[near.name.lower()] += ratio / (len(chain.steps) - 1)
        yield ChainReach(chain=chain.name, hops=dict(hops))
