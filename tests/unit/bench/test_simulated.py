"""Simulated contests: matches, processes, and what is made of a run."""

import pytest

from headway.bench import Contender, Match, add_oracle, play, play_all, recipe_for, section_for
from headway.core import SlotClass
from headway.sim import scenario_from_dict

PLAIN = {
    "devices": [{"name": "cpu:0", "slots": 2, "lanes": 1}],
    "sharing": {"kind": "lanes", "niced": True},
    "tiers": {
        "live": {"priority": 0, "budget": "30ms"},
        "bulk": {"priority": 5, "budget": "300ms", "slot_class": "low"},
    },
    "models": [{"name": "m", "service": "10ms", "noise_cv": 0.1, "batch": {"rows_max": 1}}],
    "workload": {
        "duration": "4s",
        "streams": [
            {"model": "m", "tier": "live", "arrivals": {"kind": "poisson", "rate_rps": 40}},
            {"model": "m", "tier": "bulk", "arrivals": {"kind": "poisson", "rate_rps": 50}},
        ],
    },
}


def match(kind, seed=1, **changes):
    """A policy on a lane that two tiers share."""
    scenario = scenario_from_dict({**PLAIN, "seed": seed, **changes})
    return Match(scenario, Contender(kind, {"kind": kind}), mix="test")


def test_run_says_what_became_of_both_classes():
    """Ratios are over all that arrived, and goodput is what was in time over the run's length."""
    played = play(match("priority"))
    run = played.run
    live, bulk = played.tiers["live"], played.tiers["bulk"]
    assert (run.high_requests, run.low_requests) == (live.arrived, bulk.arrived)
    assert run.high_violations == live.violations / live.arrived
    assert run.low_goodput_rps == (bulk.completed - bulk.late) / 4
    assert run.low_goodput_work == pytest.approx(run.low_goodput_rps * 0.010)
    assert (run.mix, run.policy, run.seed, run.emulated, run.niced) == (
        ("test", "priority", 1, False, True)
    )
    assert run.refused + run.expired + run.given_up + run.failed == sum(
        tier.rejected + tier.expired + tier.failed for tier in played.tiers.values()
    )
    assert run.classes["bulk"].budget_ms == 300


def test_decisions_are_timed_where_there_is_a_clock():
    """Without one there is nothing to say."""
    ticks = iter(range(0, 1 << 40, 5_000))
    assert play(match("fifo")).run.decision_p50_us is None
    timed = play(match("fifo"), clock=lambda: next(ticks)).run
    assert timed.decision_p50_us == pytest.approx(5.0, rel=0.02)


def test_processes_play_what_one_plays():
    """In the order of the matches, whoever is done first."""
    matches = [match(kind, seed) for seed in (1, 2) for kind in ("fifo", "edf")]
    alone = [played.run for played in play_all(matches, processes=1)]
    spread = [played.run for played in play_all(matches, processes=2)]
    assert spread == alone
    assert [(run.policy, run.seed) for run in alone] == [
        ("fifo", 1),
        ("edf", 1),
        ("fifo", 2),
        ("edf", 2),
    ]


def test_yardstick_stands_beside_runs_of_the_same_arrivals():
    """A seed that it did not play has none."""
    runs = [play(m).run for m in (match("oracle"), match("edf"), match("edf", seed=2))]
    yardstick, edf, other = add_oracle(runs)
    assert edf.oracle_high == yardstick.high_violations <= edf.high_violations
    assert edf.oracle_low == yardstick.low_violations
    assert other.oracle_high is None


def test_predictor_is_the_policys_own_unless_another_is_asked_for():
    """And it starts from the scenario's times."""
    made = match("clockwork")
    assert recipe_for(made.scenario, made.contender).kind == "max10"
    asked = made.contender._replace(predictor="fixed")
    recipe = recipe_for(made.scenario, asked)
    assert recipe.kind == "fixed"
    assert [profile.model for profile in recipe.profiles] == ["m"]


def test_shares_are_told_only_to_who_knows_tenants():
    """Another policy would refuse a setting that it does not have."""
    plain_tenants = {"tenants": {"default": {"share": 2}}}
    made = match("edf", **plain_tenants)
    assert section_for(made.scenario, made.contender).kind == "edf"
    assert made.scenario.shares == {"default": 2.0}
    assert {request.slot_class for request in made.scenario.requests()} == set(SlotClass)
