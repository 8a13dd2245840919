"""The devices that models may be placed on, and how each is shared today.

Plain values: read from a file, or from a driver by whoever can. Refuses to know how.
"""

from collections.abc import Mapping

from msgspec import Struct

from headway.core import DeviceName
from headway.plan.geometry import MigProduct, MigToday
from headway.plan.node_topology import NodeTopology

__all__ = ["Fleet", "FleetDevice"]


class FleetDevice(Struct, frozen=True, kw_only=True):
    """One GPU."""

    name: DeviceName
    """Unique in the fleet: `node1/gpu:0`."""
    node: str
    index: int
    """On its node, from 0, as the driver counts."""
    product: str
    """A key of the MIG table, `A100-80GB`, or any name for a GPU without MIG."""
    memory_bytes: int
    """Usable, outside MIG."""
    sm_count: int
    """Multiprocessors outside MIG."""
    uuid: str = ""
    """As the driver prints it, `GPU-…`; empty where it is not known."""
    has_mig: bool
    """It can be partitioned."""
    is_mig_enabled: bool = False
    """It is in MIG mode today."""
    instances: tuple[MigToday, ...] = ()
    """What exists today; in MIG mode only."""
    numa_node: int | None = None
    nvlink_domain: str | None = None
    """Devices of one domain reach each other over NVLink; None where there is none."""
    cost: float = 1.0
    """Of using the device at all, relative to the others; what a plan makes small."""


class Fleet(Struct, frozen=True, kw_only=True):
    """All devices.

    Invariants: names are unique, and so is the index within a node; devices of one product have the
    same memory and multiprocessors.
    """

    devices: tuple[FleetDevice, ...]
    speeds: Mapping[str, float]
    """By product: how fast a whole device is relative to the others, for models that were not
    measured on it. What it says is an assumption, and a plan that rests on it says so."""
    products: tuple[MigProduct, ...] = ()
    """Geometries that a driver told; of other products the table's are taken."""
    topologies: Mapping[str, NodeTopology] = {}
    """By node, where a matrix of its devices was read."""
