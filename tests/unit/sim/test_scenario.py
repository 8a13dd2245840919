"""Scenarios: from plain values to a world, and what is said of mistakes."""

from copy import deepcopy
from itertools import pairwise

import pytest

from headway.core import BatchFinished, DeviceName, Dispatch, ReplicasLost, SlotClass
from headway.devices import accelerator
from headway.errors import ConfigError
from headway.policy import edf, fifo
from headway.sim import (
    NICED_WEIGHTS,
    Fault,
    HostPause,
    Tally,
    record_into,
    scenario_from_dict,
)
from headway.testing import MeanPredictor
from headway.units import NS_PER_MS, NS_PER_S

PLAIN = {
    "seed": 3,
    "devices": [{"name": "cpu:0", "slots": 4, "lanes": 2}],
    "sharing": {"kind": "lanes", "niced": True},
    "tiers": {
        "live": {"priority": 0, "budget": "40ms"},
        "bulk": {"priority": 5, "budget": "2s", "slot_class": "low"},
    },
    "models": [
        {"name": "speech", "service": "9ms", "batch": {"rows_max": 1}},
        {
            "name": "ocr",
            "service": {"1": "20ms", 4: "80ms"},
            "noise_cv": 0.1,
            "batch": {"rows_max": 4, "linger": "2ms"},
        },
    ],
    "workload": {
        "duration": "4s",
        "streams": [
            {
                "model": "speech",
                "tier": "live",
                "arrivals": {"kind": "poisson", "rate_rps": 50},
            },
            {
                "model": "ocr",
                "tier": "bulk",
                "budget": "500ms",
                "arrivals": {"kind": "gamma", "rate_rps": 20, "cv": 2},
            },
        ],
    },
    "faults": [{"at": "1s", "device": "cpu:0"}, {"at": "2s", "pause": "50ms"}],
}


def changed(path, value):
    """The scenario above with one value replaced; a path of keys and indices."""
    plain = deepcopy(PLAIN)
    place = plain
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return plain


def run(scenario, policy=fifo):
    """Every step of a run."""
    records = []
    scenario.play(policy(MeanPredictor()), observe=record_into(records))
    return records


def test_scenario_is_read_as_it_was_written():
    """Devices, models, tiers and faults have the values of the file, in nanoseconds."""
    scenario = scenario_from_dict(PLAIN)
    (device,) = scenario.params.devices
    assert device.slot_lanes == (0, 1, 0, 1)
    speech, ocr = scenario.models
    assert (speech.params.batch_rows_max, speech.profile.service_ns(1)) == (1, 9 * NS_PER_MS)
    assert ocr.params.linger_ns == 2 * NS_PER_MS
    assert [ocr.profile.service_ns(rows) for rows in (1, 2, 4)] == [
        20 * NS_PER_MS,
        40 * NS_PER_MS,
        80 * NS_PER_MS,
    ]
    assert scenario.tiers["bulk"] == (5, 2 * NS_PER_S, SlotClass.LOW, 0)
    assert scenario.weights == NICED_WEIGHTS
    loss, pause = scenario.faults
    assert loss == Fault(NS_PER_S, DeviceName("cpu:0"))
    assert pause == HostPause(2 * NS_PER_S, 50 * NS_PER_MS)
    assert isinstance(pause, HostPause)
    assert scenario.seed == 3


def test_requests_have_what_their_tier_grants():
    """Ids count from 1 in order of arrival; a stream may ask for less than its tier's budget."""
    requests = list(scenario_from_dict(PLAIN).requests())
    assert [request.request_id for request in requests] == list(range(1, len(requests) + 1))
    assert all(a.arrived_at_ns <= b.arrived_at_ns for a, b in pairwise(requests))
    of = {request.model: request for request in requests}
    assert (of["speech"].priority, of["speech"].budget_ns) == (0, 40 * NS_PER_MS)
    assert (of["ocr"].priority, of["ocr"].budget_ns) == (5, 500 * NS_PER_MS)
    assert of["ocr"].slot_class is SlotClass.LOW
    more = scenario_from_dict(changed(("workload", "streams", 1, "budget"), "9s"))
    assert next(r for r in more.requests() if r.model == "ocr").budget_ns == 2 * NS_PER_S
    assert more.budgets()["bulk"] == (2 * NS_PER_S, 2 * NS_PER_S)


def test_same_seed_is_the_same_run():
    """A run is a function of scenario, seed and policy."""
    first = run(scenario_from_dict(PLAIN))
    assert run(scenario_from_dict(PLAIN)) == first
    assert run(scenario_from_dict(PLAIN).with_seed(4)) != first


def test_policies_meet_the_same_arrivals():
    """What comes does not depend on who decides."""
    arrivals = []
    for policy in (fifo, edf):
        tally = Tally()
        scenario_from_dict(PLAIN).play(policy(MeanPredictor()), observe=tally)
        arrivals.append({name: tier.arrived for name, tier in tally})
    assert arrivals[0] == arrivals[1]
    assert set(arrivals[0]) == {"live", "bulk"}


def test_fault_takes_the_replicas_and_they_come_back():
    """A worker dies when the scenario says so, and batches start again after it."""
    records = run(scenario_from_dict(PLAIN))
    lost = [r for r in records if isinstance(r.event, ReplicasLost)]
    assert [record.now_ns for record in lost] == [NS_PER_S]
    started = [r.now_ns for r in records for c in r.commands if isinstance(c, Dispatch)]
    assert max(started) > 2 * NS_PER_S


@pytest.mark.parametrize(
    ("sharing", "weights"),
    [
        ("solo", None),
        ("lanes", {SlotClass.HIGH: 1.0, SlotClass.LOW: 1.0}),
        ({"kind": "solo"}, None),
        ({"kind": "lanes"}, {SlotClass.HIGH: 1.0, SlotClass.LOW: 1.0}),
        (
            {"kind": "lanes", "weights": {"low": 0.25}},
            {SlotClass.HIGH: 1.0, SlotClass.LOW: 0.25},
        ),
    ],
)
def test_sharing_has_a_short_and_a_long_form(sharing, weights):
    """A kind alone takes its defaults, which divide a lane evenly."""
    assert scenario_from_dict(changed(("sharing",), sharing)).weights == weights


def test_neighbours_slow_each_other_only_where_lanes_are_shared():
    """Two batches at once on one lane take twice as long as alone, and alone as long as always."""
    plain = deepcopy(PLAIN) | {"faults": []}
    plain["devices"] = [{"name": "cpu:0", "slots": 2, "lanes": 1}]
    services_ns = {}
    for kind in ("solo", "lanes"):
        tally = Tally()
        scenario_from_dict(plain | {"sharing": kind}).play(fifo(MeanPredictor()), observe=tally)
        services_ns[kind] = tally.tiers["live"].latency_ns(0.5)
    assert services_ns["solo"] < services_ns["lanes"]


def test_noise_scatters_around_the_profile():
    """Service times have the profile's mean, and the same seed the same ones."""
    plain = changed(("models", 1, "noise_cv"), 0.1)
    plain |= {"sharing": "solo", "faults": []}
    taken_ns = []
    started = {}
    for record in run(scenario_from_dict(plain)):
        for command in record.commands:
            if isinstance(command, Dispatch) and command.model == "ocr" and command.rows == 1:
                started[command.batch_id] = record.now_ns
        batch_id = getattr(record.event, "batch_id", None)
        if batch_id in started:
            taken_ns.append(record.now_ns - started.pop(batch_id))
    assert len(set(taken_ns)) == len(taken_ns) > 10
    assert sum(taken_ns) / len(taken_ns) == pytest.approx(20 * NS_PER_MS, rel=0.1)


EMULATED = {
    "accelerator": "small",
    "devices": [{"name": "gpu:0"}, {"name": "gpu:1", "slots": 1}],
    "tiers": {"only": {"budget": "100ms"}},
    "models": [
        {
            "name": "m",
            "devices": ["gpu:0", "gpu:1"],
            "options": {"solo": "2ms", "row": "1ms", "in_bytes": 1_000_000, "out_bytes": 1000},
            "batch": {"rows_max": 2},
        }
    ],
    "workload": {
        "duration": "2s",
        "streams": [
            {"model": "m", "tier": "only", "arrivals": {"kind": "poisson", "rate_rps": 300}}
        ],
    },
}


def emulated(path=None, value=None):
    """The scenario on an accelerator, with one value replaced."""
    plain = deepcopy(EMULATED)
    if path is not None:
        *way, last = path
        at = plain
        for step in way:
            at = at[step]
        at[last] = value
    return scenario_from_dict(plain)


def test_accelerator_brings_slots_links_times_and_bytes():
    """A device has the accelerator's slots unless it says fewer; requests have their bytes."""
    scenario = emulated()
    machine = accelerator("small")
    assert [len(d.slot_lanes) for d in scenario.params.devices] == [machine.slots, 1]
    assert scenario.links() == machine.tree(["gpu:0", "gpu:1"])
    assert [profile.device for profile in scenario.profiles()] == ["gpu:0", "gpu:1"]
    assert scenario.profiles()[0].transfer_in_bytes == 1_000_000
    assert {r.payload_bytes / r.rows for r in scenario.requests()} == {1_000_000}


def test_accelerator_runs_batches_with_all_their_stages():
    """Copies and executions, at a time that neighbours lengthen; the same seed plays the same."""
    ends = [r.event for r in run(emulated()) if isinstance(r.event, BatchFinished)]
    assert len(ends) > 100
    assert all(end.transfer_in_ns >= 1_000_000 and end.transfer_out_ns > 0 for end in ends)
    solo_ns = emulated().profiles()[0].solo[0].median_ns
    assert sum(end.execution_ns > 1.05 * solo_ns for end in ends) > len(ends) / 10
    assert run(emulated()) == run(emulated())


@pytest.mark.parametrize(
    ("path", "value", "where", "words"),
    [
        (("accelerator",), "smal", "accelerator", "there is no accelerator `smal`"),
        (("devices",), [{"name": f"g{i}"} for i in range(9)], "devices", "`small` has 2 devices"),
        (("devices", 0, "slots"), 99, "devices[0].slots", "slots"),
        (("devices", 0, "lanes"), 1, "devices[0].lanes", "a lane a slot"),
        (("sharing",), "solo", "sharing", "is its own"),
        (("models", 0, "service"), "2ms", "models[0].service", "is for plain devices"),
        (("models", 0, "noise_cv"), 0.1, "models[0].noise_cv", "is for plain devices"),
        (("models", 0, "options"), {}, "models[0].options", "cannot be emulated"),
    ],
)
def test_mistake_about_an_accelerator_is_located(path, value, where, words):
    """What is an accelerator's own cannot be said beside it, and what it lacks is not there."""
    with pytest.raises(ConfigError) as caught:
        emulated(path, value)
    assert caught.value.path == where
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("path", "value", "where", "words"),
    [
        (("devices",), [{"name": "cpu:0"}], "devices[0]", "a device needs `slots`"),
        (("models", 0, "options"), {"solo": "2ms"}, "models[0].options", "emulated accelerator"),
        (("models", 0), {"name": "speech"}, "models[0].service", "needs `service`"),
        (("devices", 0, "slots"), 0, "devices[0].slots", ">= 1"),
        (("devices", 0, "lanes"), 5, "devices[0].lanes", "more lanes than the 4 slots"),
        (("devices",), [{"name": "a", "slots": 1}] * 2, "devices[1].name", "stands twice"),
        (("models", 1, "name"), "speech", "models[1].name", "stands twice"),
        (("models", 0, "service"), "soon", "models[0].service", "is not a duration"),
        (("models", 0, "service"), {"1": 9}, "models[0].service.1", "is not a duration"),
        (("models", 0, "service"), {"one": "9ms"}, "models[0].service.one", "invalid literal"),
        (("models", 0, "service"), {}, "models[0].service", "positive rows and times"),
        (("models", 0, "devices"), ["gpu"], "models[0].devices[0]", "there is no device `gpu`"),
        (("models", 0, "noise_cv"), -1, "models[0].noise_cv", ">= 0.0"),
        (("models", 0, "batch", "linger"), True, "models[0].batch.linger", "is not a duration"),
        (("tiers", "live", "budget"), 40, "tiers.live.budget", "is not a duration"),
        (("tiers", "live", "prio"), 1, "tiers.live", "unknown field `prio`"),
        (("tiers", "live", "slot_class"), "mid", "tiers.live.slot_class", "'mid'"),
        (("sharing",), "fair", "sharing", "'fair'"),
        (("faults", 0, "device"), "gpu", "faults[0].device", "there is no device `gpu`"),
        (("faults", 0, "pause"), "1s", "faults[0]", "one of the two"),
        (("faults", 1), {"at": "1s"}, "faults[1]", "one of the two"),
        (("workload", "seed"), 3, "workload.seed", "not read here"),
        (("workload", "duration"), "soon", "workload.duration", "is not a duration"),
        (("workload", "streams", 0, "tier"), "x", "workload.streams[0].tier", "no tier `x`"),
        (("workload", "streams", 1, "model"), "x", "workload.streams[1].model", "no model `x`"),
        (
            ("sharing",),
            {"kind": "lanes", "niced": True, "weights": {"low": 1}},
            "sharing.weights",
            "`niced` sets the weights",
        ),
    ],
)
def test_mistake_is_located(path, value, where, words):
    """What is wrong is named by its path, with the value or the words that explain it."""
    with pytest.raises(ConfigError) as caught:
        scenario_from_dict(changed(path, value))
    assert caught.value.path == where
    assert words in caught.value.message
    assert f"`{where}`" in caught.value.message


def test_missing_part_is_named():
    """A scenario without a machine says what it lacks."""
    with pytest.raises(ConfigError, match="missing required field `devices`") as caught:
        scenario_from_dict({key: value for key, value in PLAIN.items() if key != "devices"})
    assert caught.value.path == ""


def test_load_and_length_are_changed_alone():
    """Twice the rate is about twice as many, for half as long as many; the rest is as it was."""
    scenario = scenario_from_dict(PLAIN)
    count = sum(1 for _ in scenario.requests())
    assert sum(1 for _ in scenario.scaled(2.0).requests()) == pytest.approx(2 * count, rel=0.2)
    short = scenario.lasting(2 * NS_PER_S)
    whole = list(scenario.requests())
    assert list(short.requests()) == [r for r in whole if r.arrived_at_ns < 2 * NS_PER_S]
    assert short.models == scenario.models


def test_tenants_have_shares():
    """As the file says; a stream of a tenant that it does not name is a mistake."""
    plain = changed(("workload", "streams", 0, "tenant"), "a")
    plain["workload"]["streams"][1]["tenant"] = "b"
    plain["tenants"] = {"a": {"share": 2}, "b": {}}
    scenario = scenario_from_dict(plain)
    assert scenario.shares == {"a": 2.0, "b": 1.0}
    assert {request.tenant for request in scenario.requests()} == {"a", "b"}
    del plain["tenants"]["b"]
    with pytest.raises(ConfigError, match=r"workload.streams\[1\].tenant.*no tenant `b`"):
        scenario_from_dict(plain)


def test_late_and_oversize_are_those_of_a_server():
    """A tier that serves late requests says for how long; a model that splits says into what."""
    plain = changed(("tiers", "bulk", "late"), "serve")
    plain["models"][1]["batch"] |= {"oversize": "split", "segments_max": 3}
    scenario = scenario_from_dict(plain)
    late_ns = {request.tier: request.late_ns for request in scenario.requests()}
    assert late_ns == {"live": 0, "bulk": 30 * NS_PER_S}
    speech, ocr = (model.params for model in scenario.models)
    assert (speech.can_split, ocr.can_split, ocr.segments_max) == (False, True, 3)
