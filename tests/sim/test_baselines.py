"""Every named policy on the example's load: at no instant does it do what it says it never does."""

from pathlib import Path

import pytest

from headway.app import build_policy, own_predictor, policy_from_section
from headway.config import build_from_file
from headway.core import (
    BatchFailed,
    BatchFinished,
    Cancel,
    Complete,
    Dispatch,
    Expire,
    ExpireReason,
    Fail,
    Reject,
    RequestArrived,
    SlotClass,
)
from headway.policy import POLICY_PREDICTORS
from headway.predict import Recipe, build_predictor
from headway.sim import Tally, scenario_from_dict

SCENARIO = Path(__file__).parents[2] / "examples/scenario.yaml"
LOW, HIGH = SlotClass.LOW, SlotClass.HIGH


class Observed:
    """A run of the example, cut short: what runs and waits after every step, and a law of it."""

    def __init__(self, settings, law, *, duration="10s", seed=1):
        def of(data):
            workload = data["workload"] | {"duration": duration}
            return scenario_from_dict(data | {"workload": workload, "seed": seed})

        scenario = build_from_file(SCENARIO, of)
        (device,) = scenario.params.devices
        self.lanes = device.slot_lanes
        self.requests = {}
        self.running = {}
        self.waiting = {}
        self.steps = 0
        self.dispatches = 0
        self.reasons = set()
        self.tally = Tally()
        self._law = law
        section = policy_from_section(settings)
        recipe = Recipe(
            kind=own_predictor(section),
            profiles=scenario.profiles(),
            has_classes=section.class_slots,
        )
        predictor = build_predictor(recipe, scenario.params.devices)
        self.world = scenario.play(build_policy(section, predictor), observe=self._observe)

    def _observe(self, now_ns, event, commands):
        self.steps += 1
        self.tally(now_ns, event, commands)
        if isinstance(event, RequestArrived):
            self.requests[event.request.request_id] = event.request
            self.waiting[event.request.request_id] = event.request
        if isinstance(event, BatchFinished | BatchFailed):
            self.running.pop(event.batch_id, None)
        for command in commands:
            if isinstance(command, Dispatch):
                self.dispatches += 1
                for request_id in command.request_ids:
                    del self.waiting[request_id]
                self._law(self, now_ns, command)
                self.running[command.batch_id] = command
            elif isinstance(command, Complete | Reject | Expire | Cancel | Fail):
                self.waiting.pop(command.request_id, None)
                if isinstance(command, Expire):
                    self.reasons.add(command.reason)
        self._law(self, now_ns, None)

    def class_of(self, batch):
        """Low where all members are."""
        is_low = all(self.requests[i].slot_class is LOW for i in batch.request_ids)
        return LOW if is_low else HIGH

    def count(self, slot_class=None, lane=None):
        """Batches that run, of a class or of all, on a lane or on all."""
        return sum(
            slot_class in (None, self.class_of(batch)) and lane in (None, self.lanes[batch.slot])
            for batch in self.running.values()
        )


def anything(run, now_ns, start):
    """No law."""


def at_most(limit, slot_class=None, *, a_lane):
    """No more batches of a class at once, on each lane or on the device."""

    def law(run, now_ns, start):
        if start is None:
            for lane in set(run.lanes) if a_lane else [None]:
                assert run.count(slot_class, lane) <= limit

    return law


def all_of(*laws):
    """Several laws."""

    def law(run, now_ns, start):
        for one in laws:
            one(run, now_ns, start)

    return law


def low_starts_alone(run, now_ns, start):
    """A low batch starts only where nothing runs."""
    if start is not None and run.class_of(start) is LOW:
        assert run.running == {}


def the_starved_start(run, now_ns, start):
    """No slot is free while low work waits that has waited for half of its budget."""
    if start is None and len(run.running) < len(run.lanes):
        starved = [r for r in run.waiting.values() if now_ns - r.arrived_at_ns > r.budget_ns // 2]
        assert [r for r in starved if r.slot_class is LOW] == []


LAWS = [
    ({"kind": "static-cap"}, at_most(1, LOW, a_lane=True)),
    ({"kind": "static-cap", "low_max": 1}, at_most(1, LOW, a_lane=False)),
    ({"kind": "static-cap", "low_max": 3}, at_most(3, LOW, a_lane=False)),
    ({"kind": "static-cap", "low_max": 1, "class_slots": False}, at_most(1, LOW, a_lane=False)),
    ({"kind": "lane-edf"}, all_of(at_most(1, LOW, a_lane=True), at_most(1, HIGH, a_lane=True))),
    ({"kind": "batch3"}, low_starts_alone),
    ({"kind": "clockwork"}, at_most(1, a_lane=True)),
    ({"kind": "clockwork", "at_once": 1}, at_most(1, a_lane=False)),
    ({"kind": "nexus"}, at_most(1, a_lane=True)),
    ({"kind": "nexus", "at_once": 1}, at_most(1, a_lane=False)),
    ({"kind": "strait"}, the_starved_start),
]


@pytest.mark.parametrize(
    ("settings", "law"), LAWS, ids=["-".join(map(str, s.values())) for s, _ in LAWS]
)
def test_policy_keeps_its_law_at_every_instant(settings, law):
    """What its docstring rules out does not happen once in a whole run near capacity."""
    run = Observed(settings, law)
    assert run.dispatches > 100


@pytest.mark.parametrize(
    ("settings", "law"),
    [
        ({"kind": "priority"}, at_most(1, LOW, a_lane=True)),
        ({"kind": "priority"}, at_most(1, HIGH, a_lane=True)),
        ({"kind": "priority"}, low_starts_alone),
        ({"kind": "static-cap", "low_max": 2}, at_most(1, LOW, a_lane=False)),
        ({"kind": "priority"}, at_most(3, a_lane=False)),
        ({"kind": "static-cap", "low_max": 1}, the_starved_start),
    ],
    ids=["low", "high", "alone", "cap", "busy", "starved"],
)
def test_laws_can_be_broken(settings, law):
    """A policy without the rule breaks it on this load, so that keeping it means something."""
    with pytest.raises(AssertionError):
        Observed(settings, law)


@pytest.mark.parametrize("kind", POLICY_PREDICTORS)
def test_every_policy_answers_every_request(kind):
    """Nothing is left over, nothing is answered twice, and nothing is lost from the count."""
    run = Observed({"kind": kind}, anything)
    assert (run.waiting, run.running) == ({}, {})
    tiers = run.tally.tiers
    for tier in tiers.values():
        ends = tier.completed + tier.rejected + tier.expired + tier.failed + tier.cancelled
        assert ends == tier.arrived > 0
    assert sum(tier.arrived for tier in tiers.values()) == len(run.requests)


@pytest.mark.parametrize("kind", ["clockwork", "nexus"])
def test_early_droppers_drop_early(kind):
    """Work is given up as predicted late, not only at its deadline."""
    run = Observed({"kind": kind}, anything)
    assert ExpireReason.PREDICTED_LATE in run.reasons


def test_policy_is_the_same_run_after_run():
    """Memories of policies depend on nothing but what they were told."""
    counts = [
        (run.steps, run.dispatches, run.tally.tiers)
        for run in (Observed({"kind": "strait"}, anything) for _ in range(2))
    ]
    assert counts[0] == counts[1]
