"""The placement of models on a few devices as an integer program, for a solver to settle.

Knows the same rule of seats as everybody, and OR-Tools, which is loaded when a program is made. One
program says at once how each device is cut, which models sit in which slice, and how much of each
model's load a seat has; the parts of a model's load are whole portions (`terms`). What is wanted
first is that as many requests a second as possible are served, then that the devices in use cost
little, then that little has to change.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import ceil, floor, inf
from typing import Any, Final, NamedTuple

from headway.core import ModelName
from headway.errors import HeadwayError
from headway.plan.cuts import Cut
from headway.plan.demand import ModelDemand, Spread
from headway.plan.drafts import DeviceDraft, SliceDraft
from headway.plan.fleet import FleetDevice
from headway.plan.geometry import Placement, geometries_beside, placed_beside
from headway.plan.seats import LOAD_MAX, clients_max
from headway.plan.terms import Terms

__all__ = ["Answer", "Effort", "Program", "Question", "cp_model", "size_of"]

_SCALE: Final = 1_000_000
"""Parts of a slice's time that loads are counted in; they are rounded against ourselves."""
_COST_UNITS: Final = 100
"""Of a device's cost: cents of it."""
_WEIGHT_MAX: Final = 1_000


class Effort(NamedTuple):
    """How much a solver may try. Work is counted, so that runs can be repeated."""

    work_s: float
    """Of one program, in the solver's own seconds of work."""
    workers: int = 2
    seed: int = 1
    wall_s: float = inf
    """For whoever waits: if this ends a search, the next run may end elsewhere."""

    def solver(self) -> Any:
        """A solver that tries so much."""
        found = cp_model().CpSolver()
        found.parameters.max_deterministic_time = self.work_s
        if self.wall_s < inf:
            found.parameters.max_time_in_seconds = max(0.01, self.wall_s)
        found.parameters.num_workers = self.workers
        found.parameters.interleave_search = self.workers > 1
        found.parameters.random_seed = self.seed
        return found


class Question(NamedTuple):
    """What is to be placed on which devices, and what of it sits elsewhere."""

    drafts: Sequence[DeviceDraft]
    """The devices, as they are filled now; everything on them may move."""
    wanted: Mapping[ModelName, int]
    """Portions."""
    elsewhere: Mapping[ModelName, Sequence[FleetDevice]] = {}
    """Devices of the seats of these models that stay."""


class Answer(NamedTuple):
    """What a solver found."""

    drafts: list[DeviceDraft]
    left: dict[ModelName, int]
    is_optimal: bool
    """No answer to this very question is better, as far as portions are whole."""


def cp_model() -> Any:
    """OR-Tools' CP-SAT.

    Raises:
        HeadwayError: it is not installed.
    """
    try:
        from ortools.sat.python import cp_model as found
    except ModuleNotFoundError as error:
        raise HeadwayError(
            "`ortools` is not installed, which solves plans",
            hint="pip install headway[plan], or ask for `--maker fast`",
        ) from error
    return found


class _Slot(NamedTuple):
    """A slice that may come to be."""

    device: int
    cut: Cut
    number: int
    """Among those of this cut on the device."""


class Program:
    """One question, written down for CP-SAT.

    Cost: a variable for each model and slice, a clause for each pair of models that may not share
    one; made for some dozens of models on a few devices.
    """

    def __init__(self, terms: Terms, question: Question) -> None:
        self._cp = cp_model()
        self._terms = terms
        self._question = question
        self._model = self._cp.CpModel()
        self._models = [terms.models[name] for name in question.wanted]
        self._slots: list[_Slot] = []
        self._exists: list[Any] = []
        self._choices: list[dict[tuple[str, ...], Any]] = []
        """For each device the ways to cut it, by geometry; an empty one for the whole device."""
        self._idle: list[Any] = []
        self._seats: dict[tuple[ModelName, int], Any] = {}
        self._amounts: dict[tuple[ModelName, int], Any] = {}
        self._gangs: dict[tuple[ModelName, int], Any] = {}
        self._left: dict[ModelName, Any] = {}
        for index, draft in enumerate(question.drafts):
            self._add_device(index, draft)
        for model in self._models:
            self._add_model(model)
        for index in range(len(self._slots)):
            self._add_slice(index)
        for index in range(len(question.drafts)):
            self._add_neighbours(index)
        self._add_objective()

    # --- devices and slices -----------------------------------------------------------------------

    def _add_device(self, index: int, draft: DeviceDraft) -> None:
        """How it is cut, if it is used at all."""
        model, terms, device = self._model, self._terms, draft.device
        whole, *parts = terms.cuts(device)
        choices: dict[tuple[str, ...], Any] = {}
        if not draft.busy:
            choices[()] = model.new_bool_var("")
        if device.has_mig:
            for names in geometries_beside(terms.product(device), draft.busy):
                choices[names] = model.new_bool_var("")
        idle = model.new_bool_var("")
        model.add_exactly_one([*choices.values(), idle])
        self._choices.append(choices)
        self._idle.append(idle)
        if () in choices:
            self._slots.append(_Slot(index, whole, 0))
            self._exists.append(choices[()])
        for cut in parts:
            counts = {names: names.count(cut.profile or "") for names in choices if names}
            for number in range(max(counts.values(), default=0)):
                enough = [choices[names] for names, count in counts.items() if count > number]
                exists = model.new_bool_var("")
                model.add(sum(enough) >= exists)
                self._slots.append(_Slot(index, cut, number))
                self._exists.append(exists)

    def _add_slice(self, index: int) -> None:
        """What sits in it together: memory, load, places, and pairs that may."""
        model, terms = self._model, self._terms
        cut = self._slots[index].cut
        names = [m.name for m in self._models if (m.name, index) in self._seats]
        if not names:
            return
        seats = [self._seats[name, index] for name in names]
        needs = [self._own(name, cut).memory_bytes for name in names]
        self._sum_at_most(seats, needs, cut.memory_bytes)
        model.add(sum(seats) <= clients_max(cut))
        loads = [_units(terms.load(name, cut)) for name in names]
        amounts = [self._amounts[name, index] for name in names]
        self._sum_at_most(amounts, loads, _cap(LOAD_MAX))
        for one, other in combinations(names, 2):
            if not terms.shares(one, other, cut):
                model.add_bool_or([~self._seats[one, index], ~self._seats[other, index]])
        self._add_waits(index, names)

    def _add_waits(self, index: int, names: Sequence[ModelName]) -> None:
        """What each bears before it where it is not alone."""
        if len(names) == 1:
            return
        model, terms = self._model, self._terms
        cut = self._slots[index].cut
        sole = model.new_bool_var("")
        model.add(sum(self._seats[name, index] for name in names) <= 1).only_enforce_if(sole)
        for name in names:
            seat, own = self._seats[name, index], self._own(name, cut)
            if own.decay_per_s == inf:
                model.add_implication(seat, sole)
                continue
            level = terms.models[name].priority
            before = [n for n in names if terms.models[n].priority <= level]
            ahead = [n for n in names if terms.models[n].priority < level]
            for others, most in ((before, 1.0), (ahead, own.ahead_max)):
                if not others:
                    continue
                # One portion of too much is too much, however much it is.
                too_much = 2.0
                known = [min(terms.pressure(n, name, cut), too_much) for n in others]
                amounts = [self._amounts[n, index] for n in others]
                limit = self._weighted(amounts, [_units(p) for p in known]) <= _cap(most)
                model.add(limit).only_enforce_if([seat, ~sole])

    # --- models -----------------------------------------------------------------------------------

    def _add_model(self, model: ModelDemand) -> None:
        """Where it may sit, how often, and that all of its load goes somewhere."""
        wanted = self._question.wanted[model.name]
        left = self._model.new_int_var(0, wanted, "")
        self._left[model.name] = left
        if model.gang_devices > 1:
            self._add_gangs(model, wanted, left)
            return
        for index, slot in enumerate(self._slots):
            room = self._room(model, slot.cut, wanted)
            if not room or not self._is_free_node(model, slot):
                continue
            seat = self._model.new_bool_var("")
            amount = self._model.new_int_var(0, room, "")
            self._model.add(amount <= room * seat)
            self._model.add(amount >= seat)
            self._model.add_implication(seat, self._exists[index])
            self._seats[model.name, index] = seat
            self._amounts[model.name, index] = amount
        amounts = [a for (name, _), a in self._amounts.items() if name == model.name]
        seats = [s for (name, _), s in self._seats.items() if name == model.name]
        self._model.add(sum(amounts) + left == wanted)
        self._add_replicas(model, sum(seats), left)
        self._add_spread(model)

    def _add_replicas(self, model: ModelDemand, count: Any, left: Any) -> None:
        elsewhere = len(self._question.elsewhere.get(model.name, ()))
        self._model.add(count <= max(0, model.replicas_max - elsewhere))
        missing = model.replicas_min - elsewhere
        if missing > 1:
            is_whole = self._model.new_bool_var("")
            self._model.add(left >= 1).only_enforce_if(~is_whole)
            self._model.add(count >= missing).only_enforce_if(is_whole)

    def _add_spread(self, model: ModelDemand) -> None:
        """One seat a device, or a node, where replicas are to be spread."""
        if model.spread is Spread.NONE:
            return
        drafts = self._question.drafts
        places: defaultdict[str, list[Any]] = defaultdict(list)
        for (name, index), seat in self._seats.items():
            if name == model.name:
                device = drafts[self._slots[index].device].device
                place = device.node if model.spread is Spread.NODE else str(device.name)
                places[place].append(seat)
        for seats in places.values():
            if len(seats) > 1:
                self._model.add_at_most_one(seats)

    def _add_gangs(self, model: ModelDemand, wanted: int, left: Any) -> None:
        """Whole devices, so many of one domain and product for each replica."""
        groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for index, draft in enumerate(self._question.drafts):
            device = draft.device
            whole = self._terms.cuts(device)[0]
            if device.nvlink_domain and not draft.busy and self._room(model, whole, 1):
                groups[device.nvlink_domain, device.product].append(index)
        replicas: list[Any] = []
        by_node: defaultdict[str, list[Any]] = defaultdict(list)
        for members in groups.values():
            count = self._model.new_int_var(0, len(members) // model.gang_devices, "")
            parts = [self._model.new_bool_var("") for _ in members]
            for index, part in zip(members, parts, strict=True):
                self._gangs[model.name, index] = part
                self._model.add_implication(part, self._choices[index][()])
                by_node[self._question.drafts[index].device.node].append(count)
            self._model.add(sum(parts) == model.gang_devices * count)
            replicas.append(count)
        if model.spread is Spread.NODE:
            for counts in by_node.values():
                self._model.add(sum(dict.fromkeys(counts)) <= 1)
        self._model.add(sum(replicas) + left == wanted)
        self._add_replicas(model, sum(replicas), left)

    def _add_neighbours(self, index: int) -> None:
        """What keeps models off one device, in whatever slices: gangs, and those to be apart."""
        parts = [part for (_, at), part in self._gangs.items() if at == index]
        by_name: defaultdict[ModelName, list[Any]] = defaultdict(list)
        for (name, slot), seat in self._seats.items():
            if self._slots[slot].device == index:
                by_name[name].append(seat)
        if parts:
            self._model.add_at_most_one(parts)
            for seats in by_name.values():
                for seat in seats:
                    for part in parts:
                        self._model.add_implication(part, ~seat)
        here = {name: self._any_of(seats) for name, seats in by_name.items() if self._is_shy(name)}
        for one, other in combinations(here, 2):
            first, second = self._terms.models[one], self._terms.models[other]
            if other in first.apart_from or one in second.apart_from:
                self._model.add_bool_or([~here[one], ~here[other]])

    def _is_shy(self, name: ModelName) -> bool:
        model = self._terms.models[name]
        return bool(model.apart_from) or any(name in other.apart_from for other in self._models)

    def _any_of(self, seats: Sequence[Any]) -> Any:
        found = self._model.new_bool_var("")
        for seat in seats:
            self._model.add_implication(seat, found)
        return found

    # --- what is wanted ---------------------------------------------------------------------------

    def _add_objective(self) -> None:
        drafts = self._question.drafts
        tie: list[Any] = list(self._seats.values())
        for draft, choices in zip(drafts, self._choices, strict=True):
            # Whoever toggles the MIG mode of a device must have it idle.
            is_mig = draft.device.is_mig_enabled
            tie += [choice for names, choice in choices.items() if bool(names) is not is_mig]
        ties_max = len(tie) + 1
        costs = [round(draft.device.cost * _COST_UNITS) for draft in drafts]
        used = self._weighted(
            [1 - idle for idle in self._idle], [cost * ties_max for cost in costs]
        )
        cost_max = (sum(costs) + 1) * ties_max
        weights = self._weights()
        left = self._weighted(
            list(self._left.values()), [weights[name] * cost_max for name in self._left]
        )
        self._model.minimize(left + used + sum(tie))

    def _weights(self) -> dict[ModelName, int]:
        """Of a portion, by its requests a second: 1 to 1000."""
        rates = {
            name: self._terms.models[name].rate_rps / max(1, self._terms.portions(name))
            for name in self._left
        }
        most = max(rates.values(), default=0.0) or 1.0
        return {name: max(1, round(_WEIGHT_MAX * rate / most)) for name, rate in rates.items()}

    # --- asking -----------------------------------------------------------------------------------

    def solve(self, effort: Effort) -> Answer | None:
        """The best that was found; None where there was no time to find anything."""
        self._hint()
        solver = effort.solver()
        status = solver.solve(self._model)
        if status not in {self._cp.OPTIMAL, self._cp.FEASIBLE}:
            return None
        drafts = [self._filled(index, solver) for index in range(len(self._choices))]
        self._fill_gangs(drafts, solver)
        left = {name: solver.value(left) for name, left in self._left.items()}
        return Answer(drafts, left, status == self._cp.OPTIMAL)

    def _hint(self) -> None:
        """Begin where things are."""
        seated: Counter[tuple[ModelName, int]] = Counter()
        for index, draft in enumerate(self._question.drafts):
            taken: Counter[Cut] = Counter()
            for into in draft.slices:
                wanted = _Slot(index, into.cut, taken[into.cut])
                taken[into.cut] += 1
                if wanted in self._slots:
                    at = self._slots.index(wanted)
                    seated.update({(name, at): n for name, n in into.portions.items()})
        for key, seat in self._seats.items():
            self._model.add_hint(seat, seated[key] > 0)
            self._model.add_hint(self._amounts[key], seated[key])

    def _filled(self, index: int, solver: Any) -> DeviceDraft:
        """A device as the solver has it."""
        empty = DeviceDraft.of(self._question.drafts[index].device)
        slots = [at for at, slot in enumerate(self._slots) if slot.device == index]
        filled: list[SliceDraft] = []
        for at in slots:
            amounts = {
                model.name: solver.value(self._amounts[model.name, at])
                for model in self._models
                if (model.name, at) in self._amounts
            }
            if any(amounts.values()):
                into = SliceDraft(self._slots[at].cut, None)
                for name, count in amounts.items():
                    if count:
                        into.put(name, count, self._terms)
                filled.append(into)
        names = tuple(into.cut.profile for into in filled if into.cut.profile is not None)
        if names:
            empty.is_mig = True
            places = placed_beside(self._terms.product(empty.device), names, empty.busy)
            assert places is not None, "the program's geometries are legal beside what is busy"
            spots = list(places)
            for into in filled:
                spot = next(place for place in spots if place.profile == into.cut.profile)
                spots.remove(spot)
                into.placement = Placement(*spot)
        empty.slices = filled
        return empty

    def _fill_gangs(self, drafts: list[DeviceDraft], solver: Any) -> None:
        """Number replicas and ranks of gangs, domain by domain."""
        groups: defaultdict[tuple[ModelName, str, str], list[DeviceDraft]] = defaultdict(list)
        for (name, index), part in self._gangs.items():
            device = drafts[index].device
            if solver.value(part):
                groups[name, device.nvlink_domain or "", device.product].append(drafts[index])
        replicas: Counter[ModelName] = Counter()
        for (name, _, _), members in groups.items():
            gang = self._terms.models[name].gang_devices
            for position, draft in enumerate(members):
                into = SliceDraft(self._terms.cuts(draft.device)[0], None, is_gang=True)
                into.put(name, 1, self._terms)
                draft.slices = [into]
                draft.gang = (replicas[name] + position // gang, position % gang)
            replicas[name] += len(members) // gang

    # --- small things -----------------------------------------------------------------------------

    def _own(self, name: ModelName, cut: Cut) -> Any:
        own = self._terms.get(name, cut)
        assert own is not None, "asked for seats only"
        return own

    def _room(self, model: ModelDemand, cut: Cut, wanted: int) -> int:
        """Portions that a slice takes of a model that has it to itself."""
        own = self._terms.get(model.name, cut)
        if own is None:
            return 0
        load = _units(self._terms.load(model.name, cut))
        most = _cap(own.load_max_alone)
        return min(wanted, most // load) if load else wanted

    def _is_free_node(self, model: ModelDemand, slot: _Slot) -> bool:
        if model.spread is not Spread.NODE:
            return True
        node = self._question.drafts[slot.device].device.node
        return all(d.node != node for d in self._question.elsewhere.get(model.name, ()))

    def _weighted(self, variables: Sequence[Any], weights: Sequence[int]) -> Any:
        return self._cp.LinearExpr.weighted_sum(variables, weights)

    def _sum_at_most(self, variables: Sequence[Any], weights: Sequence[int], most: int) -> None:
        self._model.add(self._weighted(variables, weights) <= most)


def _units(load: float) -> int:
    return ceil(load * _SCALE - 1e-6)


def _cap(load: float) -> int:
    return floor(load * _SCALE + 1e-6)


def size_of(terms: Terms, question: Question) -> Iterator[int]:
    """Slices that each device of a question may have: what its program will cost."""
    for draft in question.drafts:
        device = draft.device
        count = 0 if draft.busy else 1
        if device.has_mig:
            every = geometries_beside(terms.product(device), draft.busy)
            profiles = {name for names in every for name in names}
            count += sum(max(names.count(p) for names in every) for p in profiles)
        yield count
