"""Which of those who wait can still be served in time: the rest is given up, the costliest first.

Moore and Hodgson's rule for one machine (Management Science 15, 1968): take requests by deadline,
and whenever one would be late drop the longest taken so far; no schedule meets more deadlines. Here
lanes are one machine that is so many times as fast. The less important go first, among them those
of tenants that have had more than their share, among those the longest: a deadline is never lost to
a less important one, nor a tenant's to a greedier one.

Knows works, deadlines and a capacity. Refuses to know who runs where.
"""

from collections.abc import Iterable
from heapq import heapify, heappop
from typing import NamedTuple

from headway.core import RequestId

__all__ = ["Wish", "hopeless_among"]


class Wish(NamedTuple):
    """A request that waits, as a schedule sees it."""

    deadline_at_ns: int
    request_id: RequestId
    work_ns: float
    """Of a lane to itself."""
    priority: int
    round_index: int = 0
    """Of its tenant: who has more than its share is in a later one."""


_Rank = tuple[int, int, float, RequestId]
"""Less priority, a later round, more work; whoever comes first goes first."""


def hopeless_among(
    wishes: Iterable[Wish], *, start_at_ns: float, lanes_rate: float
) -> set[RequestId]:
    """Those who are given up so that as many of the others as possible can be in time.

    Args:
        wishes: by deadline, the earliest first.
        start_at_ns: instant from which the lanes are free, on average.
        lanes_rate: work done per elapsed time.

    Cost: O(n log n), more where many are dropped and taken up again.
    """
    taken: list[_Rank] = []
    given_up: set[RequestId] = set()
    end_at_ns = start_at_ns
    for deadline_at_ns, request_id, work_ns, priority, round_index in wishes:
        end_at_ns += work_ns / lanes_rate
        taken.append((-priority, -round_index, -work_ns, request_id))
        if end_at_ns <= deadline_at_ns:
            continue
        heapify(taken)
        dropped = []
        while end_at_ns > deadline_at_ns and taken:
            dropped.append(heappop(taken))
            end_at_ns += dropped[-1][2] / lanes_rate
        # Whoever was dropped last may have been too long in any case: others need not go for it.
        for rank in reversed(dropped):
            with_it_ns = end_at_ns - rank[2] / lanes_rate
            if with_it_ns <= deadline_at_ns:
                taken.append(rank)
                end_at_ns = with_it_ns
            else:
                given_up.add(rank[3])
    return given_up
