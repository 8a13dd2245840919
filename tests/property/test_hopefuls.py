"""Laws of `hopeless_among`: no schedule meets more deadlines, and none of the important is lost."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headway.policy.hopefuls import Wish, hopeless_among

WORKS = st.integers(1, 12)
DEADLINES = st.integers(1, 40)
STARTS = st.integers(0, 10)
JOBS = st.lists(st.tuples(DEADLINES, WORKS), max_size=8)
RANKED_JOBS = st.lists(st.tuples(DEADLINES, WORKS, st.integers(0, 2)), max_size=10)


def wishes_of(jobs):
    """By deadline."""
    return sorted(
        Wish(deadline, number, work, *rest or (1,))
        for number, (deadline, work, *rest) in enumerate(jobs, start=1)
    )


def is_feasible(wishes, start):
    """Whether all are in time on one lane, the earliest deadline first."""
    at = start
    for wish in wishes:
        at += wish.work_ns
        if at > wish.deadline_at_ns:
            return False
    return True


def most_in_time(wishes, start):
    """By trying every subset."""
    for count in range(len(wishes), -1, -1):
        if any(is_feasible(chosen, start) for chosen in combinations(wishes, count)):
            return count
    return 0


def kept_of(wishes, start):
    """Those who are not given up."""
    lost = hopeless_among(wishes, start_at_ns=start, lanes_rate=1.0)
    return [wish for wish in wishes if wish.request_id not in lost]


@given(JOBS, STARTS)
def test_no_schedule_meets_more_deadlines(jobs, start):
    """One lane, all as important: as many are kept as the best subset has, and all are in time."""
    wishes = wishes_of(jobs)
    kept = kept_of(wishes, start)
    assert is_feasible(kept, start)
    assert len(kept) == most_in_time(wishes, start)


@given(RANKED_JOBS, STARTS)
def test_important_ones_are_kept_as_if_the_others_were_not_there(jobs, start):
    """Whoever is given up is never given up for someone less important."""
    wishes = wishes_of(jobs)
    kept = kept_of(wishes, start)
    assert is_feasible(kept, start)
    for priority in range(3):
        alone = [wish for wish in wishes if wish.priority <= priority]
        assert [wish for wish in kept if wish.priority <= priority] == kept_of(alone, start)


@given(JOBS, STARTS, st.integers(1, 4))
def test_more_lanes_never_lose_more(jobs, start, lanes):
    """Twice the speed keeps at least as many."""
    wishes = wishes_of(jobs)
    counts = [
        len(hopeless_among(wishes, start_at_ns=start, lanes_rate=float(rate)))
        for rate in (lanes, 2 * lanes)
    ]
    assert counts[1] <= counts[0]


@given(RANKED_JOBS, STARTS, DEADLINES, st.integers(1, 20))
def test_who_cannot_be_in_time_takes_nobody_along(jobs, start, deadline, excess):
    """However important it is: one that is too long in any case is given up alone."""
    wishes = wishes_of(jobs)
    hopeless = Wish(start + deadline, 99, deadline + excess, 0)
    lost = hopeless_among(sorted([*wishes, hopeless]), start_at_ns=start, lanes_rate=1.0)
    assert lost == {99} | hopeless_among(wishes, start_at_ns=start, lanes_rate=1.0)
