"""Laws of sharing links, and of predicting copies on them, whatever happens."""

from itertools import pairwise
from math import isfinite
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headway.predict.flows import Copy
from headway.predict.link_residual import LogResidual
from headway.predict.links import Direction, Link, LinkShares, LinkTree, max_min
from headway.predict.transfer import TransferModel

G = 1_000_000_000
RATES = st.integers(G // 10, 60 * G)
TOLERANCE = 1 + 1e-9


@st.composite
def trees(draw):
    """One to three levels, one to five devices, host memory shared by both directions or not."""
    both = draw(st.one_of(st.just(0), RATES))
    links = [
        Link(
            name="node",
            in_bytes_per_s=draw(RATES),
            out_bytes_per_s=draw(RATES),
            both_bytes_per_s=both,
        )
    ]
    names = ["node"]
    for index in range(draw(st.integers(1, 5))):
        name = f"l{index}"
        links.append(
            Link(
                name=name,
                parent=draw(st.sampled_from(names)),
                in_bytes_per_s=draw(RATES),
                out_bytes_per_s=draw(RATES),
            )
        )
        names.append(name)
    devices = {f"d{i}": draw(st.sampled_from(names)) for i in range(draw(st.integers(1, 5)))}
    return LinkTree(
        links=tuple(links),
        devices=devices,
        launch_ns=draw(st.integers(0, 50_000)),
        chunk_bytes=draw(st.integers(1 << 16, 1 << 24)),
    )


@st.composite
def copies(draw, tree, count_max=7):
    """Copies on a tree, numbered from 1."""
    return [
        Copy(
            copy_id=number,
            device=draw(st.sampled_from(sorted(tree.devices))),
            direction=draw(st.sampled_from(list(Direction))),
            size_bytes=draw(st.integers(1, 1 << 26)),
            priority=draw(st.integers(0, 2)),
        )
        for number in range(1, 1 + draw(st.integers(1, count_max)))
    ]


@st.composite
def loads(draw):
    """A tree and copies on it."""
    tree = draw(trees())
    return tree, draw(copies(tree))


PATHS = st.lists(st.sets(st.integers(0, 4), min_size=1).map(sorted), min_size=1, max_size=8)
CAPACITIES = st.lists(st.floats(0.01, 100.0), min_size=5, max_size=5)


def used(paths, rates, limit):
    """What all users of a limit have together."""
    return sum(rate for path, rate in zip(paths, rates, strict=True) if limit in path)


@given(PATHS, CAPACITIES)
def test_no_capacity_is_exceeded_and_nobody_starves(paths, capacities):
    """Rates are positive, and no limit's users have more than the limit."""
    rates = max_min(paths, capacities)
    assert min(rates) > 0
    for limit, capacity in enumerate(capacities):
        assert used(paths, rates, limit) <= capacity * TOLERANCE


@given(PATHS, CAPACITIES)
def test_every_user_has_a_full_limit_where_nobody_has_more(paths, capacities):
    """The bottleneck condition: it is max-min fair, and so conserves work, exactly then."""
    rates = max_min(paths, capacities)
    for path, rate in zip(paths, rates, strict=True):
        assert any(
            used(paths, rates, limit) >= capacities[limit] * (1 - 1e-6)
            and rate >= max(r for p, r in zip(paths, rates, strict=True) if limit in p) * (1 - 1e-6)
            for limit in path
        )


@given(trees(), st.integers(0, 1023), st.integers(0, 9))
def test_another_busy_engine_slows_everyone_or_leaves_them(tree, busy, engine):
    """On a tree no engine gains by another's company."""
    shares = LinkShares(tree)
    busy &= (1 << shares.engine_count) - 1
    more = busy | 1 << engine % shares.engine_count
    before = _by_engine(shares, busy)
    after = _by_engine(shares, more)
    assert all(after[e] <= rate * TOLERANCE for e, rate in before.items())


def _by_engine(shares, busy):
    engines = [e for e in range(shares.engine_count) if busy >> e & 1]
    return dict(zip(engines, shares.rates(busy), strict=True)) if engines else {}


@given(loads())
def test_no_copy_beats_launch_and_size_over_its_link(load):
    """Each ends no sooner than if nothing else were on the way."""
    tree, given_copies = load
    model = TransferModel(tree, learns=False)
    for one in given_copies:
        model.started(one, 0)
    for forecast in model.forecast(None, 0):
        assert forecast.left_ns >= forecast.floor_ns * (1 - 1e-9) - 1e-3


@given(loads())
def test_work_is_conserved(load):
    """All together take no longer than one after another, and no less than the busiest link."""
    tree, given_copies = load
    model = TransferModel(tree, learns=False)
    for one in given_copies:
        model.started(one, 0)
    last_ns = max(forecast.left_ns for forecast in model.forecast(None, 0))
    pieces = 2 * len(given_copies) * tree.launch_ns
    assert last_ns <= sum(model.floor_ns(one) for one in given_copies) * TOLERANCE + pieces
    moved = sum(c.size_bytes for c in given_copies if c.direction is Direction.IN)
    assert last_ns >= moved / (tree.links[0].in_bytes_per_s / 1e9) * (1 - 1e-9)


@settings(max_examples=60)
@given(loads(), st.integers(0, 40_000_000), st.data())
def test_further_copy_makes_no_forecast_smaller(load, now_ns, data):
    """Whatever is in flight, and at any moment, adding load never helps anyone."""
    tree, (*flying, candidate) = load
    model = _taught(tree, data.draw(st.integers(0, 3)))
    for one in flying:
        model.started(one, 0)
    before = {f.copy_id: f.left_ns for f in model.forecast(None, now_ns)}
    after = {f.copy_id: f.left_ns for f in model.forecast(candidate, now_ns)}
    assert all(after[i] >= left_ns * (1 - 1e-6) - 1e-3 for i, left_ns in before.items())


@settings(max_examples=60)
@given(loads(), st.data())
def test_candidate_never_gains_by_one_more_in_flight(load, data):
    """The more is on the way at the same instant, the longer a copy takes."""
    tree, (*flying, candidate) = load
    seed = data.draw(st.integers(0, 3))
    durations_ns = []
    state = _taught(tree, seed).state()
    for count in range(len(flying) + 1):
        model = TransferModel(tree)
        model.restore(state)
        for one in flying[:count]:
            model.started(one, 10**9)
        durations_ns.append(model.duration_ns(candidate, 10**9))
    assert all(a <= b * (1 + 1e-6) + 1e-3 for a, b in pairwise(durations_ns))


def _taught(tree, seed):
    """A model that has seen some copies, slow and fast ones."""
    model = TransferModel(tree)
    chance = Random(seed)
    for number in range(10 * seed):
        at_ns = (number + 1) * 10_000_000 - 10**10
        device = chance.choice(sorted(tree.devices))
        one = Copy(
            copy_id=10_000 + number,
            device=device,
            direction=chance.choice(list(Direction)),
            size_bytes=chance.randrange(1, 1 << 24),
        )
        model.started(one, at_ns)
        model.finished(one.copy_id, at_ns + round(model.floor_ns(one) * chance.uniform(0.8, 3)))
    return model


@settings(max_examples=60)
@given(loads(), st.lists(st.integers(0, 10**12), min_size=1, max_size=30))
def test_poisoned_history_cannot_break_it(load, took_ns):
    """Ends at absurd times leave forecasts finite, not below the floor, and not absurd."""
    tree, (one, *_) = load
    model = TransferModel(tree)
    now_ns = 0
    for number, after_ns in enumerate(took_ns):
        model.started(replace(one, copy_id=number + 100), now_ns)
        now_ns += after_ns
        model.finished(number + 100, now_ns)
    left_ns = model.duration_ns(one, now_ns)
    floor_ns = model.floor_ns(one)
    assert isfinite(left_ns)
    assert floor_ns * (1 - 1e-9) <= left_ns <= 30 * floor_ns + 1


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(allow_nan=True, allow_infinity=True))))
def test_learnt_factor_is_bounded(surprises):
    """Whatever logs it is told, the factor stays within e and its inverse."""
    residual = LogResidual(2, load_from=1)
    for feature, log_ratio in surprises:
        residual.learn((1.0, abs(feature)), log_ratio)
    assert 1 / 2.72 < residual.factor((1.0, 1.0)) < 2.72
    assert residual.weights[1] >= 0


@given(loads())
def test_restored_model_says_the_same(load):
    """State goes through and nothing that was learnt is lost."""
    tree, (one, *_) = load
    model = _taught(tree, 2)
    again = TransferModel(tree)
    again.restore(model.state())
    floor_ns = model.floor_ns(one)
    assert again.state() == model.state()
    assert again.duration_ns(one, 0) == pytest.approx(_fresh_ns(model, one), rel=1e-9, abs=floor_ns)


def _fresh_ns(model, one):
    again = TransferModel(model.tree)
    again.restore(model.state())
    return again.duration_ns(one, 0)
