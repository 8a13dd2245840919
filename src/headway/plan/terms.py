"""What every model costs in every kind of slice of a fleet, worked out once and only where asked.

Knows a demand and a fleet. Refuses to place anything.
"""

from collections.abc import Mapping
from functools import cached_property
from math import ceil
from typing import Final

from headway.core import ModelName, TenantId
from headway.plan.cuts import Cut, cut_of, whole_cut
from headway.plan.demand import Demand, IsolationNeed, ModelDemand
from headway.plan.fleet import Fleet, FleetDevice
from headway.plan.geometry import MigProduct, mig_product
from headway.plan.seats import (
    PORTION_LOAD,
    PORTIONS_MAX,
    Refusal,
    SeatTerms,
    can_share,
    seat_terms,
)

__all__ = ["ISOLATED", "Terms"]

ISOLATED: Final = frozenset({IsolationNeed.FAULT, IsolationNeed.STRONG})
"""Needs of tenants that share no slice with others."""


class Terms:
    """Terms of seats by model and cut.

    Invariants: what is asked twice is the same object. Portions are equal parts of a model's load;
    a seat has a whole number of them.
    """

    def __init__(self, demand: Demand, fleet: Fleet) -> None:
        self.demand = demand
        self.fleet = fleet
        self.models: dict[ModelName, ModelDemand] = {m.name: m for m in demand.models}
        self.isolation: Mapping[TenantId, IsolationNeed] = demand.isolation
        self._told = {product.name: product for product in fleet.products}
        self._known: dict[tuple[ModelName, Cut], SeatTerms | Refusal] = {}
        self._fitting: dict[tuple[ModelName, Cut], SeatTerms | None] = {}
        """The same without reasons, for it is asked most."""
        self._cuts: dict[str, tuple[Cut, ...]] = {}
        self._pairs: dict[tuple[ModelName, ModelName, Cut], bool] = {}
        self._portions: dict[ModelName, int] = {}
        self._loads: dict[tuple[ModelName, Cut], float] = {}
        self._pressures: dict[tuple[ModelName, ModelName, Cut], float] = {}
        self._products: dict[str, MigProduct] = {}

    def product(self, device: FleetDevice) -> MigProduct:
        """The MIG geometry of a device that has one."""
        name = device.product
        if name not in self._products:
            self._products[name] = self._told.get(name) or mig_product(name)
        return self._products[name]

    def cuts(self, device: FleetDevice) -> tuple[Cut, ...]:
        """The whole device, and every plain profile of its."""
        if device.product not in self._cuts:
            profiles = self.product(device).plain if device.has_mig else ()
            whole = whole_cut(device)
            self._cuts[device.product] = (whole, *(cut_of(device, p) for p in profiles))
        return self._cuts[device.product]

    @cached_property
    def every_cut(self) -> tuple[Cut, ...]:
        """Of the fleet, each once."""
        return tuple(dict.fromkeys(cut for d in self.fleet.devices for cut in self.cuts(d)))

    def get(self, name: ModelName, cut: Cut) -> SeatTerms | None:
        """What a model costs in a cut; None where it cannot sit there."""
        key = (name, cut)
        try:
            return self._fitting[key]
        except KeyError:
            told = self.told(name, cut)
            found = self._fitting[key] = told if isinstance(told, SeatTerms) else None
            return found

    def told(self, name: ModelName, cut: Cut) -> SeatTerms | Refusal:
        """The same, with the reason where it cannot."""
        key = (name, cut)
        found = self._known.get(key)
        if found is None:
            model = self.models[name]
            if model.gang_devices > 1 and cut.profile is not None:
                why = "a replica over several devices takes whole ones: MIG instances have no P2P"
                found = Refusal("gang", why)
            else:
                found = seat_terms(model, cut, self.fleet.speeds)
            self._known[key] = found
        return found

    def shares(self, one: ModelName, other: ModelName, cut: Cut) -> bool:
        """Whether two models may sit in one slice of this kind, sums apart."""
        key = (one, other, cut) if one < other else (other, one, cut)
        found = self._pairs.get(key)
        if found is None:
            one_terms, other_terms = self.get(one, cut), self.get(other, cut)
            found = (
                one_terms is not None
                and other_terms is not None
                and can_share(
                    self.models[one], one_terms, self.models[other], other_terms, self.isolation
                )
            )
            self._pairs[key] = found
        return found

    def portions(self, name: ModelName) -> int:
        """Into how many equal parts the model's load is divided; 0 where no slice can have it."""
        if name not in self._portions:
            model = self.models[name]
            loads = [
                terms.load_of_rps * model.rate_rps / terms.load_max_alone
                for cut in self.every_cut
                if (terms := self.get(name, cut)) is not None
            ]
            count = 0
            if loads and model.gang_devices > 1:
                count = max(model.replicas_min, ceil(min(loads) - 1e-9), 1)
            elif loads:
                fine = min(PORTIONS_MAX, ceil(min(loads) / PORTION_LOAD - 1e-9))
                count = max(model.replicas_min, fine, ceil(min(loads) - 1e-9), 1)
            self._portions[name] = count
        return self._portions[name]

    def load(self, name: ModelName, cut: Cut) -> float:
        """Of one portion in a cut where the model can sit."""
        key = (name, cut)
        found = self._loads.get(key)
        if found is None:
            terms = self.get(name, cut)
            assert terms is not None, "a load is asked for only where a model can sit"
            found = terms.load_of_rps * self.models[name].rate_rps / self.portions(name)
            self._loads[key] = found
        return found

    def pressure(self, name: ModelName, upon: ModelName, cut: Cut) -> float:
        """Of one portion of a model, for another that waits behind it in a cut."""
        key = (name, upon, cut)
        found = self._pressures.get(key)
        if found is None:
            own, other = self.get(name, cut), self.get(upon, cut)
            assert own is not None, "asked only of those who can sit there"
            assert other is not None, "and only for those"
            rate_rps = self.models[name].rate_rps / self.portions(name)
            found = rate_rps * own.work.pressure(other.decay_per_s) if rate_rps else 0.0
            self._pressures[key] = found
        return found

    def is_isolated(self, name: ModelName) -> bool:
        """Whether the model's tenant shares no slice with others."""
        return self.isolation[self.models[name].tenant] in ISOLATED
