"""The fast path: models one after another into the place that leaves most room for the others.

Knows drafts and terms. The measure of a place is not free memory but what can still be cut: of the
places for an instance the one that leaves the most geometries (`remaining_geometries`) is taken.
First fit, which takes the first place that will do, is the yardstick that both this and the solver
have to beat.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.plan.cuts import Cut
from headway.plan.demand import Demand, ModelDemand, Spread
from headway.plan.drafts import DeviceDraft, SliceDraft
from headway.plan.fleet import FleetDevice
from headway.plan.geometry import Placement, places_beside, remaining_geometries
from headway.plan.node_topology import Proximity
from headway.plan.terms import Terms
from headway.plan.topology import proximity

__all__ = [
    "Layout",
    "Placer",
    "Strategy",
    "left_rps",
    "place_fast",
    "place_first_fit",
    "rank_of",
]

_NEAR_BONUS: Final = 0.1
"""Of a slice's load, what a place beside a chain's neighbour may waste for that; less farther
off."""
_KEPT: Final = 0.45
"""Of its size, what an instance that exists counts as: it serves whoever needs half of it or more,
and is cut up for whoever needs less."""
_DIGITS: Final = 6
"""Of costs and rates that are compared."""
_EMPTYING_TRIES_MAX: Final = 12
"""Devices that are tried to be emptied, the least filled first."""


@dataclass(slots=True)
class Layout:
    """Who is put where, and what found no place."""

    drafts: list[DeviceDraft]
    """One a device, in the fleet's order."""
    left: dict[ModelName, int] = field(default_factory=dict)
    """Portions without a place, by model; 0 of a model that no slice can have."""

    @property
    def cost(self) -> float:
        """Of the devices in use."""
        return sum(draft.device.cost for draft in self.drafts if draft.is_used)


class Strategy(NamedTuple):
    """How places are looked for."""

    is_best_fit: bool
    prefers_mig: bool = False
    """A device that can be cut is cut, whoever comes first."""


class _Spot(NamedTuple):
    """Where some portions may go: a slice of a device, or one that does not exist yet."""

    score: tuple[float, ...]
    """Smaller is better."""
    portions: int
    draft: DeviceDraft
    slice_draft: SliceDraft | None
    cut: Cut
    placement: Placement | None


def place_fast(terms: Terms) -> Layout:
    """Place by best fit, in two ways, and keep the better; each tries to empty devices again."""
    layouts = []
    for prefers_mig in (False, True):
        placer = Placer(terms, Strategy(is_best_fit=True, prefers_mig=prefers_mig))
        layouts.append(_emptied(placer.place(), terms, prefers_mig=prefers_mig))
    return min(layouts, key=lambda layout: (left_rps(layout, terms), layout.cost))


def place_first_fit(terms: Terms) -> Layout:
    """Place each model, in the order given, at the first place that has room."""
    return Placer(terms, Strategy(is_best_fit=False)).place()


def left_rps(layout: Layout, terms: Terms) -> float:
    """Requests a second that find no place."""
    return sum(
        count / terms.portions(name) * terms.models[name].rate_rps
        for name, count in layout.left.items()
        if count
    )


def rank_of(layout: Layout, terms: Terms) -> tuple[float, float]:
    """What is to be small: requests that are not served, then cost.

    Rounded, for the sums of two layouts are not added up in one order, and what is lost in the
    first may not be made up for by the second.
    """
    return round(left_rps(layout, terms), _DIGITS), round(layout.cost, _DIGITS)


class Placer:
    """One pass over models, onto devices that may be empty or not.

    Cost: a look at each slice for each model.
    """

    def __init__(
        self, terms: Terms, strategy: Strategy, drafts: list[DeviceDraft] | None = None
    ) -> None:
        self._terms = terms
        self._strategy = strategy
        devices = terms.fleet.devices
        self.drafts = [DeviceDraft.of(d) for d in devices] if drafts is None else drafts
        self._seats: defaultdict[ModelName, list[DeviceDraft]] = defaultdict(list)
        for draft in self.drafts:
            for name in draft.models():
                self._seats[name].append(draft)
        self._near = _neighbours(terms.demand)
        of_product = {device.product: device for device in devices}
        self._kinds = [(d, cut) for d in of_product.values() for cut in terms.cuts(d)]

    def place(self) -> Layout:
        """Every model."""
        layout = Layout(self.drafts)
        for model in self._in_order():
            count = self._terms.portions(model.name)
            is_gang = model.gang_devices > 1
            left = self._place_gangs(model, count) if is_gang else self.spread_out(model, count)
            if left or not count:
                layout.left[model.name] = left
        return layout

    def _in_order(self) -> list[ModelDemand]:
        """As given for first fit; else gangs, then the largest, so that small ones fill gaps."""
        models = list(self._terms.models.values())
        if not self._best_fit:
            return models
        return sorted(models, key=lambda model: (model.gang_devices == 1, -self.weight(model)))

    def weight(self, model: ModelDemand) -> float:
        """The least part of a device's cost that all of its portions take."""
        terms = self._terms
        weights = []
        for device, cut in self._kinds:
            own = terms.get(model.name, cut)
            if own is None:
                continue
            part = device.cost
            if cut.profile is not None:
                product = terms.product(device)
                part *= product.profile(cut.profile).size / product.memory_cells
            load = terms.portions(model.name) * terms.load(model.name, cut)
            memory = own.memory_bytes / cut.memory_bytes * model.replicas_min
            taken = max(load / own.load_max_alone, memory)
            weights.append(part * (max(1.0, taken) if terms.is_isolated(model.name) else taken))
        return min(weights, default=0.0)

    def spread_out(self, model: ModelDemand, count: int, without: DeviceDraft | None = None) -> int:
        """Put as many portions somewhere as there is room for; what is left is returned."""
        seats = self._seats[model.name]
        while count:
            if len(seats) >= model.replicas_max:
                return count
            # Enough must remain for the replicas that there are to be.
            wanted = max(1, count - max(0, model.replicas_min - len(seats) - 1))
            spot = self._spot(model, wanted, without)
            if spot is None:
                return count
            self._take(model.name, spot)
            count -= spot.portions
        return 0

    def _take(self, name: ModelName, spot: _Spot) -> None:
        into = spot.slice_draft
        if into is None:
            into = SliceDraft(spot.cut, spot.placement)
            spot.draft.slices.append(into)
            spot.draft.is_mig = spot.placement is not None
        if name not in into.portions:
            self._seats[name].append(spot.draft)
        into.put(name, spot.portions, self._terms)

    # --- which place ------------------------------------------------------------------------------

    def _spot(self, model: ModelDemand, wanted: int, without: DeviceDraft | None) -> _Spot | None:
        """In a slice that is there, else in a new one of a device in use, else on a free one."""
        for spots in (
            self._in_slices(model, wanted, without),
            self._in_new_slices(model, wanted, without),
            self._on_free_devices(model, wanted, without),
        ):
            best = min(spots, key=_score, default=None) if self._best_fit else next(spots, None)
            if best is not None:
                return best
        return None

    @property
    def _best_fit(self) -> bool:
        return self._strategy.is_best_fit

    def _in_slices(
        self, model: ModelDemand, wanted: int, without: DeviceDraft | None
    ) -> Iterator[_Spot]:
        name, terms = model.name, self._terms
        near = self._near_devices(name)
        needs_seat = len(self._seats[name]) < model.replicas_min
        for draft in self.drafts:
            if draft is without or not self._allows_node(model, draft):
                continue
            for into in draft.slices:
                if needs_seat and name in into.portions:
                    continue
                count = into.room_for(name, wanted, terms)
                if count and draft.admits(name, terms, into):
                    left = 1.0 - into.load - count * terms.load(name, into.cut)
                    left -= self._nearness(draft.device, near)
                    score = (-count, left)
                    yield _Spot(score, count, draft, into, into.cut, into.placement)

    def _in_new_slices(
        self, model: ModelDemand, wanted: int, without: DeviceDraft | None
    ) -> Iterator[_Spot]:
        for draft in self.drafts:
            if draft is not without and draft.is_mig and (draft.is_used or draft.busy):
                yield from self._cut_from(model, wanted, draft)

    def _cut_from(self, model: ModelDemand, wanted: int, draft: DeviceDraft) -> Iterator[_Spot]:
        """Instances that could be added to a device, one for each profile that has room."""
        name, terms = model.name, self._terms
        if not (self._allows_node(model, draft) and draft.admits(name, terms, None)):
            return
        product = terms.product(draft.device)
        placed = draft.placed
        today = {Placement(i.profile, i.start) for i in draft.device.instances}
        for cut in sorted(terms.cuts(draft.device)[1:], key=_size):
            count = SliceDraft(cut, None).room_for(name, wanted, terms)
            if not count:
                continue
            assert cut.profile is not None, "only the first cut is the whole device"
            free = places_beside(product, cut.profile, placed)
            if not free:
                continue
            place = free[0]
            if self._best_fit:
                place = max(
                    free, key=lambda p: (p in today, remaining_geometries(product, placed | {p}))
                )
            cost = draft.device.cost * cut.compute_ratio * (_KEPT if place in today else 1.0)
            yield _Spot((-count, cost, cut.memory_bytes), count, draft, None, cut, place)

    def _on_free_devices(
        self, model: ModelDemand, wanted: int, without: DeviceDraft | None
    ) -> Iterator[_Spot]:
        seen = set()
        for draft in self.drafts:
            device = draft.device
            if draft is without or draft.is_used or draft.busy:
                continue
            alike = (device.product, device.node, device.cost, device.instances)
            if self._best_fit and alike in seen:
                continue
            seen.add(alike)
            spots = list(self._opened(model, wanted, draft))
            yield from spots if self._best_fit else spots[:1]

    def _opened(self, model: ModelDemand, wanted: int, draft: DeviceDraft) -> Iterator[_Spot]:
        """Ways to begin on a free device: whole, or cut."""
        name, terms = model.name, self._terms
        whole = terms.cuts(draft.device)[0]
        can_cut = draft.device.has_mig and model.gang_devices == 1
        wants_cut = can_cut and (self._strategy.prefers_mig or terms.is_isolated(name))
        cut_spots = list(self._cut_from(model, wanted, draft)) if can_cut else []
        if wants_cut and cut_spots:
            yield from self._by_part(cut_spots, draft)
        if self._allows_node(model, draft) and draft.admits(name, terms, None):
            count = SliceDraft(whole, None).room_for(name, wanted, terms)
            if count:
                own = terms.get(name, whole)
                assert own is not None, "there is room for it"
                part = max(count * terms.load(name, whole), own.memory_bytes / whole.memory_bytes)
                part = 1.0 if terms.is_isolated(name) else part
                score = (draft.device.cost * part / count, draft.device.cost)
                yield _Spot(score, count, draft, None, whole, None)
        if cut_spots and not wants_cut:
            yield from self._by_part(cut_spots, draft)

    def _by_part(self, spots: Sequence[_Spot], draft: DeviceDraft) -> Iterator[_Spot]:
        """Scored by what they take of the device for each portion."""
        cost, cells = draft.device.cost, self._terms.product(draft.device).memory_cells
        for spot in spots:
            assert spot.cut.profile is not None, "these are cut"
            size = self._terms.product(draft.device).profile(spot.cut.profile).size
            yield spot._replace(score=(cost * size / cells / spot.portions, cost))

    def _allows_node(self, model: ModelDemand, draft: DeviceDraft) -> bool:
        if model.spread is not Spread.NODE:
            return True
        return all(
            other is draft or other.device.node != draft.device.node
            for other in self._seats[model.name]
        )

    def _near_devices(self, name: ModelName) -> list[FleetDevice]:
        """Where the neighbours in chains sit."""
        near = self._near.get(name, ())
        return [draft.device for other in near for draft in self._seats[other]]

    def _nearness(self, device: FleetDevice, near: Sequence[FleetDevice]) -> float:
        """What a place is worth for being near one of these."""
        if not near:
            return 0.0
        topologies = self._terms.fleet.topologies
        ranks = min(proximity(device, other, topologies) for other in near)
        return _NEAR_BONUS * (1.0 - ranks / Proximity.NETWORK)

    # --- gangs ------------------------------------------------------------------------------------

    def _place_gangs(self, model: ModelDemand, count: int) -> int:
        """Whole devices of one NVLink domain for each replica; how many found none."""
        for replica in range(min(count, model.replicas_max)):
            members = self._domain_for(model)
            if members is None:
                return count - replica
            for rank, draft in enumerate(members):
                into = SliceDraft(self._terms.cuts(draft.device)[0], None)
                into.put(model.name, 1, self._terms)
                into.is_gang = True
                draft.slices.append(into)
                draft.gang = (replica, rank)
                self._seats[model.name].append(draft)
        return max(0, count - model.replicas_max)

    def _domain_for(self, model: ModelDemand) -> list[DeviceDraft] | None:
        """The domain and product with the fewest free devices that are enough."""
        free: defaultdict[tuple[str, str], list[DeviceDraft]] = defaultdict(list)
        for draft in self.drafts:
            device = draft.device
            is_free = not draft.is_used and not draft.busy and device.nvlink_domain is not None
            if is_free and self._allows_node(model, draft):
                whole = self._terms.cuts(device)[0]
                if SliceDraft(whole, None).room_for(model.name, 1, self._terms):
                    free[device.nvlink_domain or "", device.product].append(draft)
        enough = [drafts for drafts in free.values() if len(drafts) >= model.gang_devices]
        if not enough:
            return None
        found = min(enough, key=lambda drafts: (drafts[0].device.cost, len(drafts)))
        return found[: model.gang_devices]


def _score(spot: _Spot) -> tuple[float, ...]:
    return spot.score


def _size(cut: Cut) -> tuple[int, int]:
    return cut.memory_bytes, cut.sm_count


def _neighbours(demand: Demand) -> dict[ModelName, set[ModelName]]:
    near: defaultdict[ModelName, set[ModelName]] = defaultdict(set)
    for chain in demand.chains:
        for one, other in zip(chain.steps, chain.steps[1:], strict=False):
            near[one].add(other)
            near[other].add(one)
    return dict(near)


# --- emptying devices again -----------------------------------------------------------------------


def _emptied(layout: Layout, terms: Terms, *, prefers_mig: bool) -> Layout:
    """The layout, after what sits on little-filled devices went elsewhere where that is cheaper."""
    strategy = Strategy(is_best_fit=True, prefers_mig=prefers_mig)
    for name in _least_filled(layout):
        drafts = [draft.copied() for draft in layout.drafts]
        emptied = next(draft for draft in drafts if draft.name == name)
        moved = emptied.empty()
        placer = Placer(terms, strategy, drafts)
        if all(
            placer.spread_out(terms.models[model], count, without=emptied) == 0
            for model, count in moved
        ):
            tried = Layout(drafts, layout.left)
            if tried.cost < layout.cost - 1e-9:
                layout = tried
    return layout


def _least_filled(layout: Layout) -> list[str]:
    movable = [d for d in layout.drafts if d.is_used and d.gang is None]
    # What costs most for what it carries goes first.
    movable.sort(key=lambda draft: draft.load_ratio / draft.device.cost)
    return [draft.name for draft in movable[:_EMPTYING_TRIES_MAX]]
