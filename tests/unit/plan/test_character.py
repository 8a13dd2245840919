"""What a workload is like, worked out by hand for scenarios of a few streams."""

import pytest

from headway.plan import characterise
from headway.sim import scenario_from_dict

LIVE = {"priority": 0, "budget": "40ms"}
BULK = {"priority": 5, "budget": "1s", "slot_class": "low"}


def a_stream(model="m", tier="live", rate_rps=20, **what):
    """Even arrivals, unless something else is said."""
    return {
        "model": model,
        "tier": tier,
        "arrivals": {"kind": "uniform", "rate_rps": rate_rps},
        **what,
    }


def a_character(streams, *, models=None, lanes=2, slots=4, duration="10s", **what):
    """Of models `m`, 10 ms, and `n`, 40 ms, on four slots of two lanes."""
    models = models or [
        {"name": "m", "service": "10ms", "batch": {"rows_max": 1}},
        {"name": "n", "service": "40ms", "noise_cv": 0.2, "batch": {"rows_max": 1}},
    ]
    scenario = scenario_from_dict(
        {
            "devices": [{"name": "cpu:0", "slots": slots, "lanes": lanes}],
            "tiers": {"live": LIVE, "bulk": BULK},
            "models": models,
            "workload": {"duration": duration, "streams": streams},
            **what,
        }
    )
    return characterise(scenario)


def test_one_interactive_model():
    """200 requests of 10 ms in 10 s on two lanes are a tenth of what they can do."""
    character = a_character([a_stream()])
    assert character.requests == 200
    assert character.load_ratio == pytest.approx(0.1, rel=0.01)
    assert (character.models, character.priorities, character.budgets) == (1, 1, 1)
    assert (character.slots, character.lanes) == (4, 2)
    assert (character.has_high, character.has_low, character.has_both) == (True, False, False)
    assert character.high_slack_ratio == 4.0
    assert character.gaps_cv == pytest.approx(0.0, abs=1e-6)
    assert (character.service_cv, character.noise_cv, character.moves) == (0.0, 0.0, False)


def test_classes_share_the_work():
    """20 a second of 10 ms and 5 of 40 ms: half of the work each, and times that differ."""
    character = a_character([a_stream(), a_stream("n", "bulk", 5)])
    assert character.high_ratio == pytest.approx(0.5, rel=0.01)
    assert character.has_both
    assert (character.priorities, character.budgets, character.models) == (2, 2, 2)
    assert character.noise_cv == 0.2
    assert character.service_cv == pytest.approx(12 / 16, rel=0.01)


def test_low_work_alone_has_no_high_slack():
    """Nobody is important then."""
    character = a_character([a_stream(tier="bulk")])
    assert (character.has_high, character.has_low) == (False, True)
    assert character.high_slack_ratio is None


@pytest.mark.parametrize(
    ("what", "preempts", "lanes"),
    [
        ({"sharing": {"kind": "lanes", "niced": True}}, True, 2),
        ({"sharing": {"kind": "lanes", "niced": True}, "slots": 2}, False, 2),
        ({"sharing": "lanes"}, False, 2),
        ({"sharing": "solo"}, False, 4),
    ],
)
def test_slots_preempt_where_low_batches_lie_beneath_high_ones(what, preempts, lanes):
    """Niced slots do, where two are on a lane; without lanes every slot is as fast as alone."""
    character = a_character([a_stream()], **what)
    assert (character.preempts, character.lanes) == (preempts, lanes)


def test_bursts_are_seen_in_each_stream():
    """Two even streams together look uneven, and are not."""
    even = a_character([a_stream(rate_rps=20), a_stream("n", rate_rps=7)])
    assert even.gaps_cv == pytest.approx(0.0, abs=1e-6)
    gaps = {"kind": "gamma", "rate_rps": 50, "cv": 3.0}
    bursty = a_character([a_stream(arrivals=gaps)], duration="100s")
    assert bursty.gaps_cv == pytest.approx(3.0, rel=0.2)


def test_load_that_moves_is_told_from_load_that_does_not():
    """Phases of one and of three times the rate: 1.5 times the mean at the most."""
    phases = [{"duration": "5s", "rate_rps": 10}, {"duration": "5s", "rate_rps": 30}]
    moving = a_character([a_stream(arrivals={"kind": "piecewise", "phases": phases, "cv": 0.0})])
    assert moving.peak_ratio == pytest.approx(1.5, rel=0.05)
    assert a_character([a_stream()]).peak_ratio < 1.2


@pytest.mark.parametrize(
    ("service", "rows", "budget", "gain"),
    [
        ({1: "10ms", 4: "20ms", 8: "60ms"}, 1, "1s", 2.0),
        ({1: "10ms", 4: "20ms", 8: "60ms"}, 1, "15ms", None),
        ({1: "10ms", 4: "40ms", 8: "80ms"}, 1, "1s", None),
        ({1: "10ms", 4: "20ms", 8: "25ms"}, 4, "1s", 1.6),
        ({1: "10ms", 4: "20ms", 8: "25ms"}, 8, "1s", None),
    ],
)
def test_gain_is_that_of_batches_of_several_requests_within_the_budget(service, rows, budget, gain):
    """Two requests of four rows in 25 ms instead of 40; requests that fill a batch gain nothing."""
    models = [{"name": "m", "service": service, "batch": {"rows_max": 8}}]
    stream = a_stream(tier="bulk", rows=rows, budget=budget)
    character = a_character([stream], models=models)
    assert character.gains == ({} if gain is None else {"m": gain})
    batched = character.load_ratio / (gain or 1.0)
    assert character.batched_load_ratio == pytest.approx(batched)


def test_accelerator_counts_as_one_lane():
    """Its slots share all of it, and its inputs come over a link."""
    model = {"name": "m", "options": {"solo": "3ms"}}
    scenario = {"accelerator": "a100-pcie4", "devices": [{"name": "cuda:0"}]}
    character = characterise(
        scenario_from_dict(
            scenario
            | {
                "tiers": {"live": LIVE},
                "models": [model],
                "workload": {"duration": "1s", "streams": [a_stream()]},
            }
        )
    )
    assert (character.lanes, character.has_link, character.preempts) == (1, True, False)
    assert character.slots > 1


def test_workload_without_requests_cannot_be_looked_at():
    """There is nothing to say of it."""
    with pytest.raises(ValueError, match="sends nothing"):
        a_character([a_stream(rate_rps=0.01, start="9s")])


def test_only_the_beginning_of_a_long_workload_is_looked_at(monkeypatch):
    """Its load is that of the time that was looked at."""
    monkeypatch.setattr("headway.plan.character._REQUESTS_MAX", 100)
    character = a_character([a_stream()])
    assert character.requests == 100
    assert character.load_ratio == pytest.approx(0.1, rel=0.02)
