"""The board: what an operator sees of a server, made when somebody looks.

While nobody does it costs nothing: the last steps lie in memory anyway, and the first look reads
those of the last minute. What is true now is the kernel's own word; what has just happened is told
by the steps, and what happened since the start by whoever counts all along.

Knows the kernel, steps and counts. Never who looks, and how often: a look is one call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from headway.core import Kernel, ModelName, RequestId, TenantId, TierName
from headway.observe.follow import Follower, ms
from headway.observe.glance import (
    About,
    DeviceNow,
    EndedBatch,
    Glance,
    Kept,
    ModelNow,
    QueueNow,
    ReasonCount,
    Refusal,
    RunningNow,
    SecondOfTiers,
    TenantNow,
    TierNow,
)
from headway.observe.recent import RecentSteps
from headway.observe.seconds import KEPT_S, TenantSum
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["Board", "Sources", "TierGoal"]

_NOW_S: Final = 10
"""What happened in so many seconds is what happens now."""
_SHOWN_S: Final = 30
"""Of ended batches, in a first glance."""
_ENDED_MAX: Final = 300
"""Batches that a glance lists; of a first glance `_FIRST_ENDED_MAX`."""
_FIRST_ENDED_MAX: Final = 1_200
_REFUSALS_SHOWN_MAX: Final = 12
_TENANTS_SHOWN_MAX: Final = 12
_REASONS_SHOWN_MAX: Final = 24
_QUEUES_MAX: Final = 64
_WAITS_MAX: Final = 8
"""Estimates that are made for one glance: each asks the predictor."""
_WAIT_AGE_NS: Final = NS_PER_S
"""For how long an estimate is shown."""

T = TypeVar("T")


class TierGoal(NamedTuple):
    """What a class of service is promised."""

    priority: int
    budget_ns: int
    target_ratio: float


class Sources(NamedTuple):
    """What a board reads besides the steps."""

    kernel: Kernel
    now_ns: Callable[[], int]
    """The engine's clock."""
    kept: Callable[[], Mapping[str, Kept]]
    """By tier: what ended since the start."""
    models: Callable[[], Sequence[ModelNow]]
    refused: Callable[[], Mapping[TenantId, int]] = dict
    """By tenant: requests that a limit of its own refused."""
    weights: Callable[[], Mapping[TenantId, float]] = dict
    """Of tenants' shares, as far as they are configured."""


class Board:
    """Makes glances.

    Args:
        about: what does not change.
        tiers: what each class is promised.
        recent: the last steps.
        sources: what else is read.

    Invariants: `catch_up` is what costs, and does no more at once than it is told; a glance is of
    the step up to which it came.
    """

    def __init__(
        self,
        about: About,
        tiers: Mapping[TierName, TierGoal],
        recent: RecentSteps,
        sources: Sources,
    ) -> None:
        self._about = about
        self._tiers = tiers
        self._recent = recent
        self._from = sources
        self._kernel = sources.kernel
        self._follower = Follower(self._kernel.fleet.devices)
        self._next_seq = 0
        """Of the step to be taken next."""
        self._caught_up_at_ns: int | None = None
        """When nothing was left to be taken the last time; None before the first."""
        self._is_new = True
        """What began before the first step that is taken is not known yet."""
        self._told_ended = self._told_refusals = 0
        """How many batches and refusals had been told of, or were before anyone looked."""
        self._waits: dict[tuple[str, str], tuple[int, float | None]] = {}
        """When each was estimated, and what came of it."""

    def catch_up(self, steps_max: int) -> bool:
        """Take further steps, so many at most; true when none is left."""
        recent = self._recent
        now_ns = self._from.now_ns()
        if self._has_missed(now_ns):
            self._follower.forget()
            self._caught_up_at_ns = now_ns  # from here on; it is not far behind any more
            self._next_seq = recent.hold(now_ns - KEPT_S * NS_PER_S).first_seq
            self._is_new = True
        take = self._follower.take
        first_seq = self._next_seq
        for seq, step in enumerate(islice(recent.steps_since(first_seq), steps_max), first_seq):
            take(seq, *step)
            self._next_seq = seq + 1
        if self._next_seq < recent.next_seq:
            return False
        self._next_seq = recent.next_seq
        self._caught_up_at_ns = now_ns
        if self._is_new:
            self._follower.agree(self._kernel, now_ns)
            self._is_new = False
            self.mark()
        return True

    def _has_missed(self, now_ns: int) -> bool:
        """Steps that were not taken are gone, or so old that to take them would be in vain."""
        last_ns = self._caught_up_at_ns
        if last_ns is None or now_ns - last_ns > KEPT_S * NS_PER_S:
            return True
        return self._next_seq < self._recent.first_seq

    def first(self) -> Glance:
        """A glance with the last minute in it, for who has seen none before."""
        now_ns = self._from.now_ns()
        from_ms = (now_ns - _SHOWN_S * NS_PER_S) / NS_PER_MS
        shown = [each for each in self._follower.ended if each.started_ms > from_ms]
        ended = _evenly(shown, _FIRST_ENDED_MAX)
        refusals = list(self._follower.refusals)
        return self._glance(
            now_ns,
            (ended, len(shown) - len(ended)),
            (refusals, 0),
            [
                SecondOfTiers(
                    at_s=second.at_s,
                    tiers={tier: Kept(*counts) for tier, counts in second.tiers.items()},
                )
                for second in self._follower.seconds.last(now_ns, KEPT_S)
            ],
        )

    def mark(self) -> None:
        """Have the next glance tell of what comes from now on."""
        self._told_ended = self._follower.ended_count
        self._told_refusals = self._follower.refusals_count

    def next(self) -> Glance:
        """A glance with what is new since the one before, for who has seen that."""
        follower, now_ns = self._follower, self._from.now_ns()
        new_ended = follower.ended_count - self._told_ended
        ended = _evenly(_last(follower.ended, new_ended), _ENDED_MAX)
        new_refusals = follower.refusals_count - self._told_refusals
        refusals = _last(follower.refusals, min(new_refusals, _REFUSALS_SHOWN_MAX))
        self.mark()
        return self._glance(
            now_ns,
            (ended, new_ended - len(ended)),
            (refusals, new_refusals - len(refusals)),
            [],
        )

    def _glance(
        self,
        now_ns: int,
        ended: tuple[list[EndedBatch], int],
        refusals: tuple[list[Refusal], int],
        seconds: list[SecondOfTiers],
    ) -> Glance:
        service, latency = self._follower.seconds.coverage(now_ns)
        tenants, tenants_left_out = self._tenants(now_ns)
        return Glance(
            about=self._about,
            step=self._next_seq,
            now_ms=ms(now_ns),
            tiers=list(self._tiers_now(now_ns)),
            queues=self._queues(now_ns),
            devices=list(self._devices()),
            ended=ended[0],
            ended_left_out=ended[1],
            service=service,
            latency=latency,
            tenants=tenants,
            tenants_left_out=tenants_left_out,
            reasons=self._reasons(now_ns),
            refusals=refusals[0],
            refusals_left_out=refusals[1],
            models=list(self._from.models()),
            seconds=seconds,
        )

    def _tiers_now(self, now_ns: int) -> Iterator[TierNow]:
        seconds, nothing = self._follower.seconds, Kept()
        now, minute = seconds.kept(now_ns, _NOW_S), seconds.kept(now_ns, KEPT_S)
        start = self._from.kept()
        for name, goal in self._tiers.items():
            yield TierNow(
                name=name,
                priority=goal.priority,
                budget_ms=ms(goal.budget_ns),
                target_ratio=goal.target_ratio,
                now=now.get(name, nothing),
                minute=minute.get(name, nothing),
                start=start.get(name, nothing),
            )

    def _queues(self, now_ns: int) -> list[QueueNow]:
        waits = self._estimated(now_ns)
        served = self._kernel.queues
        shown = (
            (queue, line)
            for queue, line in self._follower.waiting.items()
            if line or ModelName(queue[0]) in served  # an unloaded model's is gone with it
        )
        return [
            QueueNow(
                model=queue[0],
                tier=queue[1],
                depth=len(line),
                oldest_ms=ms(max(0, now_ns - min(line.values()))) if line else 0.0,
                wait_ms=waits.get(queue),
            )
            for queue, line in islice(shown, _QUEUES_MAX)
        ]

    def _estimated(self, now_ns: int) -> dict[tuple[str, str], float | None]:
        """How long such requests as the last of each kind would wait; a few are asked anew."""
        asked = 0
        for queue, request in islice(self._follower.last.items(), _QUEUES_MAX):
            at_ns, _ = self._waits.get(queue, (-_WAIT_AGE_NS, None))
            if now_ns - at_ns < _WAIT_AGE_NS or asked >= _WAITS_MAX:
                continue
            asked += 1
            wait_ms = None
            if ModelName(queue[0]) in self._kernel.queues:
                one = replace(
                    request,
                    request_id=RequestId(0),
                    rows=1,
                    payload_bytes=request.payload_bytes // request.rows,
                    arrived_at_ns=now_ns,
                )
                foreseen = self._kernel.estimate(one, now_ns).foreseen
                wait_ms = ms(foreseen.queue_ns) if foreseen.bound_ns else None
            self._waits[queue] = now_ns, wait_ms
        return {queue: wait_ms for queue, (_, wait_ms) in self._waits.items()}

    def _devices(self) -> Iterator[DeviceNow]:
        batches = self._follower.batches
        running: dict[str, list[RunningNow]] = {}
        for batch in batches.values():
            running.setdefault(batch.device, []).append(
                RunningNow(
                    slot=batch.slot,
                    model=batch.model,
                    tier=batch.tier,
                    rows=batch.rows,
                    started_ms=ms(batch.started_at_ns),
                    expected_ms=ms(batch.expected_ns),
                    bound_ms=ms(batch.bound_ns),
                )
            )
        for device in self._kernel.fleet.all_devices():
            yield DeviceNow(
                name=device.name,
                lanes=list(device.slot_lanes),
                running=running.get(device.name, []),
            )

    def _tenants(self, now_ns: int) -> tuple[list[TenantNow], int]:
        sums = self._follower.seconds.tenants(now_ns)
        refused, weights = self._from.refused(), self._from.weights()
        for tenant in (*refused, *weights):
            sums.setdefault(tenant, TenantSum())
        total_ns = sum([of.device_ns for of in sums.values()])
        first = sorted(sums.items(), key=lambda pair: (-pair[1].device_ns, pair[0]))
        return [
            TenantNow(
                name=name,
                device_ms=ms(of.device_ns),
                share_ratio=round(of.device_ns / total_ns, 4) if total_ns else 0.0,
                weight=weights.get(TenantId(name)),
                kept=Kept(of.ended, of.in_time),
                refused=refused.get(TenantId(name), 0),
            )
            for name, of in first[:_TENANTS_SHOWN_MAX]
        ], max(0, len(first) - _TENANTS_SHOWN_MAX)

    def _reasons(self, now_ns: int) -> list[ReasonCount]:
        found = sorted(self._follower.seconds.reasons(now_ns).items(), key=lambda pair: -pair[1])
        return [
            ReasonCount(outcome=outcome, reason=reason, count=count)
            for (outcome, reason), count in found[:_REASONS_SHOWN_MAX]
        ]


def _last(items: Sequence[T], count: int) -> list[T]:
    """The last of them, as many as there are."""
    return list(islice(items, max(0, len(items) - count), None)) if count else []


def _evenly(items: list[T], count_max: int) -> list[T]:
    """All, or where they are too many each second, third and so on: an even part of them."""
    stride = -(-len(items) // count_max)
    return items if stride <= 1 else items[::stride]
