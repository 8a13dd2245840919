"""The processes that a plan asks for: who sits in which, on what, and which of them are alike.

A process is one `headway serve`. Seats that share by streams are one process together; under MPS
and in time slices each seat is one of its own; a gang's replica is one process over several
devices. Processes that are alike are one deployment with replicas. Knows plans and Kubernetes'
names of resources. Writes nothing.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from headway.core import ModelName, TenantId
from headway.errors import HeadwayError
from headway.plan import DeviceShare, PlacedSlice, Seat, SharingMode, SharingPlan
from headway.rollout.emission import dns_name
from headway.rollout.mps_daemons import client_of

__all__ = [
    "Deployable",
    "Place",
    "Server",
    "deployables_of",
    "is_used",
    "memory_of",
    "mig_resource",
    "node_affinity",
    "nodes_of",
    "servers_of",
]

_APART = frozenset({SharingMode.MPS, SharingMode.TIME_SLICE})


class Place(Struct, frozen=True):
    """A slice and the device that it is cut from."""

    share: DeviceShare
    slice: PlacedSlice


class Server(Struct, frozen=True, kw_only=True):
    """One process."""

    places: tuple[Place, ...]
    """More than one for a gang."""
    seats: tuple[Seat, ...]
    """Of a gang those of its first device."""

    @property
    def node(self) -> str:
        """Where it runs; a gang is on one node."""
        return self.places[0].share.node

    @property
    def inside(self) -> SharingMode:
        """How it shares its slice with other processes."""
        return self.places[0].slice.inside

    @property
    def profile(self) -> str | None:
        """Of its MIG instance."""
        return self.places[0].slice.profile

    @property
    def models(self) -> tuple[ModelName, ...]:
        """All that it holds, each once."""
        return tuple(sorted({seat.model for seat in self.seats}))

    @property
    def tenants(self) -> tuple[TenantId, ...]:
        """Whose models it holds."""
        return tuple(sorted({seat.tenant for seat in self.seats}))

    @property
    def memory_bytes(self) -> int:
        """What its seats need on one device."""
        return sum(memory_of(seat) for seat in self.seats)


class Deployable(Struct, frozen=True, kw_only=True):
    """Processes that are alike in all but their place."""

    name: str
    servers: tuple[Server, ...]

    @property
    def first(self) -> Server:
        """One of them, to say what all of them are."""
        return self.servers[0]

    @property
    def tenant(self) -> TenantId:
        """Who is accounted for it; of several the first by name."""
        return self.first.tenants[0]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Where its replicas were planned."""
        return tuple(sorted({server.node for server in self.servers}))

    @property
    def priority(self) -> int:
        """Of the most important model in it."""
        return min(seat.priority for seat in self.first.seats)

    @property
    def thread_percent(self) -> int | None:
        """Under MPS: of the one seat in it."""
        return self.first.seats[0].thread_percent

    @property
    def rate_rps(self) -> float:
        """Requests a second that one replica was planned for: the smallest of them, rounded up."""
        return min(sum(seat.rate_rps for seat in server.seats) for server in self.servers)

    def client_environment(self) -> dict[str, str]:
        """What makes an MPS client keep to its limits; it may only lower those of the daemon."""
        return client_of(self.first.seats[0]).limits()

    def resources(self) -> dict[str, int]:
        """What NVIDIA's device plugin calls its part of a device, and how many of it."""
        server = self.first
        if server.profile is not None:
            suffix = ".shared" if server.inside is SharingMode.TIME_SLICE else ""
            return {mig_resource(server.profile) + suffix: len(server.places)}
        suffix = ".shared" if server.inside in _APART else ""
        return {f"nvidia.com/gpu{suffix}": len(server.places)}


def servers_of(plan: SharingPlan) -> list[Server]:
    """Every process of the plan, in the order of its devices.

    Raises:
        HeadwayError: a gang is spread over several nodes, where one process cannot be.
    """
    gangs: dict[tuple[ModelName, int], list[Place]] = {}
    for place in _places(plan):
        for seat in place.slice.seats:
            gangs.setdefault((seat.model, seat.replica), []).append(place)
    servers: list[Server] = []
    for place in _places(plan):
        alone = []
        for seat in place.slice.seats:
            whole_gang = gangs[seat.model, seat.replica]
            if len(whole_gang) == 1:
                alone.append(seat)
            elif seat.gang_rank == 0:
                servers.append(_gang(seat, whole_gang))
        groups = [[seat] for seat in alone] if place.slice.inside in _APART else [alone]
        servers += [Server(places=(place,), seats=tuple(group)) for group in groups if group]
    return servers


def deployables_of(plan: SharingPlan) -> list[Deployable]:
    """Processes that are alike together, in the order in which the first of each comes."""
    groups: dict[tuple[object, ...], list[Server]] = {}
    for server in servers_of(plan):
        groups.setdefault(_likeness(server), []).append(server)
    taken: dict[str, int] = {}
    found = []
    for group in groups.values():
        stem = dns_name("-".join(group[0].models))
        taken[stem] = taken.get(stem, 0) + 1
        name = stem if taken[stem] == 1 else f"{stem}-{taken[stem]}"
        found.append(Deployable(name=name, servers=tuple(group)))
    return found


def nodes_of(plan: SharingPlan) -> dict[str, list[DeviceShare]]:
    """The devices of each node, in the plan's order."""
    found: dict[str, list[DeviceShare]] = {}
    for share in plan.devices:
        found.setdefault(share.node, []).append(share)
    return found


def mig_resource(profile: str) -> str:
    """The resource of a MIG profile: `+` is none of the characters that a name may have."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def node_affinity(nodes: Sequence[str]) -> dict[str, object]:
    """A pod's wish to be on the nodes that it was planned for."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def is_used(share: DeviceShare) -> bool:
    """Whether anyone sits on a device; one on which nobody does is left as it is."""
    return any(piece.seats for piece in share.slices)


def memory_of(seat: Seat) -> int:
    """What a process may hold for a seat: its limit, where it has one."""
    return seat.memory_limit_bytes or seat.memory_bytes


def _gang(seat: Seat, places: Sequence[Place]) -> Server:
    nodes = sorted({place.share.node for place in places})
    if len(nodes) > 1:
        raise HeadwayError(
            f"replica `{seat.replica}` of `{seat.model}` is on several nodes: {', '.join(nodes)}",
            hint="a server is one process; give each node NVLink domains of its own in the fleet",
        )
    return Server(places=tuple(places), seats=(seat,))


def _places(plan: SharingPlan) -> Iterator[Place]:
    for share in plan.devices:
        for piece in share.slices:
            if piece.seats:
                yield Place(share, piece)


def _likeness(server: Server) -> tuple[object, ...]:
    """What two processes must have in common to be replicas of one another."""
    return (
        server.models,
        server.tenants,
        server.profile,
        server.inside,
        len(server.places),
        server.places[0].share.product,
        tuple(
            (
                *(seat.model, seat.batch_rows),
                *(seat.thread_percent, seat.memory_limit_bytes, seat.client_priority),
            )
            for seat in server.seats
        ),
    )
