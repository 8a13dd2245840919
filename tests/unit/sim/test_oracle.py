"""The yardstick: plans played ahead, and the policy that acts by the best."""

from copy import deepcopy

from msgspec.structs import replace

from headway.core import Complete, Dispatch, Expire, ExpireReason, RequestArrived, SlotClass
from headway.policy import edf, priority
from headway.sim import Oracle, Tally, record_into, scenario_from_dict
from headway.sim.rollout import LOW_COST, Facilities, Plan, Rollout, Situation
from headway.testing import MeanPredictor

MS = 1_000_000
PLAIN = {
    "devices": [{"name": "cpu:0", "slots": 2, "lanes": 1}],
    "sharing": "lanes",
    "tiers": {
        "live": {"priority": 0, "budget": "15ms"},
        "bulk": {"priority": 5, "budget": "200ms", "slot_class": "low"},
    },
    "models": [
        {"name": "quick", "service": "10ms", "batch": {"rows_max": 1}},
        {"name": "slow", "service": "30ms", "batch": {"rows_max": 1}},
    ],
    "workload": {
        "duration": "10s",
        "streams": [
            {"model": "quick", "tier": "live", "arrivals": {"kind": "poisson", "rate_rps": 25}},
            {"model": "slow", "tier": "bulk", "arrivals": {"kind": "poisson", "rate_rps": 12}},
        ],
    },
}


def scenario(**changes):
    """One lane that two batches may share, evenly."""
    return scenario_from_dict(deepcopy(PLAIN) | changes)


def situation(plan_scenario, *requests, now_ns=0):
    """These wait or will come; nothing runs."""
    waiting = [request for request in requests if request.arrived_at_ns <= now_ns]
    arrivals = sorted(requests, key=lambda request: request.arrived_at_ns)
    return Situation(now_ns, waiting, [], arrivals, len(waiting))


def played(plan, *requests, **how):
    """Who is let down by a plan within 300 ms."""
    made = scenario()
    facilities = Facilities(
        {device.name: device for device in made.params.devices},
        {model.params.name: model.params for model in made.models},
        {model.params.name: model.profile for model in made.models},
    )
    future = made.foreseeable().future()
    return Rollout(facilities, situation(made, *requests), future, 300 * MS).play(plan, **how)


def requests_of(*kinds):
    """Requests at instants, numbered from 1: (kind, milliseconds)."""
    made = {}
    for request in scenario().requests():
        made.setdefault(request.model, request)
    return [
        replace(made[kind], request_id=number, arrived_at_ns=at_ms * MS)
        for number, (kind, at_ms) in enumerate(kinds, start=1)
    ]


def test_plan_is_judged_by_whom_it_lets_down():
    """Beside a slow batch an urgent one is late; held until that has come and gone, none is."""
    both = requests_of(("slow", 0), ("quick", 1))
    beside = played(Plan(2, 2), *both)
    assert (beside.cost, beside.missed) == (1.0, {2})
    assert played(Plan(2, 2, held_steps=2), *both).missed == set()
    assert played(Plan(2, 0), *both).missed == {1}


def test_plan_that_costs_too_much_is_not_played_out():
    """Whoever looks for the best need not know how bad the others are."""
    crowd = requests_of(*[("quick", at_ms) for at_ms in range(0, 200, 4)])
    whole, part = played(Plan(1, 1), *crowd), played(Plan(1, 1), *crowd, cost_max=2.0)
    assert 2.0 < part.cost < whole.cost


def test_low_request_costs_less():
    """One of each let down: by how much is `LOW_COST`."""
    crowd = requests_of(*[("slow", 0)] * 8)
    run = played(Plan(2, 1), *crowd)
    assert len(run.missed) == 2
    assert run.cost == 2 * LOW_COST


def test_hopeless_is_dropped_and_counted():
    """Three at once for fifteen milliseconds of one lane: one is in time, two never could be."""
    crowd = requests_of(*[("quick", 0)] * 3)
    run = played(Plan(1, 1), *crowd)
    assert run.missed == {2, 3}


def run(made, policy, executor=None):
    """Tally and steps of a run."""
    tally, records = Tally(), []
    note = record_into(records)

    def observe(now_ns, event, commands):
        tally(now_ns, event, commands)
        note(now_ns, event, commands)

    made.play(policy, observe=observe, executor=executor)
    return tally, records


def test_oracle_lets_fewer_down_than_whoever_does_not_know():
    """On a lane where a slow batch makes an urgent one late, it knows when to hold it back."""
    made = scenario()
    oracle = Oracle(made, made.foreseeable())
    best, _ = run(made, oracle.policy(), oracle)
    for policy in (priority, edf):
        other, _ = run(made, policy(MeanPredictor()))
        live, bulk = best.tiers["live"], best.tiers["bulk"]
        assert live.violation_ratio < other.tiers["live"].violation_ratio / 2
        cost = live.violations + LOW_COST * bulk.violations
        assert cost < other.tiers["live"].violations / 2


def test_what_it_starts_is_in_time():
    """It knows the times, so next to nothing that it starts ends late; the rest is given up."""
    streams = deepcopy(PLAIN["workload"])
    streams["streams"][0]["arrivals"]["rate_rps"] = 120
    made = scenario(workload=streams)
    oracle = Oracle(made, made.foreseeable())
    _, records = run(made, oracle.policy(), oracle)
    commands = [command for record in records for command in record.commands]
    started = {i for c in commands if isinstance(c, Dispatch) for i in c.request_ids}
    completed = {c.request_id for c in commands if isinstance(c, Complete)}
    given_up = [c for c in commands if isinstance(c, Expire)]
    assert any(c.reason is ExpireReason.PREDICTED_LATE for c in given_up)
    assert len(started - completed) < 0.05 * len(started)


def test_every_arrival_has_one_end():
    """Lost workers and all, what it remembers is what the kernel has."""
    made = scenario(faults=[{"at": "2s", "device": "cpu:0"}, {"at": "5s", "device": "cpu:0"}])
    oracle = Oracle(made, made.foreseeable())
    tally, records = run(made, oracle.policy(), oracle)
    arrived = sum(isinstance(record.event, RequestArrived) for record in records)
    ended = sum(t.completed + t.rejected + t.expired + t.failed for _, t in tally)
    assert arrived == ended > 300
    assert not oracle._waiting
    assert not oracle._alive
    assert {request.slot_class for request in made.requests()} == set(SlotClass)
