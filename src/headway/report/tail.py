"""Where the tail comes from: what requests at p99 spent their time on that others did not.

Each request's latency is taken apart into causes that add up to it (`causes`). Those around the
median, between p45 and p55, are compared with those at p99 and beyond, for each model and tier: the
mean of each cause among the one less its mean among the other is what it *adds*, and all that they
add is the way from the median to the tail.

A request that was answered counts, in time or late, and one that expired at its deadline, for it
waited as long as it could. Refused, given up early, cancelled and failed ones are counted apart:
they ended before their time, and what they would have taken is not known.

The records are read twice: once for what is typical and for the percentiles, once to take those
requests apart that are in either band. What is held between is a number a request.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from headway.core import (
    Complete,
    DeviceParams,
    Expire,
    ExpireReason,
    ModelName,
    Record,
    TierName,
)
from headway.observe import Lives, PauseWatch, RequestLife
from headway.report.causes import Typical, TypicalTimes, parts_of
from headway.report.remedies import remedy_of
from headway.report.waits import Cause

__all__ = ["TailCause", "TailGroup", "TailReport", "split_tail", "tail_to_json"]

_GROUPS_MAX: Final = 256
"""Models and tiers; what comes beyond is left out, and counted."""
_TAKEN_APART_MAX: Final = 250
"""Requests of a band; of a larger one every second, third, ..."""
_MIDDLE: Final = (0.45, 0.55)
_TAIL: Final = 0.99
_SHOWN_RATIO_MIN: Final = 0.05
"""A cause that adds less of the way to the tail needs no remedy."""


class TailCause(Struct, frozen=True, kw_only=True):
    """One cause, in the middle and in the tail."""

    cause: Cause
    middle_ns: int
    """Mean among the requests around the median."""
    tail_ns: int
    """Mean among those at p99 and beyond."""
    added_ns: int
    """The difference; below 0 where the tail had less of it."""
    added_ratio: float
    """Of all that was added."""
    remedy: str | None
    """What to do, where it adds enough to matter."""


class TailGroup(Struct, frozen=True, kw_only=True):
    """The requests of one model and tier."""

    model: ModelName
    tier: TierName
    requests: int
    """That were answered, or expired at their deadline."""
    ended_early: int
    """Refused, given up, cancelled or failed; in no number below."""
    late: int
    expired: int
    p50_ns: int
    p99_ns: int
    middle_requests: int
    """Taken apart around the median."""
    tail_requests: int
    """Taken apart at p99 and beyond."""
    middle_ns: int
    """Mean latency of the former."""
    tail_ns: int
    causes: list[TailCause]
    """Whatever adds most first, together what lies between the means; those that took no time in
    either band are left out."""


class TailReport(Struct, frozen=True, kw_only=True):
    """The tail of a run."""

    groups: list[TailGroup]
    """The longest way from the median to the tail first."""
    pauses: int
    """Of the host."""
    paused_ns: int
    groups_left_out: int


class _Band(NamedTuple):
    """Latencies from the one to the other, and how many are taken apart."""

    from_ns: int
    to_ns: int | None
    stride: int


class _Found:
    """What the second reading found in a band."""

    __slots__ = ("band", "count", "latency_ns", "parts", "seen")

    def __init__(self, band: _Band) -> None:
        self.band = band
        self.seen = 0
        self.count = 0
        self.latency_ns = 0
        self.parts: Counter[Cause] = Counter()

    def wants(self, latency_ns: int) -> bool:
        low_ns, high_ns, stride = self.band
        if latency_ns < low_ns or (high_ns is not None and latency_ns > high_ns):
            return False
        self.seen += 1
        return (self.seen - 1) % stride == 0

    def mean_ns(self) -> int:
        return self.latency_ns // self.count

    def means_ns(self) -> dict[Cause, int]:
        """Of each cause, rounded so that together they are the mean latency."""
        means, so_far_ns, told_ns = {}, 0, 0
        for cause in Cause:
            so_far_ns += self.parts[cause]
            means[cause] = so_far_ns // self.count - told_ns
            told_ns += means[cause]
        return means


class _Group:
    """A model and tier, while it is read."""

    __slots__ = ("early", "expired", "late", "latencies_ns", "middle", "tail")

    def __init__(self) -> None:
        self.latencies_ns = array("q")
        self.early = 0
        self.late = 0
        self.expired = 0
        self.middle: _Found | None = None
        self.tail: _Found | None = None

    def note(self, life: RequestLife) -> None:
        latency_ns = life.latency_ns
        if latency_ns is None or not _is_counted(life):
            self.early += 1
            return
        self.latencies_ns.append(latency_ns)
        self.late += life.is_late
        self.expired += isinstance(life.outcome, Expire)

    def choose(self) -> None:
        """Set the bands; percentiles are the nearest rank."""
        ascending = sorted(self.latencies_ns)
        self.latencies_ns = array("q", ascending)
        count = len(ascending)
        low_ns, high_ns = (ascending[max(1, ceil(ratio * count)) - 1] for ratio in _MIDDLE)
        tail_ns = ascending[max(1, ceil(_TAIL * count)) - 1]
        # Many may be equal, so that a band has more members than it has ranks.
        in_middle = bisect_right(ascending, high_ns) - bisect_left(ascending, low_ns)
        in_tail = count - bisect_left(ascending, tail_ns)
        self.middle = _Found(_Band(low_ns, high_ns, _stride(in_middle)))
        self.tail = _Found(_Band(tail_ns, None, _stride(in_tail)))


def split_tail(read: Callable[[], Iterable[Record]], devices: Sequence[DeviceParams]) -> TailReport:
    """Take the tail of a run apart.

    Args:
        read: gives the run's Records from the start; called twice.
        devices: of the run.
    """
    groups: dict[tuple[ModelName, TierName], _Group] = {}
    left_out: set[tuple[ModelName, TierName]] = set()
    typical = _read_first(read(), devices, groups, left_out)
    kept = {key: group for key, group in groups.items() if group.latencies_ns}
    for group in kept.values():
        group.choose()
    _read_again(read(), devices, kept, typical)
    found = [_summed(key, group) for key, group in kept.items()]
    found.sort(key=lambda group: (group.p50_ns - group.p99_ns, group.model, group.tier))
    return TailReport(
        groups=found,
        pauses=len(typical.pauses),
        paused_ns=sum(pause.to_ns - pause.from_ns for pause in typical.pauses),
        groups_left_out=len(left_out),
    )


def tail_to_json(report: TailReport) -> str:
    """The report as JSON whose keys keep their order."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def _read_first(
    records: Iterable[Record],
    devices: Sequence[DeviceParams],
    groups: dict[tuple[ModelName, TierName], _Group],
    left_out: set[tuple[ModelName, TierName]],
) -> Typical:
    lives, times, watch = Lives(devices), TypicalTimes(), PauseWatch()
    for record in records:
        watch.step(record)
        ended = lives.step(record)
        for batch in ended.batches:
            times.add(batch, lives)
        for life in ended.requests:
            if life.request is None:
                continue
            key = (life.request.model, life.request.tier)
            group = groups.get(key)
            if group is None:
                if len(groups) >= _GROUPS_MAX:
                    left_out.add(key)
                    continue
                group = groups[key] = _Group()
            group.note(life)
    watch.finish()
    return times.typical(watch.pauses)


def _read_again(
    records: Iterable[Record],
    devices: Sequence[DeviceParams],
    groups: Mapping[tuple[ModelName, TierName], _Group],
    typical: Typical,
) -> None:
    lives = Lives(devices)
    for record in records:
        for life in lives.step(record).requests:
            if life.request is None or not _is_counted(life):
                continue
            group = groups.get((life.request.model, life.request.tier))
            if group is not None:
                _take_apart(life, group, lives, typical)


def _take_apart(life: RequestLife, group: _Group, lives: Lives, typical: Typical) -> None:
    latency_ns = life.latency_ns
    assert latency_ns is not None, "it has ended, and its arrival is known"
    wanting = [found for found in _bands(group) if found.wants(latency_ns)]
    if wanting:
        taken = parts_of(life, lives, typical)
        assert taken is not None, "its arrival is known"
        for found in wanting:
            found.count += 1
            found.latency_ns += latency_ns
            found.parts.update(taken.parts_ns)


def _bands(group: _Group) -> Iterator[_Found]:
    assert group.middle is not None, "bands are chosen between the readings"
    assert group.tail is not None, "bands are chosen between the readings"
    yield group.middle
    yield group.tail


def _summed(key: tuple[ModelName, TierName], group: _Group) -> TailGroup:
    middle, tail = _bands(group)
    middle_ns, tail_ns = middle.means_ns(), tail.means_ns()
    count = len(group.latencies_ns)
    added_ns = {cause: tail_ns[cause] - middle_ns[cause] for cause in Cause}
    whole_ns = sum(added_ns.values())
    causes = []
    for cause in sorted(Cause, key=lambda cause: -added_ns[cause]):
        if middle_ns[cause] or tail_ns[cause]:
            ratio = added_ns[cause] / whole_ns if whole_ns > 0 else 0.0
            found = TailCause(
                cause=cause,
                middle_ns=middle_ns[cause],
                tail_ns=tail_ns[cause],
                added_ns=added_ns[cause],
                added_ratio=round(ratio, 4),
                remedy=remedy_of(cause, key[0]) if ratio >= _SHOWN_RATIO_MIN else None,
            )
            causes.append(found)
    return TailGroup(
        model=key[0],
        tier=key[1],
        requests=count,
        ended_early=group.early,
        late=group.late,
        expired=group.expired,
        p50_ns=group.latencies_ns[max(1, ceil(count / 2)) - 1],
        p99_ns=group.latencies_ns[max(1, ceil(_TAIL * count)) - 1],
        middle_requests=middle.count,
        tail_requests=tail.count,
        middle_ns=middle.mean_ns(),
        tail_ns=tail.mean_ns(),
        causes=causes,
    )


def _stride(count: int) -> int:
    return -(-count // _TAKEN_APART_MAX)


def _is_counted(life: RequestLife) -> bool:
    """Answered, or expired when its time was over and not before."""
    outcome = life.outcome
    if isinstance(outcome, Expire):
        return outcome.reason is ExpireReason.DEADLINE_PAST
    return isinstance(outcome, Complete)
