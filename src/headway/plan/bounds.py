"""What no plan can do better than: the least that the devices in use may cost.

Knows the rule of seats, and forgets of it what makes placing hard: which models share a slice, and
which device a slice is of. What remains are counts. So many slices of each kind are cut; in them a
model has so many seats, each of which takes its memory and bears at most its own load; a tenant
that needs isolation has slices of its own; and the slices of each kind must carry all memory and
load.

Waiting is also counted by importance. In a slice, of those of level p and above, the one who waits
longest bears no more than a pressure of 1 of all of them, at the decay that he needs. So at the
least decay that anybody of these levels needs, or alone, they add up to no more than 1 a slice.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import ceil, gcd, inf
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.plan.cuts import Cut
from headway.plan.demand import ModelDemand, Spread
from headway.plan.drafts import DeviceDraft
from headway.plan.fleet import FleetDevice
from headway.plan.geometry import Placement, geometries_beside
from headway.plan.linear import LinearProgram, Settled
from headway.plan.program import Effort
from headway.plan.seats import LOAD_MAX, SeatTerms, clients_max
from headway.plan.terms import Terms

__all__ = ["Bound", "quick_bound", "solved_bound"]

_CENTS: Final = 100
"""Of a device's cost."""
_NODES_PER_WORK_S: Final = 100_000
"""Branches that count as a second of work, times variables: each costs a program of its own."""
_SLACK: Final = 1e-6
"""By which a solver's figure may be off."""
_PACKING_MAX: Final = 4
_CLIQUES_MAX: Final = 12
_CLIQUE_MODELS_MAX: Final = 200
"""Models among which some are looked for of which no two share a slice."""


class Bound(NamedTuple):
    """What no plan can better."""

    cost: float
    """Of a plan that serves everything."""
    served_ratio: float
    """Of all requests, the most that can be served: below 1 nothing serves everything."""
    is_settled: bool = True
    """The solver had time to close the question; else a longer look might find a better bound."""


def quick_bound(terms: Terms) -> float:
    """The parts of devices that loads, or memories, take at least; needs no solver.

    A slice is a part of its device by the memory cells that it covers, and a portion of a model is
    a part of a slice by its load, or a seat by its memory. Each takes the kind of slice where that
    is cheapest.
    """
    loads, memories = 0.0, 0.0
    shares = [(cut, _share(terms, device, cut)) for device, cut in _cuts(terms)]
    for name, model in terms.models.items():
        known = [(cut, cost, own) for cut, cost in shares if (own := terms.get(name, cut))]
        if not known:
            continue
        gang = model.gang_devices
        if gang > 1:
            whole = min(cost for _, cost, _ in known) * gang * terms.portions(name)
            loads, memories = loads + whole, memories + whole
            continue
        loads += min(c * own.load_of_rps * model.rate_rps / LOAD_MAX for _, c, own in known)
        memories += model.replicas_min * min(
            c * own.memory_bytes / cut.memory_bytes for cut, c, own in known
        )
    return _reachable(terms, max(loads, memories))


def _cuts(terms: Terms) -> Iterator[tuple[FleetDevice, Cut]]:
    """Each kind of slice, with the cheapest device that has it."""
    cheapest: dict[str, FleetDevice] = {}
    for device in terms.fleet.devices:
        known = cheapest.get(device.product)
        if known is None or device.cost < known.cost:
            cheapest[device.product] = device
    for device in cheapest.values():
        for cut in terms.cuts(device):
            yield device, cut


def _share(terms: Terms, device: FleetDevice, cut: Cut) -> float:
    if cut.profile is None:
        return device.cost
    product = terms.product(device)
    return device.cost * product.profile(cut.profile).size / product.memory_cells


def _reachable(terms: Terms, cost: float) -> float:
    """The least cost that is no less and that can be had."""
    step = _step(terms)
    return ceil(cost / step - _SLACK) * step if step else cost


def _step(terms: Terms) -> float:
    """What all costs are multiples of; 0 where that is less than a cent."""
    cents = [round(device.cost * _CENTS) for device in terms.fleet.devices]
    exact = zip(terms.fleet.devices, cents, strict=True)
    if any(abs(device.cost * _CENTS - count) > _SLACK for device, count in exact):
        return 0.0
    return gcd(*cents) / _CENTS


# --- by the solver --------------------------------------------------------------------------------


_Sum = list[tuple[int, float]]
"""Variables and their weights."""


class _Kind(NamedTuple):
    """Devices that are alike."""

    product: str
    cost: float
    busy: frozenset[Placement]
    has_domain: bool


class _Counts:
    """The counts of a plan, as a linear program, some of them whole numbers.

    Args:
        terms: of the question.
        is_whole: everything is to be served, at a low cost; else what is left is to be small.
    """

    def __init__(self, terms: Terms, *, is_whole: bool) -> None:
        self._terms = terms
        self._is_whole = is_whole
        self.program = LinearProgram()
        self._devices: dict[str, FleetDevice] = {}
        self._supply: defaultdict[Cut, _Sum] = defaultdict(list)
        self._taken: defaultdict[Cut, list[int]] = defaultdict(list)
        self._products: defaultdict[str, list[int]] = defaultdict(list)
        self._gang_rooms: list[tuple[_Kind, int, list[int]]] = []
        self._seats: dict[tuple[ModelName, Cut], int] = {}
        self._parts: dict[tuple[ModelName, Cut], int] = {}
        self._add_devices()
        for owner, models in self._groups().items():
            self._add_group(models, is_owner=bool(owner))
        total = sum(model.rate_rps for model in terms.models.values()) or 1.0
        for model in terms.models.values():
            self._add_model(model, model.rate_rps / total)
        self._add_supply()

    def _groups(self) -> dict[str, list[ModelDemand]]:
        """Models by the tenant that shares with nobody; all others together."""
        groups: defaultdict[str, list[ModelDemand]] = defaultdict(list)
        for model in self._terms.models.values():
            if model.gang_devices == 1:
                owner = str(model.tenant) if self._terms.is_isolated(model.name) else ""
                groups[owner].append(model)
        return dict(groups)

    def _add_devices(self) -> None:
        kinds: Counter[_Kind] = Counter()
        for device in self._terms.fleet.devices:
            busy = DeviceDraft.of(device).busy
            kind = _Kind(device.product, device.cost, busy, device.nvlink_domain is not None)
            kinds[kind] += 1
            self._devices[device.product] = device
        for kind, count in kinds.items():
            device = self._devices[kind.product]
            ways: list[int] = []
            whole, *parts = self._terms.cuts(device)
            if not kind.busy:
                ways.append(self._way(kind, count))
                self._supply[whole].append((ways[0], 1))
                self._gang_rooms.append((kind, ways[0], []))
            if device.has_mig:
                for names in geometries_beside(self._terms.product(device), kind.busy):
                    way = self._way(kind, count)
                    ways.append(way)
                    for cut in parts:
                        if here := names.count(cut.profile or ""):
                            self._supply[cut].append((way, here))
            self._row(ways, most=count)
            self._products[kind.product] += ways

    def _way(self, kind: _Kind, count: int) -> int:
        """How many devices of a kind are cut in one way."""
        cost = kind.cost if self._is_whole else 0.0
        return self.program.number(count, cost=cost, is_whole=True)

    def _add_group(self, models: Sequence[ModelDemand], *, is_owner: bool) -> None:
        """Slices of each kind for models that may share: memory, load, places."""
        for cut in self._terms.every_cut:
            known = [(m, own) for m in models if (own := self._terms.get(m.name, cut))]
            if not known:
                continue
            # An owner's slices are its own, so that parts of them are of no use to anybody else.
            count = self.program.number(is_whole=is_owner)
            self._taken[cut].append(count)
            for model, own in known:
                self._add_seat(model, own, cut, count)
            seats = [self._seats[m.name, cut] for m, _ in known]
            parts = [self._parts[m.name, cut] for m, _ in known]
            self._fits(seats, [own.memory_bytes / cut.memory_bytes for _, own in known], count)
            self._fits(seats, [1 / clients_max(cut)] * len(seats), count)
            self._add_packing(known, cut, count)
            self._fits(parts, [_load(m, own) / LOAD_MAX for m, own in known], count)
            self._add_levels(known, cut, count)

    def _add_packing(
        self, known: Sequence[tuple[ModelDemand, SeatTerms]], cut: Cut, count: int
    ) -> None:
        """Memories do not add up to whole slices: of those above a half a slice holds one.

        And so on for thirds and quarters: with x the part of a slice, if the x of what sits in one
        add up to 1 at most, so do u(x) = x where (k + 1) x is whole, and else floor((k + 1) x) / k.
        """
        seats = [self._seats[m.name, cut] for m, _ in known]
        for k in range(1, _PACKING_MAX + 1):
            weights = []
            for _, own in known:
                parts, rest = divmod((k + 1) * own.memory_bytes, cut.memory_bytes)
                weights.append(parts / k if rest else parts / (k + 1))
            self._fits(seats, weights, count)
        if len(known) <= _CLIQUE_MODELS_MAX:
            for clique in _cliques([m for m, _ in known], cut, self._terms):
                self._fits([self._seats[name, cut] for name in clique], [1.0] * len(clique), count)

    def _add_seat(self, model: ModelDemand, own: SeatTerms, cut: Cut, count: int) -> None:
        """A slice has one seat of a model at most, which bears no more than its own load."""
        seats, parts = self.program.number(model.replicas_max), self.program.number(1.0)
        self.program.row([(parts, _load(model, own)), (seats, -own.load_max_alone)], most=0.0)
        self.program.row([(parts, 1), (seats, -1)], most=0.0)
        self.program.row([(seats, 1), (count, -1)], most=0.0)
        self._seats[model.name, cut] = seats
        self._parts[model.name, cut] = parts

    def _add_levels(
        self, known: Sequence[tuple[ModelDemand, SeatTerms]], cut: Cut, count: int
    ) -> None:
        """What the pressures of each importance and above may come to; see the module."""
        for level in sorted({model.priority for model, _ in known}):
            here = [(m, own) for m, own in known if m.priority <= level]
            decay = min(own.decay_per_s for _, own in here)
            weights = []
            for m, own in here:
                alone = _load(m, own) / own.load_max_alone
                beside = m.rate_rps * own.work.pressure(decay) if decay < inf else inf
                weights.append(min(alone, beside))
            self._fits([self._parts[m.name, cut] for m, _ in here], weights, count)

    def _add_model(self, model: ModelDemand, weight: float) -> None:
        """All of it sits somewhere, or is left."""
        left = self.program.number(0.0 if self._is_whole else 1.0, cost=weight)
        if model.gang_devices > 1:
            self._add_gang(model, left)
            return
        cuts = [cut for (name, cut) in self._parts if name == model.name]
        seats = [self._seats[model.name, cut] for cut in cuts]
        self._row([*(self._parts[model.name, cut] for cut in cuts), left], least=1)
        least = model.replicas_min if self._is_whole else 0
        self._row(seats, least=least, most=model.replicas_max)
        if model.spread is not Spread.NONE:
            for product, ways in self._products.items():
                mine = [self._seats[model.name, cut] for cut in cuts if cut.product == product]
                self.program.row([*((m, 1) for m in mine), *((w, -1) for w in ways)], most=0.0)

    def _add_gang(self, model: ModelDemand, left: int) -> None:
        """Devices of its own for each replica: a number of them for each kind."""
        devices: list[int] = []
        for kind, _, taken in self._gang_rooms:
            whole = self._terms.cuts(self._devices[kind.product])[0]
            if kind.has_domain and self._terms.get(model.name, whole) is not None:
                count = self.program.number()
                taken.append(count)
                devices.append(count)
        needed = model.gang_devices * self._terms.portions(model.name)
        self.program.row([*((count, 1) for count in devices), (left, needed)], least=needed)

    def _add_supply(self) -> None:
        """No more slices than are cut, and whole devices for gangs among them."""
        gangs: defaultdict[Cut, list[int]] = defaultdict(list)
        for kind, way, taken in self._gang_rooms:
            if taken:
                self._fits(taken, [1.0] * len(taken), way)
                gangs[self._terms.cuts(self._devices[kind.product])[0]] += taken
        for cut in {**self._taken, **gangs}:
            taken = [*self._taken.get(cut, ()), *gangs.get(cut, ())]
            supply = [(way, -here) for way, here in self._supply[cut]]
            self.program.row([*((count, 1) for count in taken), *supply], most=0.0)

    def _row(self, variables: Sequence[int], *, least: float = -inf, most: float = inf) -> None:
        self.program.row([(variable, 1) for variable in variables], least=least, most=most)

    def _fits(self, variables: Sequence[int], weights: Sequence[float], count: int) -> None:
        """Parts of slices add up to no more than there are slices."""
        terms = [(v, w) for v, w in zip(variables, weights, strict=True) if w]
        if terms:
            self.program.row([*terms, (count, -1)], most=0.0)


def _load(model: ModelDemand, own: SeatTerms) -> float:
    """Of all of a model's requests."""
    return own.load_of_rps * model.rate_rps


def _cliques(models: Sequence[ModelDemand], cut: Cut, terms: Terms) -> Iterator[list[ModelName]]:
    """Models of which no two share a slice: sets found greedily, until everybody was in one."""
    left = [m.name for m in sorted(models, key=lambda model: model.budget_ns)]
    for _ in range(_CLIQUES_MAX):
        clique: list[ModelName] = []
        for name in left:
            if not any(terms.shares(name, other, cut) for other in clique):
                clique.append(name)
        left = [name for name in left if name not in clique]
        if len(clique) > 1:
            yield clique
        if not left:
            return


def solved_bound(terms: Terms, effort: Effort) -> Bound:
    """The least cost by the solver, or the most that can be served where not all can be.

    Raises:
        HeadwayError: SciPy is not installed.
    """
    known = quick_bound(terms)
    if all(terms.portions(name) for name in terms.models):
        found = _solve(_Counts(terms, is_whole=True), effort)
        if found.bound < inf:
            cost = max(known, _reachable(terms, found.bound - _SLACK)) if found.bound > 0 else known
            return Bound(cost, 1.0, found.is_settled)
    found = _solve(_Counts(terms, is_whole=False), effort)
    lost = min(1.0, max(0.0, found.bound - _SLACK))
    return Bound(known, 1.0 - lost, found.is_settled)


def _solve(counts: _Counts, effort: Effort) -> Settled:
    program = counts.program
    nodes_max = max(1, round(effort.work_s * _NODES_PER_WORK_S / max(1, program.size)))
    return program.minimum(nodes_max=nodes_max, wall_s=effort.wall_s)
