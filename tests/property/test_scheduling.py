"""Laws of timers, profiles, predictors, shared lanes, and of each policy's order."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core import SlotClass, TimerQueue
from headway.predict import Profile
from headway.sim import SharedLanes
from headway.testing import MeanPredictor, a_device, a_dispatch, a_kernel, dispatched

MS = 1_000_000
PUSH = st.tuples(st.just("push"), st.integers(0, 20))
CANCEL = st.tuples(st.just("cancel"), st.integers(0, 200))
POP = st.tuples(st.sampled_from(["pop", "pop_due"]), st.integers(0, 20))
TIMES_NS = st.integers(1, 10**10)
PROFILES = st.dictionaries(st.integers(1, 300), TIMES_NS, min_size=1, max_size=8)
WEIGHTS = st.sampled_from([1.0, 2.0, 68.0])
BATCHES = st.lists(
    st.tuples(st.integers(0, 50 * MS), st.integers(1, 40 * MS), st.sampled_from(SlotClass)),
    min_size=1,
    max_size=8,
)


@given(st.lists(st.one_of(PUSH, PUSH, CANCEL, POP), max_size=200))
def test_timer_queue_is_a_sorted_list(steps):
    """Push, cancel and pop do what they would do on a list sorted by instant and age."""
    queue, model, timers = TimerQueue(), [], []
    for kind, number in steps:
        if kind == "push":
            entry = (number, len(timers))
            timers.append((entry, queue.push(number, entry)))
            model = sorted([*model, entry])
        elif kind == "cancel" and timers:
            entry, timer = timers[number % len(timers)]
            queue.cancel(timer)
            model = [other for other in model if other != entry]
        elif kind == "pop":
            head = model.pop(0) if model else None
            assert queue.pop() == (None if head is None else (head[0], head))
        elif kind == "pop_due":
            head = model.pop(0) if model and model[0][0] <= number else None
            assert queue.pop_due(number) == head
        assert len(queue) == len(model)
        assert queue.head_at_ns() == (model[0][0] if model else None)
        assert len(queue._heap) <= 2 * len(queue) + 64


@given(PROFILES, st.lists(st.integers(1, 1_000), min_size=2, max_size=10))
def test_profile_that_rises_is_monotone(times, sizes):
    """When more rows never took less time, they are never predicted to."""
    profile = Profile(dict(zip(sorted(times), sorted(times.values()), strict=True)))
    predicted = [profile.service_ns(rows) for rows in sorted(sizes)]
    assert all(fewer <= more for fewer, more in pairwise(predicted))


@given(PROFILES, st.integers(1, 1_000))
def test_profile_stays_between_its_neighbours(times, rows):
    """Interpolation never leaves the range of what was measured, nor is it ever below one."""
    predicted = Profile(times).service_ns(rows)
    assert predicted >= 1
    if rows <= max(times):
        below = max((size for size in times if size <= rows), default=min(times))
        above = min(size for size in times if size >= rows)
        low_ns, high_ns = sorted((times[below], times[above]))
        assert low_ns <= predicted <= high_ns


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 10**9)), min_size=1, max_size=60))
def test_predictor_stays_within_what_it_saw(observations):
    """The floor is the fastest, the mean between fastest and slowest, of each size."""
    predictor = MeanPredictor()
    for rows, service_ns in observations:
        predictor.observe("m", rows, service_ns)
    for size in {rows for rows, _ in observations}:
        seen = [service_ns for rows, service_ns in observations if rows == size]
        assert predictor.floor_ns("m", size) == min(seen)
        assert min(seen) <= predictor.service_ns("m", size) <= max(seen)
    every = [service_ns for _, service_ns in observations]
    assert min(every) <= predictor.service_ns("m", 3) <= max(every)


def finishes(batches, weights):
    """Play batches (start, work, class) on one lane; when each ends, by number."""
    work_ns = {number: work for number, (_, work, _) in enumerate(batches, start=1)}
    lanes = SharedLanes(lambda d: work_ns[d.batch_id], [a_device(lanes=[0])], weights)
    todo = sorted((start, number) for number, (start, _, _) in enumerate(batches, start=1))
    expected, ended = {}, {}
    while todo or expected:
        end = min(((at, number) for number, at in expected.items()), default=None)
        if end is None or (todo and todo[0][0] <= end[0]):
            now_ns, number = todo.pop(0)
            dispatch = a_dispatch(number, number, slot_class=batches[number - 1][2])
            moved = lanes.start(dispatch, now_ns)
        else:
            now_ns, number = end
            ended[number] = now_ns
            del expected[number]
            moved = lanes.end(number, now_ns)
        expected.update((finish.batch_id, finish.at_ns) for finish in moved)
    return ended


@given(BATCHES, WEIGHTS)
def test_shared_lane_conserves_work(batches, weight):
    """A lane with work is never idle: it ends when one that ran them in turn would."""
    ended = finishes(batches, {SlotClass.HIGH: weight, SlotClass.LOW: 1.0})
    free_at_ns = 0
    for start, work, _ in sorted(batches):
        free_at_ns = max(free_at_ns, start) + work
    assert max(ended.values()) == pytest.approx(free_at_ns, abs=2 * len(batches))


@given(BATCHES, WEIGHTS)
def test_shared_lane_is_never_faster_than_alone(batches, weight):
    """Neighbours cost time or nothing; they never give any."""
    ended = finishes(batches, {SlotClass.HIGH: weight, SlotClass.LOW: 1.0})
    for number, (start, work, _) in enumerate(batches, start=1):
        assert ended[number] - start >= work - 1


@given(st.integers(1, 8), st.integers(1, 40 * MS))
def test_equal_batches_of_equal_weight_share_equally(count, work):
    """Those who start together and want the same end together."""
    batches = [(0, work, SlotClass.HIGH)] * count
    ended = finishes(batches, {SlotClass.HIGH: 3.0, SlotClass.LOW: 1.0})
    assert all(abs(at_ns - count * work) <= count for at_ns in ended.values())


@given(BATCHES)
def test_later_neighbours_never_help(batches):
    """Taking the last batch away delays nobody."""
    weights = {SlotClass.HIGH: 2.0, SlotClass.LOW: 1.0}
    batches = sorted(batches, key=lambda batch: batch[0])
    alone, together = finishes(batches[:-1], weights), finishes(batches, weights)
    assert all(together[number] >= alone[number] - 2 for number in alone)


ORDERS = {
    "fifo": lambda number, what: number,
    "priority": lambda number, what: (what[0], number),
    "edf": lambda number, what: (number + what[1] * MS, number),
}


@given(
    st.sampled_from(sorted(ORDERS)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(100, 999)), min_size=1, max_size=20),
    st.booleans(),
)
def test_waiting_work_is_served_in_the_order_of_the_policy(policy, waiting, is_split):
    """Behind one busy slot, over buckets and models, service follows the key, ties by arrival."""
    talk = a_kernel(policy, models=["m", "n"])
    talk.arrives(1)
    for number, (priority, budget_ms) in enumerate(waiting, start=2):
        talk.arrives(
            number,
            at=number,
            model="n" if is_split and number % 2 else "m",
            bucket=str(number % 3) if is_split else "",
            priority=priority,
            budget=f"{budget_ms}ms",
        )
    served = []
    while talk.kernel.fleet.batches:
        (batch_id,) = talk.kernel.fleet.batches
        served += [ids[0] for ids in dispatched(talk.finishes(batch_id))]
    numbered = enumerate(waiting, start=2)
    assert served == [n for n, what in sorted(numbered, key=lambda pair: ORDERS[policy](*pair))]
