"""The joint choice of cuts, seats and shares of load, by a solver; of large fleets part by part.

Begins with what the fast path made of it. Where the whole question is small it is one program
(`program`), and the answer is the best there is. Otherwise some devices are emptied together and
what sat there is placed anew, as long as that may still help: in many cheap rounds by the fast path
(`recreate`), with fewer and fewer devices once everything has a place (`shrink`), then in few dear
ones by the program, the device that carries least for its cost among them; until the cost is that
of the bound (`bounds`), or the rounds are used up. Every round begins with the layout so far, so
that none makes it worse.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.plan.bounds import Bound, solved_bound
from headway.plan.drafts import DeviceDraft
from headway.plan.fleet import FleetDevice
from headway.plan.greedy import Layout, place_fast, rank_of
from headway.plan.program import Answer, Effort, Program, Question, size_of
from headway.plan.recreate import recreated
from headway.plan.shrink import shrunk
from headway.plan.terms import Terms

__all__ = ["SearchLimits", "Solved", "place_solved"]

_WHOLE_MAX: Final = 4_000
"""Models times slices up to which everything is one program."""
_PART_MAX: Final = 1_500
"""And of a round of a larger question."""
_BOUND_WORK_RATIO: Final = 0.3
"""Of all work, what the bound may take."""
_RECREATE_WORK_RATIO: Final = 0.6
"""And what emptying devices and filling them again may take."""
_RECREATIONS_PER_WORK_S: Final = 80
"""Rounds of that which count as a second of work, on a hundred models."""
_FREE_MAX: Final = 2
"""Unused devices in a round, which may take the place of dearer ones."""
_EPSILON: Final = 1e-9
_ROUNDS_PER_WORK: Final = 32
"""Of the program's own; each may take so small a part of what is left for all."""


class SearchLimits(NamedTuple):
    """How long a solver looks; whichever comes first ends it."""

    work_s: float = 20.0
    """The solver's own count of work, about a second of one core; the same on every machine."""
    rounds_max: int = 200
    idle_rounds_max: int = 40
    """Rounds in a row that found nothing better."""
    workers: int = 2
    seed: int = 1


class Solved(NamedTuple):
    """What came of it."""

    layout: Layout
    bound: Bound
    is_optimal: bool
    rounds: int


def place_solved(
    terms: Terms, limits: SearchLimits, left_s: Callable[[], float] = lambda: inf
) -> Solved:
    """Place everything as cheaply as can be found.

    Args:
        terms: of the question.
        limits: on the search.
        left_s: how long whoever waits is still willing to.

    Raises:
        HeadwayError: OR-Tools is not installed.
    """
    search = _Search(terms, limits, left_s)
    return search.run()


def _is_lacking(layout: Layout) -> bool:
    """Something that could have a place has none."""
    return any(layout.left.values())


class _Search:
    """One search. Invariants: the layout is legal, and never gets worse."""

    def __init__(self, terms: Terms, limits: SearchLimits, left_s: Callable[[], float]) -> None:
        self._terms = terms
        self._limits = limits
        self._left_s = left_s
        self._chance = Random(f"{limits.seed}/rounds")
        self._layout = place_fast(terms)
        work_s, wall_s = limits.work_s * _BOUND_WORK_RATIO, left_s() * _BOUND_WORK_RATIO
        self._bound = solved_bound(terms, Effort(work_s, limits.workers, limits.seed, wall_s))
        self._tried: Counter[str] = Counter()

    def run(self) -> Solved:
        """Until there is nothing to gain, or no more time."""
        rounds = 0
        is_closed = False
        if not self._is_done():
            whole = Question([d.copied() for d in self._layout.drafts], self._portions())
            if len(whole.wanted) * sum(size_of(self._terms, whole)) <= _WHOLE_MAX:
                is_closed = self._take(whole, self._limits.work_s)
                rounds = 1
            else:
                self._recreate()
                rounds = 0 if self._is_done() else self._improve()
        return Solved(self._layout, self._bound, is_closed or self._is_done(), rounds)

    def _recreate(self) -> None:
        """Many cheap rounds, before few dear ones: until all is served, then for less and less."""
        limits = self._limits
        wall_s = self._left_s() * (1 - _RECREATE_WORK_RATIO / (1 - _BOUND_WORK_RATIO))
        rounds = round(limits.work_s * _RECREATE_WORK_RATIO * _RECREATIONS_PER_WORK_S)
        rounds = rounds * 100 // max(100, len(self._terms.models))

        def is_over(best: Layout) -> bool:
            return self._left_s() < wall_s or self._is_enough(best)

        if _is_lacking(self._layout):
            part = rounds // 2
            self._layout = recreated(
                self._terms,
                self._layout,
                rounds=part,
                seed=limits.seed,
                is_enough=lambda best: not _is_lacking(best) or is_over(best),
            )
            rounds -= part
        search = recreated if _is_lacking(self._layout) else shrunk
        self._layout = search(
            self._terms, self._layout, rounds=rounds, seed=limits.seed, is_enough=is_over
        )

    def _improve(self) -> int:
        """A few devices at a time; how often."""
        idle = 0
        work_s = self._limits.work_s * (1 - _BOUND_WORK_RATIO - _RECREATE_WORK_RATIO)
        spent_s = 0.0
        for number in range(self._limits.rounds_max):
            if spent_s >= work_s or idle >= self._limits.idle_rounds_max or self._left_s() <= 0:
                return number
            before = rank_of(self._layout, self._terms)
            question = self._part()
            if len(question.drafts) <= 1:
                return number
            self._take(question, work_s / _ROUNDS_PER_WORK)
            spent_s += work_s / _ROUNDS_PER_WORK
            idle = 0 if rank_of(self._layout, self._terms) < before else idle + 1
            if self._is_done():
                return number + 1
        return self._limits.rounds_max

    def _is_done(self) -> bool:
        return self._is_enough(self._layout)

    def _is_enough(self, layout: Layout) -> bool:
        """Nothing can be better: all is served, at no more than the bound."""
        left = any(count or not self._terms.portions(n) for n, count in layout.left.items())
        return not left and layout.cost <= self._bound.cost + _EPSILON

    def _portions(self) -> dict[ModelName, int]:
        """All there are."""
        terms = self._terms
        return {name: count for name in terms.models if (count := terms.portions(name))}

    # --- one round --------------------------------------------------------------------------------

    def _take(self, question: Question, work_s: float) -> bool:
        """Settle a question, and keep the answer if it is no worse; whether it is the best."""
        effort = Effort(work_s, self._limits.workers, self._limits.seed, self._left_s())
        answer = Program(self._terms, question).solve(effort)
        if answer is None:
            return False
        layout = self._with(answer)
        if rank_of(layout, self._terms) <= rank_of(self._layout, self._terms):
            self._layout = layout
        return answer.is_optimal

    def _with(self, answer: Answer) -> Layout:
        """The layout with these devices filled as answered."""
        new = {draft.name: draft for draft in answer.drafts}
        drafts = [new.get(draft.name, draft) for draft in self._layout.drafts]
        left = dict(self._layout.left)
        for name, count in answer.left.items():
            left.pop(name, None)
            if count:
                left[name] = count
        for name in self._terms.models:
            if not self._terms.portions(name):
                left[name] = 0
        return Layout(drafts, left)

    def _part(self) -> Question:
        """Some devices to empty: one that should go, some that might take what it has."""
        movable = [d for d in self._layout.drafts if d.gang is None]
        used = [draft for draft in movable if draft.is_used]
        free = self._one_of_each([draft for draft in movable if not draft.is_used])
        chosen: list[DeviceDraft] = []
        if used:
            chosen.append(min(used, key=self._worth))
            self._tried[str(chosen[0].name)] += 1
        others = [draft for draft in used if draft not in chosen]
        self._chance.shuffle(others)
        self._chance.shuffle(free)
        for draft in [*free[:_FREE_MAX], *others]:
            more = [*chosen, draft]
            if self._size(more) > _PART_MAX and len(chosen) > 1:
                break
            chosen = more
        return self._question(chosen)

    def _worth(self, draft: DeviceDraft) -> tuple[float, int]:
        """Small for what carries little for its cost, and was not tried often."""
        carried = draft.load_ratio / draft.device.cost
        return (1 + self._tried[str(draft.name)]) * carried, draft.device.index

    def _one_of_each(self, drafts: Sequence[DeviceDraft]) -> list[DeviceDraft]:
        """Of devices that are alike the first."""
        alike: dict[tuple[object, ...], DeviceDraft] = {}
        for draft in drafts:
            device = draft.device
            key = (device.product, device.node, device.cost, device.instances)
            alike.setdefault(key, draft)
        return list(alike.values())

    def _size(self, drafts: Sequence[DeviceDraft]) -> int:
        question = self._question(drafts)
        return len(question.wanted) * sum(size_of(self._terms, question))

    def _question(self, drafts: Sequence[DeviceDraft]) -> Question:
        names = {draft.name for draft in drafts}
        wanted: Counter[ModelName] = Counter()
        for draft in drafts:
            for into in draft.slices:
                wanted.update(into.portions)
        gangs = {n for n, model in self._terms.models.items() if model.gang_devices > 1}
        wanted.update({n: c for n, c in self._layout.left.items() if c and n not in gangs})
        elsewhere: defaultdict[ModelName, list[FleetDevice]] = defaultdict(list)
        for draft in self._layout.drafts:
            if draft.name not in names:
                for name in draft.models():
                    elsewhere[name].append(draft.device)
        return Question([draft.copied() for draft in drafts], dict(wanted), dict(elsewhere))
