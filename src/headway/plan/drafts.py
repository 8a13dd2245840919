"""A plan in the making: slices that models are put into, and what each still has room for.

Knows the rule of `seats`, and adds nothing to it. Refuses to choose.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf

from headway.core import DeviceName, ModelName
from headway.plan.cuts import Cut
from headway.plan.demand import Spread
from headway.plan.fleet import FleetDevice
from headway.plan.geometry import Placement
from headway.plan.seats import LOAD_MAX, SeatTerms, clients_max
from headway.plan.terms import Terms

__all__ = ["DeviceDraft", "SliceDraft"]

_EPSILON = 1e-9


@dataclass(slots=True, eq=False)
class SliceDraft:
    """A slice and the portions in it.

    Invariants: what sits in it is legal by the rule of `seats`.
    """

    cut: Cut
    placement: Placement | None
    """None for a whole device."""
    is_gang: bool = False
    """It is one device of a replica over several, and has no room for anything else."""
    portions: dict[ModelName, int] = field(default_factory=dict)
    memory_bytes: int = 0
    load: float = 0.0
    before: dict[ModelName, float] = field(default_factory=dict)
    """By model, the pressure of all that is served before its requests, its own included."""
    ahead: dict[ModelName, float] = field(default_factory=dict)
    """Of that the part of those who overtake it."""

    def room_for(self, name: ModelName, wanted: int, terms: Terms) -> int:
        """How many portions of a model it could take, at most as many as are wanted."""
        own = terms.get(name, self.cut)
        if own is None or self.is_gang:
            return 0
        is_new = name not in self.portions
        if is_new and self.memory_bytes + own.memory_bytes > self.cut.memory_bytes:
            return 0
        load = terms.load(name, self.cut)
        count = _fitting(LOAD_MAX - self.load, load, wanted)
        if not count:
            return 0
        others = [other for other in self.portions if other != name]
        if not others:
            return _fitting(own.load_max_alone - self.load, load, count)
        if is_new and not self._accepts(name, others, terms):
            return 0
        return self._bearable(name, others, count, terms)

    def _bearable(self, name: ModelName, others: list[ModelName], count: int, terms: Terms) -> int:
        """How many of so many portions it and all others there can bear."""
        priority = terms.models[name].priority
        for other in others:
            level = terms.models[other].priority
            if priority > level:
                if not self._bears_company(other, terms):
                    return 0
                continue
            pressure = terms.pressure(name, other, self.cut)
            count = _fitting(1.0 - self.before[other], pressure, count)
            if priority < level:
                limit = _own(terms, other, self.cut).ahead_max
                count = _fitting(limit - self.ahead[other], pressure, count)
        before, ahead = self._sums(name, terms)
        if ahead > _own(terms, name, self.cut).ahead_max + _EPSILON:
            return 0
        return _fitting(1.0 - before, terms.pressure(name, name, self.cut), count)

    def _bears_company(self, other: ModelName, terms: Terms) -> bool:
        """Whether somebody who was alone, and could wait longer, may have company."""
        return self.before[other] <= 1.0 + _EPSILON

    def _sums(self, name: ModelName, terms: Terms) -> tuple[float, float]:
        """Pressures upon a model of what is there: of all before it, and of those ahead of it."""
        if name in self.before:
            return self.before[name], self.ahead[name]
        before = ahead = 0.0
        priority = terms.models[name].priority
        for other, count in self.portions.items():
            level = terms.models[other].priority
            if level <= priority:
                pressure = count * terms.pressure(other, name, self.cut)
                before += pressure
                ahead += pressure if level < priority else 0.0
        return before, ahead

    def _accepts(self, name: ModelName, others: list[ModelName], terms: Terms) -> bool:
        if len(others) >= clients_max(self.cut):
            return False
        return all(terms.shares(name, other, self.cut) for other in others)

    def put(self, name: ModelName, count: int, terms: Terms) -> None:
        """Add portions for which there is room."""
        own = _own(terms, name, self.cut)
        priority = terms.models[name].priority
        if name not in self.portions:
            self.memory_bytes += own.memory_bytes
            self.before[name], self.ahead[name] = self._sums(name, terms)
        self.portions[name] = self.portions.get(name, 0) + count
        self.load += count * terms.load(name, self.cut)
        for other in self.portions:
            level = terms.models[other].priority
            if priority <= level:
                pressure = count * terms.pressure(name, other, self.cut)
                self.before[other] += pressure
                self.ahead[other] += pressure if priority < level else 0.0


def _own(terms: Terms, name: ModelName, cut: Cut) -> SeatTerms:
    own = terms.get(name, cut)
    assert own is not None, "who sits there can"
    return own


def _fitting(room: float, portion: float, wanted: int) -> int:
    """How many portions there is room for, at most as many as are wanted."""
    if room < -_EPSILON:
        return 0
    if portion * wanted <= room + _EPSILON:
        return wanted
    return max(0, int((room + _EPSILON) / portion)) if portion < inf else 0


@dataclass(slots=True, eq=False)
class DeviceDraft:
    """A device and its slices.

    Invariants: without MIG at most one slice, which is the whole device; with MIG the instances are
    legal together and beside the busy ones of today.
    """

    device: FleetDevice
    busy: frozenset[Placement] = frozenset()
    is_mig: bool = False
    slices: list[SliceDraft] = field(default_factory=list)
    gang: tuple[int, int] | None = None
    """Replica and rank, where a part of a gang sits here."""

    @classmethod
    def of(cls, device: FleetDevice) -> "DeviceDraft":
        """The device, with nothing placed on it."""
        busy = frozenset(Placement(i.profile, i.start) for i in device.instances if i.is_busy)
        return cls(device, busy, bool(busy))

    @property
    def name(self) -> DeviceName:
        """Of the device."""
        return self.device.name

    @property
    def is_used(self) -> bool:
        """Whether anything sits on it."""
        return any(draft.portions for draft in self.slices)

    @property
    def placed(self) -> frozenset[Placement]:
        """Instances, those of today that are busy included."""
        return self.busy | {d.placement for d in self.slices if d.placement is not None}

    def copied(self) -> "DeviceDraft":
        """The same, to be changed on its own."""
        slices = [
            replace(
                draft,
                portions=dict(draft.portions),
                before=dict(draft.before),
                ahead=dict(draft.ahead),
            )
            for draft in self.slices
        ]
        return replace(self, slices=slices)

    @property
    def load_ratio(self) -> float:
        """Part of the device's time that is taken."""
        return sum(draft.load * draft.cut.compute_ratio for draft in self.slices)

    def empty(self) -> list[tuple[ModelName, int]]:
        """Take everything off; what it was, the portions of each seat."""
        moved = [item for draft in self.slices for item in draft.portions.items()]
        self.slices.clear()
        self.is_mig = bool(self.busy)
        return moved

    def models(self) -> Iterator[ModelName]:
        """What sits on it, a name for each seat."""
        for draft in self.slices:
            yield from draft.portions

    def admits(self, name: ModelName, terms: Terms, into: SliceDraft | None) -> bool:
        """Whether a model may sit on the device, as far as others on it are concerned.

        Args:
            name: of the model.
            terms: of the demand.
            into: the slice it would sit in; None for a new one.
        """
        model = terms.models[name]
        for draft in self.slices:
            for other in draft.portions:
                if other == name:
                    if draft is not into and model.spread is not Spread.NONE:
                        return False
                elif other in model.apart_from or name in terms.models[other].apart_from:
                    return False
        return True
