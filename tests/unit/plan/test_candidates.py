"""Which policies are worth playing on which workload."""

import pytest
from msgspec.structs import replace

from headway.app import policy_from_section
from headway.plan import Character, candidates_for, with_linger
from headway.sim import scenario_from_dict

MS = 1_000_000
INTERACTIVE = Character(
    requests=1000,
    models=1,
    priorities=1,
    budgets=1,
    tenants=1,
    slots=4,
    lanes=2,
    shares_lanes=True,
    has_link=False,
    preempts=False,
    high_ratio=1.0,
    load_ratio=0.3,
    batched_load_ratio=0.3,
    peak_ratio=1.1,
    gaps_cv=1.0,
    service_cv=0.05,
    noise_cv=0.05,
    high_slack_ratio=5.0,
    gains={},
)
MIX = replace(INTERACTIVE, models=3, priorities=2, budgets=3, high_ratio=0.4, load_ratio=0.9)
VISION = replace(INTERACTIVE, gains={"m": 3.0}, load_ratio=1.5, batched_load_ratio=0.5)


def a_scenario(rate_rps=100, budget="400ms"):
    """Batches of eight of a model `m`."""
    return scenario_from_dict(
        {
            "devices": [{"name": "cpu:0", "slots": 4, "lanes": 2}],
            "tiers": {"live": {"priority": 0, "budget": budget}},
            "models": [{"name": "m", "service": {1: "10ms", 8: "30ms"}, "batch": {"rows_max": 8}}],
            "workload": {
                "duration": "10s",
                "streams": [
                    {
                        "model": "m",
                        "tier": "live",
                        "arrivals": {"kind": "poisson", "rate_rps": rate_rps},
                    }
                ],
            },
        }
    )


def labels(character, scenario=None):
    """Of the candidates, the simplest first."""
    return [each.label for each in candidates_for(character, scenario or a_scenario())]


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        (INTERACTIVE, ["fifo", "headway"]),
        (replace(INTERACTIVE, load_ratio=0.8), ["fifo", "clockwork", "headway"]),
        (replace(INTERACTIVE, service_cv=0.5), ["fifo", "edf", "headway"]),
        (
            MIX,
            [
                *("fifo", "priority", "edf", "static-cap", "static-cap:low_max=1", "lane-edf"),
                *("clockwork", "headway"),
            ],
        ),
        (VISION, ["fifo", "fifo + linger", "nexus", "clockwork", "headway"]),
    ],
)
def test_candidates_are_those_that_fit(character, expected):
    """Arrival order for one model; classes bring priorities and caps; gains bring batching."""
    assert labels(character) == expected


def test_noisy_times_are_no_reason_to_wait_a_fixed_time():
    """Nor to act on fixed times."""
    noisy = replace(VISION, noise_cv=0.4)
    assert labels(noisy) == ["fifo", "headway"]


def test_accelerator_brings_policies_that_know_its_link():
    """And no cap a lane, where every slot has a lane of its own."""
    found = labels(replace(MIX, has_link=True, shares_lanes=False, lanes=1))
    assert {"pcie", "strait", "static-cap:low_max=1"} <= set(found)
    assert {"static-cap", "lane-edf"}.isdisjoint(found)


@pytest.mark.parametrize(
    ("slack", "preempts", "is_tried"), [(1.5, False, True), (3.0, False, False), (1.5, True, False)]
)
def test_reserve_is_tried_where_it_can_help(slack, preempts, is_tried):
    """High requests have no time for what already runs, and nothing preempts it."""
    found = labels(replace(MIX, high_slack_ratio=slack, preempts=preempts))
    assert ("headway:reserve_ratio=0.3" in found) == is_tried


def test_cap_of_one_is_left_out_where_it_is_the_cap_of_a_lane():
    """One lane has one low batch either way."""
    assert "static-cap:low_max=1" not in labels(replace(MIX, lanes=1))


@pytest.mark.parametrize(
    "character", [MIX, replace(VISION, priorities=2), replace(MIX, has_link=True)]
)
def test_settings_are_what_the_configuration_takes(character):
    """And every candidate says what speaks for it; no two are called the same."""
    found = candidates_for(character, a_scenario())
    for candidate in found:
        assert policy_from_section(candidate.settings).kind == candidate.settings["kind"]
        assert candidate.why
    assert len({candidate.label for candidate in found}) == len(found)
    assert found == sorted(found, key=lambda candidate: candidate.complexity)


@pytest.mark.parametrize(
    ("rate_rps", "budget", "linger_ms"), [(100, "400ms", 70), (100, "100ms", 25), (7000, "1s", 1)]
)
def test_fixed_time_is_what_a_batch_takes_to_fill(rate_rps, budget, linger_ms):
    """(8 - 1) / rate, within a quarter of the budget, a millisecond at least."""
    scenario = a_scenario(rate_rps, budget)
    (waiting,) = [each for each in candidates_for(VISION, scenario) if each.linger_ns]
    assert waiting.linger_ns == {"m": linger_ms * MS}
    (model,) = with_linger(scenario, waiting.linger_ns).models
    assert model.params.linger_ns == linger_ms * MS
    assert with_linger(scenario, {}) is scenario


def test_character_knows_which_classes_compete():
    """All work of one class leaves nothing to weigh."""
    only_low = replace(MIX, high_ratio=0.0)
    assert (only_low.has_high, only_low.has_low, only_low.has_both) == (False, True, False)
    assert MIX.has_both
