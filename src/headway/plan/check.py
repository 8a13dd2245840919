"""Whether a plan is legal: every constraint, looked at from the plan alone.

Knows the demand, the fleet and the plan. Shares with those who make plans the rule of one seat
(`seats`) and the table of profiles, and nothing else: sums, pairs and places are worked out anew.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.plan.cuts import Cut
from headway.plan.demand import Demand, IsolationNeed, ModelDemand, Spread
from headway.plan.fleet import Fleet, FleetDevice
from headway.plan.geometry import MigProduct, Placement, mig_product, placement_problems
from headway.plan.seats import LOAD_MAX, Refusal, SeatTerms, clients_max, seat_terms
from headway.plan.sharing import DeviceShare, PlacedSlice, Seat, SharingMode, SharingPlan

__all__ = ["Breach", "breaches"]

_EPSILON: Final = 1e-6
_APART: Final = frozenset({IsolationNeed.FAULT, IsolationNeed.STRONG})


class Breach(NamedTuple):
    """One thing that a plan may not do."""

    where: str
    """The device, the slice or the model."""
    what: str


def breaches(plan: SharingPlan, demand: Demand, fleet: Fleet) -> list[Breach]:
    """Everything about a plan that is not allowed; nothing where it is legal."""
    return list(_Court(plan, demand, fleet).all())


class _Court:
    def __init__(self, plan: SharingPlan, demand: Demand, fleet: Fleet) -> None:
        self._plan = plan
        self._demand = demand
        self._fleet = fleet
        self._models = {model.name: model for model in demand.models}
        self._products = {product.name: product for product in fleet.products}

    def all(self) -> Iterator[Breach]:
        """Devices, slices, then models."""
        names = [device.name for device in self._fleet.devices]
        if [share.device for share in self._plan.devices] != names:
            yield Breach("plan", "its devices are not those of the fleet, each once and in order")
            return
        for device, share in zip(self._fleet.devices, self._plan.devices, strict=True):
            yield from self._device(device, share)
            for part in share.slices:
                yield from self._slice(device, share, part)
        for model in self._demand.models:
            yield from self._rates(model)
            yield from self._replicas(model)
        used = [
            d for d, s in zip(self._fleet.devices, self._plan.devices, strict=True) if _seats(s)
        ]
        cost = sum(device.cost for device in used)
        if abs(cost - self._plan.cost) > _EPSILON:
            yield Breach("plan", f"says it costs {self._plan.cost:g}, its devices cost {cost:g}")
        if self._plan.cost_bound > cost + _EPSILON and not self._plan.unplaced:
            yield Breach("plan", f"costs {cost:g}, less than the bound {self._plan.cost_bound:g}")

    # --- devices ----------------------------------------------------------------------------------

    def _device(self, device: FleetDevice, share: DeviceShare) -> Iterator[Breach]:
        where = str(device.name)
        if share.mode is SharingMode.MIG:
            if not device.has_mig:
                yield Breach(where, f"`{device.product}` cannot be partitioned")
                return
            yield from self._instances(device, share)
        else:
            if len(share.slices) > 1:
                yield Breach(where, f"{len(share.slices)} slices without MIG")
            if any(part.profile is not None for part in share.slices):
                yield Breach(where, "an instance without MIG")
            if any(instance.is_busy for instance in device.instances) and _seats(share):
                yield Breach(where, "busy instances, and the device is to be whole")
        yield from self._apart(where, share)

    def _instances(self, device: FleetDevice, share: DeviceShare) -> Iterator[Breach]:
        where = str(device.name)
        placed = [Placement(part.profile or "", part.start or 0) for part in share.slices]
        for problem in placement_problems(self._product(device), placed):
            yield Breach(where, problem)
        for instance in device.instances:
            place = Placement(instance.profile, instance.start)
            if not instance.is_busy:
                if place not in placed and str(place) not in share.must_be_idle:
                    yield Breach(where, f"{place} goes, and the plan does not say it must be idle")
                continue
            here = [part for part, spot in zip(share.slices, placed, strict=True) if spot == place]
            if not here and _seats(share):
                yield Breach(where, f"{place} is busy, and is not in the plan")
            if any(part.seats for part in here):
                yield Breach(where, f"{place} is busy, and is given away")

    def _apart(self, where: str, share: DeviceShare) -> Iterator[Breach]:
        seats = _seats(share)
        for index, one in enumerate(seats):
            for other in seats[index + 1 :]:
                if other.model in self._models[one.model].apart_from or (
                    one.model in self._models[other.model].apart_from
                ):
                    yield Breach(where, f"`{one.model}` and `{other.model}` are to be apart")

    # --- slices -----------------------------------------------------------------------------------

    def _slice(
        self, device: FleetDevice, share: DeviceShare, part: PlacedSlice
    ) -> Iterator[Breach]:
        where = str(device.name)
        if part.profile is not None:
            where = f"{device.name}/{part.profile}@{part.start}"
        sm_count, memory_bytes = device.sm_count, device.memory_bytes
        if part.profile is not None:
            profile = self._product(device).profile(part.profile)
            sm_count, memory_bytes = profile.sm_count, profile.memory_bytes
        if (part.sm_count, part.memory_bytes) != (sm_count, memory_bytes):
            yield Breach(where, "its size is not the profile's")
        if not part.seats:
            return
        cut = Cut(device.product, part.profile, sm_count, device.sm_count, memory_bytes)
        yield from self._isolation(where, part)
        seated = []
        for seat in part.seats:
            model = self._models[seat.model]
            own = seat_terms(model, cut, self._fleet.speeds)
            if isinstance(own, Refusal):
                yield Breach(where, f"`{seat.model}` cannot sit here: {own.why}")
                return
            if model.gang_devices > 1 and (part.profile is not None or len(part.seats) > 1):
                yield Breach(where, f"`{seat.model}` takes whole devices for itself")
            seated.append((seat, model, own))
        yield from _sums(where, cut, part, seated)
        yield from _limits(where, part)

    def _isolation(self, where: str, part: PlacedSlice) -> Iterator[Breach]:
        tenants = {self._models[seat.model].tenant for seat in part.seats}
        apart = [tenant for tenant in tenants if self._demand.isolation[tenant] in _APART]
        if len(tenants) > 1 and apart:
            yield Breach(where, f"tenant `{apart[0]}` is beside others")
        limited = [t for t in tenants if self._demand.isolation[t] is IsolationNeed.MEMORY]
        if len(tenants) > 1 and limited and part.inside is not SharingMode.MPS:
            yield Breach(where, f"tenant `{limited[0]}` has no memory limit in {part.inside}")

    # --- models -----------------------------------------------------------------------------------

    def _rates(self, model: ModelDemand) -> Iterator[Breach]:
        placed = sum(seat.rate_rps for _, seat in self._seats_of(model.name) if seat.gang_rank == 0)
        left = sum(u.rate_rps for u in self._plan.unplaced if u.model == model.name)
        if abs(placed + left - model.rate_rps) > _EPSILON * max(1.0, model.rate_rps):
            wanted = f"{placed:g} of {model.rate_rps:g} requests/s placed, {left:g} said to be left"
            yield Breach(str(model.name), wanted)

    def _replicas(self, model: ModelDemand) -> Iterator[Breach]:
        where = str(model.name)
        seats = self._seats_of(model.name)
        by_replica: defaultdict[int, list[DeviceShare]] = defaultdict(list)
        for share, seat in seats:
            by_replica[seat.replica].append(share)
        is_whole = not any(u.model == model.name for u in self._plan.unplaced)
        if is_whole and len(by_replica) < model.replicas_min:
            yield Breach(where, f"{len(by_replica)} replicas, {model.replicas_min} are wanted")
        if len(by_replica) > model.replicas_max:
            yield Breach(where, f"{len(by_replica)} replicas, {model.replicas_max} are allowed")
        for replica, shares in by_replica.items():
            if len(shares) != model.gang_devices:
                what = f"replica {replica} sits on {len(shares)} devices, not {model.gang_devices}"
                yield Breach(where, what)
            elif model.gang_devices > 1:
                yield from self._gang(where, replica, shares)
        yield from self._spread(model, list(by_replica.values()))

    def _gang(self, where: str, replica: int, shares: Sequence[DeviceShare]) -> Iterator[Breach]:
        devices = {device.name: device for device in self._fleet.devices}
        domains = {devices[share.device].nvlink_domain for share in shares}
        if len(domains) != 1 or None in domains:
            yield Breach(where, f"replica {replica} is not in one NVLink domain")
        if len({share.device for share in shares}) != len(shares):
            yield Breach(where, f"replica {replica} has two parts on one device")

    def _spread(
        self, model: ModelDemand, replicas: Sequence[Sequence[DeviceShare]]
    ) -> Iterator[Breach]:
        match model.spread:
            case Spread.NONE:
                return
            case Spread.DEVICE:
                places = [str(share.device) for shares in replicas for share in shares]
            case Spread.NODE:
                places = [node for shares in replicas for node in {share.node for share in shares}]
        for place, count in Counter(places).items():
            if count > 1:
                yield Breach(str(model.name), f"{count} replicas on `{place}`")

    def _seats_of(self, name: ModelName) -> list[tuple[DeviceShare, Seat]]:
        return [
            (share, seat)
            for share in self._plan.devices
            for seat in _seats(share)
            if seat.model == name
        ]

    def _product(self, device: FleetDevice) -> MigProduct:
        return self._products.get(device.product) or mig_product(device.product)


def _seats(share: DeviceShare) -> list[Seat]:
    return [seat for part in share.slices for seat in part.seats]


def _sums(
    where: str,
    cut: Cut,
    part: PlacedSlice,
    seated: Sequence[tuple[Seat, ModelDemand, SeatTerms]],
) -> Iterator[Breach]:
    """Memory, places and loads of a slice."""
    needed = sum(own.memory_bytes for _, _, own in seated)
    if needed > part.memory_bytes:
        yield Breach(where, f"needs {needed} bytes, has {part.memory_bytes}")
    if len(seated) > clients_max(cut):
        yield Breach(where, f"{len(seated)} seats, {clients_max(cut)} are possible")
    if len({seat.model for seat, _, _ in seated}) != len(seated):
        yield Breach(where, "a model has two seats in it")
    total = 0.0
    for seat, _, own in seated:
        load = own.load_of_rps * seat.rate_rps
        total += load
        if abs(load - seat.load_ratio) > _EPSILON:
            yield Breach(where, f"`{seat.model}` says load {seat.load_ratio:g}, it is {load:g}")
        if (seat.memory_bytes, seat.batch_rows) != (own.memory_bytes, own.batch_rows):
            said = f"{seat.memory_bytes} bytes and batches of {seat.batch_rows}"
            yield Breach(where, f"`{seat.model}` says {said}")
    if total > LOAD_MAX + _EPSILON:
        yield Breach(where, f"load {total:g}")
    for seat, model, own in seated:
        yield from _beside(where, seat, model, own, seated)


def _beside(
    where: str,
    seat: Seat,
    model: ModelDemand,
    own: SeatTerms,
    seated: Sequence[tuple[Seat, ModelDemand, SeatTerms]],
) -> Iterator[Breach]:
    """Whether one model keeps its deadlines beside the others."""
    if len(seated) == 1:
        if seat.load_ratio > own.load_max_alone + _EPSILON:
            yield Breach(where, f"`{seat.model}` alone has load {seat.load_ratio:g}")
        return
    before = ahead = 0.0
    for other, other_model, theirs in seated:
        if other_model.priority > model.priority:
            if theirs.batch_ns > own.blocking_max_ns:
                yield Breach(where, f"batches of `{other.model}` are too long for `{seat.model}`")
            continue
        pressure = other.rate_rps * theirs.work.pressure(own.decay_per_s)
        before += pressure
        ahead += pressure if other_model.priority < model.priority else 0.0
    if before > 1.0 + _EPSILON:
        yield Breach(where, f"`{seat.model}` waits behind a pressure of {before:g}")
    if ahead > own.ahead_max + _EPSILON:
        yield Breach(where, f"`{seat.model}` is overtaken by a pressure of {ahead:g}")


def _limits(where: str, part: PlacedSlice) -> Iterator[Breach]:
    """What MPS is told of each client."""
    for seat in part.seats:
        has_limits = seat.memory_limit_bytes is not None and seat.thread_percent is not None
        if has_limits is not (part.inside is SharingMode.MPS):
            yield Breach(where, f"`{seat.model}` has limits other than {part.inside} gives")
        if seat.memory_limit_bytes is not None and seat.memory_limit_bytes < seat.memory_bytes:
            yield Breach(where, f"`{seat.model}` is limited to less memory than it needs")
        if seat.thread_percent is not None and not 1 <= seat.thread_percent <= 100:
            yield Breach(where, f"`{seat.model}` has {seat.thread_percent} % of the threads")
    if len(part.seats) <= 1 and part.inside is not SharingMode.WHOLE:
        yield Breach(where, f"{part.inside} for {len(part.seats)} seats")
    if len(part.seats) > 1 and part.inside in {SharingMode.WHOLE, SharingMode.MIG}:
        yield Breach(where, f"{part.inside} for {len(part.seats)} seats")
