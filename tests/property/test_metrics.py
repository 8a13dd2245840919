"""Conservation: on any journal, what is counted adds up, at each step and in the end.

Ten thousand journals of a kernel under any order of events. What is expected is counted by others:
the kernel's own books, the policy's feedback, which is told of the time of each request, and the
outcomes that callers would see.
"""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tests.counted import TENANTS, TIERS, listen, samples, total
from tests.kernel_world import MS, World
from tests.swarm_policy import MOODS, Swarm

from headway.core import (
    Cancel,
    Complete,
    ConcludeUnload,
    Dispatch,
    Expire,
    Fail,
    Reject,
    SetTimer,
    SlotClass,
    UnloadReplica,
)
from headway.policy import edf, fifo, priority
from headway.units import NS_PER_S

JOURNALS = 10_000
BLOCKS = 40
"""Journals are played in blocks, so that a failure names few of them."""
EXPORTED_EVERY = 100
"""Journals of which the exposition is looked at too: to make it takes longer than to play one."""
ENDS = (Complete, Reject, Expire, Cancel, Fail)
ORDERS = (fifo, priority, edf)
PAUSES_NS = (0, 0, 1, MS, 7 * MS, 40 * MS)
WORDS = {
    "model": ["a", "a", "a", "b"],
    "bucket": ["x", "x", "y"],
    "version": ["", "", "", "1", "2"],
    "rows": [1, 1, 2, 3, 5, 9],
    "payload": [0, 30, 60, 120],
    "priority": [0, 1, 2],
    "slot_class": list(SlotClass),
    "budget": [-1, MS, 10 * MS, 50 * MS, 200 * MS],
    "late": [0, 0, MS, 100 * MS],
    "tier": [*TIERS],
    "tenant": [*TENANTS, "default"],
}
MODEL = {
    "version": ["1", "2"],
    "devices": [("cpu:0",), ("cpu:0", "cpu:1")],
    "rows_max": [1, 4],
    "can_split": [False, True],
}


class Book:
    """Feedback that writes down the time of each request."""

    def __init__(self):
        self.ran_ns = Counter()

    def admitted(self, request, now_ns):
        """Nothing to write down."""

    def started(self, request, rows, now_ns):
        """Nothing to write down."""

    def ended(self, request, is_met, now_ns):
        """Nothing to write down: outcomes say more."""

    def ran(self, request, device_ns, now_ns):
        """Its part of a batch."""
        self.ran_ns[request.request_id] += device_ns


class CountedWorld(World):
    """A world whose metrics see every step."""

    may_follow = (SetTimer, Dispatch, Expire, UnloadReplica, ConcludeUnload)

    def listen(self):
        self.ended_at_ns = {}
        self.metrics = listen(self.talk, has_tenants=True, knows=("a", "b"))

    def obey(self, commands):
        super().obey(commands)
        for command in commands:
            if isinstance(command, ENDS):
                self.ended_at_ns[command.request_id] = self.talk.now_ns

    def check(self):
        """The laws of the books, in plain numbers."""
        metrics, kernel = self.metrics, self.talk.kernel
        table = metrics._series
        for series in table.values():
            assert series.arrived == sum(series.outcomes.values()) + series.in_flight
            assert 0 <= series.waiting <= series.in_flight
            assert series.violations == series.late + sum(
                count
                for (outcome, _), count in series.outcomes.items()
                if outcome not in ("completed", "cancelled")
            )
            for cell in series.cells.values():
                assert 0 <= sum(cell.wasted_ns.values()) <= cell.ran_ns
        every = table.values()
        assert sum(series.arrived for series in every) == kernel.ledger.arrived_count
        assert sum(series.in_flight for series in every) == len(kernel.ledger.live)
        assert sum(series.waiting for series in every) == kernel.room.count
        assert set(metrics._batches) == set(kernel.fleet.batches)
        ran_ns = sum(cell.ran_ns for series in every for cell in series.cells.values())
        assert ran_ns == sum(metrics._device_time._ran_ns.values()) == self.service_ns

    def at_rest(self, book):
        """Everything has ended: gauges are 0, and each sum is what others counted."""
        metrics = self.metrics
        self.check()
        assert (metrics._live, metrics._batches) == ({}, {})
        for series in metrics._series.values():
            assert (series.in_flight, series.waiting, series.model._waiting) == (0, 0, {})
        assert self.time_by_tier() == self.time_as_told(book)
        assert self.tenants_as_counted() == self.tenants_as_answered()

    def fate(self, request_id):
        """Why the time of a request was wasted; None where it was not."""
        end = self.talk.outcomes[request_id]
        request = self.requests[request_id]
        is_late = self.ended_at_ns[request_id] > request["expires_at_ns"] - request["late"]
        match end:
            case Complete():
                return "late" if is_late else None
            case Expire():
                return "late"
            case Cancel():
                return "gone"
        return "failed"

    def time_as_told(self, book):
        """By tier, and by tier and fate, from what the policy was told of each request."""
        found = Counter()
        for request_id, ran_ns in book.ran_ns.items():
            tier = self.requests[request_id]["tier"]
            found[tier] += ran_ns
            if (fate := self.fate(request_id)) is not None:
                found[tier, fate] += ran_ns
        return +found

    def time_by_tier(self):
        """The same from the metrics."""
        found = Counter()
        for (_, tier), series in self.metrics._series.items():
            for cell in series.cells.values():
                found[tier] += cell.ran_ns
                for fate, wasted_ns in cell.wasted_ns.items():
                    found[tier, fate] += wasted_ns
        return +found

    def tenants_as_answered(self):
        """Answers and violations by tenant and tier, from what callers saw."""
        found = Counter()
        for request_id, end in self.talk.outcomes.items():
            request = self.requests[request_id]
            if isinstance(end, Cancel) or request["tenant"] not in TENANTS:
                continue
            found[request["tenant"], request["tier"]] += 1
            is_met = isinstance(end, Complete) and self.fate(request_id) is None
            found[request["tenant"], request["tier"], "violations"] += not is_met
        return +found

    def tenants_as_counted(self):
        """The same from the metrics."""
        found = Counter()
        for labels, pair in self.metrics._tenant_tiers._pairs.items():
            found[labels] += pair.answers
            found[(*labels, "violations")] += pair.violations
        return +found


def walk(world, chance, steps):
    """Let things happen by chance, mostly that work comes and is done."""

    def choose(words):
        return {word: chance.choice(each) for word, each in words.items()}

    for _ in range(steps):
        pause_ns = chance.choice(PAUSES_NS)
        what = chance.random()
        if what < 0.4:
            world.arrive([choose(WORDS) for _ in range(chance.randint(1, 3))], pause_ns)
        elif what < 0.65:
            world.finish([chance.randrange(10)], pause_ns)
        elif what < 0.75:
            world.cancel(chance.randrange(4), pause_ns)
        elif what < 0.9:
            world.wake()
        elif what < 0.93 and world.batches:
            world.fail(chance.randrange(10), pause_ns)
        elif what < 0.95:
            world.lose([chance.randrange(10)], pause_ns)
        elif what < 0.97:
            world.ask_for(chance.choice("ab"), **choose(MODEL), pause_ns=pause_ns)
        elif world.loading:
            world.go_on_loading(chance.randrange(10), fails=False, can_batch=True)
        world.check()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_sums_agree_on_any_journal(block):
    """Started = ended + in flight; time, waste, tiers and tenants add up; gauges return to 0."""
    for number in range(block * JOURNALS // BLOCKS, (block + 1) * JOURNALS // BLOCKS):
        chance = Random(f"{number}/metrics")
        moods = [mood for mood in MOODS if chance.random() < 0.5]
        swarm = Swarm(number, moods).maker(chance.choice(ORDERS))
        book = Book()
        world = CountedWorld()
        world.begin(lambda p, m=swarm, b=book: replace(m(p), feedback=b), None, can_split=True)
        walk(world, chance, chance.randint(3, 12))
        world.end()
        world.at_rest(book)
        if number % EXPORTED_EVERY == 0:
            exported(world)


def exported(world):
    """What Prometheus would see has the same sums."""
    metrics, ledger = world.metrics, world.talk.kernel.ledger
    assert total(metrics, "headway_requests_arrived_total") == ledger.arrived_count
    assert total(metrics, "headway_requests_total") == ledger.ended_count
    completed = total(metrics, "headway_requests_total", outcome="completed")
    for name in ("queue_delay", "service", "latency"):
        assert total(metrics, f"headway_{name}_seconds_count") == completed
    assert total(metrics, "headway_batch_rows_count") == total(metrics, "headway_batches_total")
    service_s = world.service_ns / NS_PER_S
    for name in ("device_seconds", "slots_busy_seconds"):
        assert total(metrics, f"headway_{name}_total") == pytest.approx(service_s)
    at_rest = (
        *("queue_depth", "queue_oldest_age_seconds"),
        *("requests_in_flight", "requests_oldest_age_seconds", "slots_busy"),
        *("tenant_queue_depth", "tenant_queue_oldest_age_seconds"),
    )
    for (name, labels), value in samples(metrics).items():
        if name.removeprefix("headway_") in at_rest:
            assert value == 0, (name, labels)


def test_journals_have_every_kind_of_end_and_waste():
    """What the journals above are for does happen in them."""
    met = Counter()
    for number in range(300):
        chance, book, world = Random(f"{number}/metrics"), Book(), CountedWorld()
        swarm = Swarm(number, MOODS).maker(priority)
        world.begin(lambda p, m=swarm, b=book: replace(m(p), feedback=b), None, can_split=True)
        walk(world, chance, 12)
        world.end()
        for series in world.metrics._series.values():
            met["promoted"] += series.promotions
            for (outcome, _), count in series.outcomes.items():
                met[outcome] += count
            for cell in series.cells.values():
                met.update({fate: ns > 0 for fate, ns in cell.wasted_ns.items()})
    kinds = ("completed", "rejected", "expired", "cancelled", "failed", "late", "gone", "promoted")
    assert min(met[kind] for kind in kinds) > 5, met
