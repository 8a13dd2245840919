"""Cheaper layouts by fewer devices: some are given up, and the rest has to do.

Where a layout has all devices to choose from, a round of `recreate` makes it cheaper only if it
happens to empty a device altogether. So a cheaper set of devices is chosen first, by what devices
of a kind have carried so far; what sat on those that go has no place for now, and rounds are
counted by how much of it finds one. Once everything has, the layout is cheaper. What fails is tried
again later, for longer.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.plan.drafts import DeviceDraft
from headway.plan.greedy import Layout
from headway.plan.recreate import costs_of, recreated
from headway.plan.terms import Terms

__all__ = ["shrunk"]

_ROUNDS: Final = 60
"""Of the first try with a set of devices; every further one has twice as many."""
_DOUBLINGS_MAX: Final = 4
_TAKEN_MAX: Final = 2
"""Devices that may take the place of one."""
_EPSILON: Final = 1e-9

_Kind = tuple[str, float, bool, bool]
"""Devices that are alike: product, cost, whether something busy is on them, and whether they are in
an NVLink domain."""


class _Target(NamedTuple):
    """A set of devices."""

    kinds: tuple[tuple[_Kind, int], ...]
    """How many of each kind; equal sets are equal."""
    cost: float
    spare: float
    """What it carries more than there is, if a device carries what its kind has carried."""
    given_up: _Kind
    taken: tuple[_Kind, ...]


def shrunk(
    terms: Terms,
    layout: Layout,
    *,
    rounds: int,
    seed: int,
    is_enough: Callable[[Layout], bool],
) -> Layout:
    """A layout that serves as much at a lower cost, or the one that was given.

    Args:
        terms: of the question.
        layout: to begin with; it serves everything.
        rounds: how often devices are emptied, all tries together.
        seed: of what is drawn.
        is_enough: whether a layout need not be bettered, or there is no more time; also asked of
            layouts of some of the devices, in which not everything has a place.
    """
    costs = costs_of(terms)
    weights = {name: cost / max(1, terms.portions(name)) for name, cost in costs.items()}
    failed: Counter[tuple[tuple[_Kind, int], ...]] = Counter()
    number = 0
    while rounds > 0 and not is_enough(layout):
        targets = list(_targets(layout, weights))
        if not targets:
            break
        target = min(targets, key=lambda t: (failed[t.kinds], -t.spare, t.cost))
        count = min(rounds, _ROUNDS << min(failed[target.kinds], _DOUBLINGS_MAX))
        rounds, number = rounds - count, number + 1
        tried = recreated(
            terms,
            _without(layout, target),
            rounds=count,
            seed=seed + number,
            is_enough=lambda best: not any(best.left.values()) or is_enough(best),
            weights=weights,
        )
        if any(tried.left.values()):
            failed[target.kinds] += 1
        else:
            layout = _whole(layout, tried)
    return layout


def _kind_of(draft: DeviceDraft) -> _Kind:
    device = draft.device
    return device.product, device.cost, bool(draft.busy), device.nvlink_domain is not None


def _targets(layout: Layout, weights: Mapping[ModelName, float]) -> Iterator[_Target]:
    """Cheaper sets of devices: one less, or others in its place."""
    carried: defaultdict[_Kind, float] = defaultdict(float)
    used: Counter[_Kind] = Counter()
    free: Counter[_Kind] = Counter()
    total = 0.0
    for draft in layout.drafts:
        kind = _kind_of(draft)
        if not draft.is_used:
            free[kind] += 1
            continue
        if draft.gang is not None:
            continue
        used[kind] += 1
        weight = sum(
            weights[name] * count for part in draft.slices for name, count in part.portions.items()
        )
        total += weight
        carried[kind] = max(carried[kind], weight)
    cost = sum(kind[1] * count for kind, count in used.items())
    ratio = total / cost if cost else 0.0
    for given_up in used:
        for taken in _replacements(free, given_up[1]):
            kinds = used.copy()
            kinds[given_up] -= 1
            kinds.update(taken)
            carries = sum(carried.get(k, k[1] * ratio) * count for k, count in kinds.items())
            new_cost = sum(kind[1] * count for kind, count in kinds.items())
            key = tuple(sorted((kind, count) for kind, count in kinds.items() if count))
            yield _Target(key, new_cost, carries - total, given_up, taken)


def _replacements(free: Counter[_Kind], cost: float) -> Iterator[tuple[_Kind, ...]]:
    """None, or up to so many devices that cost less together."""
    yield ()
    kinds = sorted(kind for kind, count in free.items() for _ in range(min(count, _TAKEN_MAX)))
    for size in range(1, _TAKEN_MAX + 1):
        for taken in dict.fromkeys(combinations(kinds, size)):
            if sum(kind[1] for kind in taken) < cost - _EPSILON:
                yield taken


def _without(layout: Layout, target: _Target) -> Layout:
    """The devices of the target alone, and what has no place among them."""
    given_up = min(
        (
            d
            for d in layout.drafts
            if d.is_used and d.gang is None and _kind_of(d) == target.given_up
        ),
        key=lambda draft: (draft.load_ratio, draft.device.index, str(draft.name)),
    )
    wanted = Counter(target.taken)
    drafts: list[DeviceDraft] = []
    for draft in layout.drafts:
        kind = _kind_of(draft)
        if draft.is_used and draft is not given_up:
            drafts.append(draft.copied())
        elif not draft.is_used and wanted[kind]:
            wanted[kind] -= 1
            drafts.append(draft.copied())
    left = Counter({name: count for name, count in layout.left.items() if count})
    for part in given_up.slices:
        left.update(part.portions)
    return Layout(drafts, dict(left))


def _whole(layout: Layout, tried: Layout) -> Layout:
    """What was made of some of the devices, with all others unused."""
    new = {draft.name: draft for draft in tried.drafts}
    drafts: Sequence[DeviceDraft] = [
        new.get(draft.name, DeviceDraft.of(draft.device)) for draft in layout.drafts
    ]
    return Layout(list(drafts), dict(layout.left))
