"""The demo's story: budgets, rates, workload and configuration follow from measured times."""

from pathlib import Path

import pytest

from headway.config import load_config
from headway.demo import CATALOGUE
from headway.demo.scenario import TIERS, Scenario, choose_models, config_text
from headway.errors import ConfigError
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import workload_from_dict

NAMES = [model.name for model in CATALOGUE]
SOLO_MS = {
    "magika": 9.0,
    "silero-vad": 0.8,
    "ocr-detect": 25.0,
    "ocr-recognise": 22.0,
    "opennsfw": 21.0,
    "minilm": 10.0,
}


def a_scenario(*, slower: float = 1.0, names: list[str] | None = None) -> Scenario:
    chosen = names or NAMES
    solo_ns = {name: round(SOLO_MS[name] * slower * NS_PER_MS) for name in chosen}
    return Scenario(solo_ns=solo_ns, core_count=2)


def test_tiers_ask_every_model_for_something() -> None:
    """Each model of the catalogue is in one tier, and the parts of the work add up to all of it."""
    work = {name: part for tier in TIERS for name, part in tier.work.items()}
    assert sorted(work) == sorted(NAMES)
    assert sum(work.values()) == pytest.approx(1.0)


def test_budgets_leave_room_for_the_slowest_model() -> None:
    """A budget holds two runs of the slowest model and some of its own, rounded up."""
    budgets_ms = {tier: ns / NS_PER_MS for tier, ns in a_scenario().budgets_ns().items()}
    assert budgets_ms == {"speech": 54, "interactive": 90, "standard": 230, "bulk": 1600}


def test_budgets_scale_with_the_machine() -> None:
    """On a machine that is ten times slower everything may take ten times as long."""
    fast, slow = a_scenario().budgets_ns(), a_scenario(slower=10).budgets_ns()
    for tier in fast:
        assert slow[tier] == pytest.approx(10 * fast[tier], rel=0.1)


def test_rates_add_up_to_the_work() -> None:
    """Requests a second times their solo times are the asked-for part of the cores' time."""
    scenario = a_scenario()
    rates_rps = scenario.rates_rps(0.9)
    busy_ns = sum(rate * scenario.solo_ns[name] for name, rate in rates_rps.items())
    assert busy_ns == pytest.approx(0.9 * 2 * NS_PER_S)


def test_rates_of_few_models_fill_the_same_time() -> None:
    """With models left out the others take their part of the work."""
    scenario = a_scenario(names=["magika", "silero-vad"])
    rates_rps = scenario.rates_rps(1.0)
    busy_ns = sum(rate * scenario.solo_ns[name] for name, rate in rates_rps.items())
    assert busy_ns == pytest.approx(2 * NS_PER_S)
    assert [tier.name for tier in scenario.tiers] == ["speech", "standard"]


def test_workload_keeps_the_mean_rates() -> None:
    """What is written down is a valid workload; bursts and rests leave the mean as it was."""
    scenario = a_scenario()
    workload = workload_from_dict(scenario.workload(0.9, duration_ns=25 * NS_PER_S, seed=7))
    assert workload.seed == 7
    assert workload.duration_ns == 25 * NS_PER_S
    assert workload.rate_rps == pytest.approx(sum(scenario.rates_rps(0.9).values()))
    assert list(workload.arrivals()) == list(workload.arrivals())


def test_high_tiers_alone_can_be_served() -> None:
    """Even at the demo's overload the tiers above bulk ask for less than half of the capacity."""
    above = [tier for tier in TIERS if not tier.is_bursty]
    assert 1.2 * sum(sum(tier.work.values()) for tier in above) < 0.5


def test_bursty_tier_has_a_short_queue() -> None:
    """What may wait in bulk can be done in time with half of the cores; others have no limit."""
    scenario = a_scenario()
    limits = {tier.name: scenario.queue_limit(tier) for tier in scenario.tiers}
    assert limits == {"speech": None, "interactive": None, "standard": None, "bulk": 12}


def test_config_is_valid_and_says_what_was_measured(tmp_path: Path) -> None:
    """The file is one that `headway serve` takes, with the budgets of the scenario."""
    scenario = a_scenario()
    path = tmp_path / "demo.yaml"
    graphs = {name: tmp_path / f"{name}.onnx" for name in NAMES}
    path.write_text(config_text(graphs, scenario, cores=(2, 3), port=8123), encoding="utf-8")
    config = load_config(path, environ={}).config
    assert {name: tier.budget for name, tier in config.tiers.items()} == scenario.budgets_ns()
    assert sorted(model.name for model in config.served) == sorted(NAMES)
    (pipeline,) = [model for model in config.models if model.pipeline is not None]
    assert (pipeline.name, pipeline.tier) == ("ocr", "bulk")
    assert config.devices[0].cores == (2, 3)
    assert config.server.port == 8123
    assert "9ms alone" in path.read_text(encoding="utf-8")


def test_config_before_measuring_is_wide(tmp_path: Path) -> None:
    """The server that is measured expires nothing, and has only the chosen models' tiers."""
    path = tmp_path / "demo.yaml"
    text = config_text({"magika": tmp_path / "m.onnx"}, None, cores=None, port=8000)
    path.write_text(text, encoding="utf-8")
    config = load_config(path, environ={}).config
    assert {name: tier.budget for name, tier in config.tiers.items()} == {"standard": 30 * NS_PER_S}


def test_choose_models_keeps_the_order_of_the_catalogue() -> None:
    """All by default, in one order whatever the user's; a name that is not there is refused."""
    assert list(choose_models(None)) == NAMES
    assert choose_models(["silero-vad", "magika"]) == ("magika", "silero-vad")
    with pytest.raises(ConfigError, match="no model `resnet`"):
        choose_models(["resnet"])


def test_page_elsewhere_may_look_where_it_is_named(tmp_path) -> None:
    """Its origin and no other; without a page nobody's."""
    graphs = {name: Path(f"/models/{name}.onnx") for name in NAMES}
    path = tmp_path / "demo.yaml"
    for origin, allowed in (("http://127.0.0.1:9", ["http://127.0.0.1:9"]), (None, [])):
        text = config_text(graphs, a_scenario(), cores=None, port=1, page_origin=origin)
        path.write_text(text, encoding="utf-8")
        assert list(load_config(path, environ={}).config.server.cors_origins) == allowed
