"""Predictors by name, and what a recipe makes of each."""

from itertools import product

import pytest

from headway.core import DeviceName, DeviceParams, ModelName, Run, SlotClass, Stages
from headway.predict import (
    PREDICTORS,
    Link,
    LinkTree,
    ModelProfile,
    Pressures,
    Recipe,
    SoloTime,
    build,
    build_predictor,
    on_links,
)

MS = 1_000_000
D0, D1 = DeviceName("g"), DeviceName("h")
DEVICES = [DeviceParams(name=name, slot_lanes=(0, 1)) for name in (D0, D1)]
TREE = LinkTree(
    links=(
        Link(name="port", in_bytes_per_s=1e9, out_bytes_per_s=2e9),
        Link(name="a", parent="port", in_bytes_per_s=0.8e9, out_bytes_per_s=2e9),
        Link(name="b", parent="port", in_bytes_per_s=0.8e9, out_bytes_per_s=2e9),
    ),
    devices={D0: "a", D1: "b"},
    launch_ns=0,
    chunk_bytes=1 << 20,
)
PROFILES = tuple(
    ModelProfile(
        model=ModelName("m"),
        device=device,
        solo=(SoloTime(rows=1, median_ns=10 * MS, p95_ns=11 * MS, runs=9),),
        transfer_in_bytes=800_000,
        transfer_out_bytes=2_000_000,
    )
    for device in (D0, D1)
)


class Nobody:
    """A queue in which nobody waits."""

    count = 0

    def requests(self):
        """Nobody."""
        return iter(())

    def params(self, model):
        """Nothing is known of any model."""


def a_run(batch_id, device=D0, payload_bytes=0, slot_class=SlotClass.HIGH, model="m"):
    """One row."""
    return Run(
        batch_id=batch_id,
        model=ModelName(model),
        bucket="",
        rows=1,
        payload_bytes=payload_bytes,
        device=device,
        slot=batch_id % 2,
        lane=batch_id % 2,
        slot_class=slot_class,
        priority=1,
    )


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_name_is_built_and_answers(name):
    """A forecast is of the profile's order from the first, with or without links."""
    for recipe in (Recipe(kind=name), on_links(Recipe(kind=name, profiles=PROFILES), TREE)):
        predictor = build_predictor(recipe, DEVICES)
        said = predictor.started(a_run(1), Nobody(), 0)
        assert said.mean_ns >= 10 * MS * bool(recipe.profiles)
        predictor.finished(1, Stages(service_ns=10 * MS, execution_ns=10 * MS), 10 * MS)
        predictor.install(200)


def test_unknown_name_is_a_mistake():
    """It says which there are."""
    with pytest.raises(ValueError, match="only headway, windowed-pcie"):
        build_predictor(Recipe(kind="oracle"), DEVICES)


def test_links_carry_what_devices_draw_together():
    """Two links of 0.8 under a port of 1: together they get the port's."""
    assert on_links(Recipe(), TREE).link_bytes_per_s == 1_000_000_000


def test_headway_knows_transfers_by_links_and_bytes():
    """Bytes are the batch's where it brings some, else the profile's; output is the profile's."""
    with_links = build_predictor(on_links(Recipe(kind="headway", profiles=PROFILES), TREE), DEVICES)
    without = build_predictor(Recipe(kind="headway", profiles=PROFILES), DEVICES)
    (plain,) = without.forecast(a_run(1), D0, Nobody(), 0)
    (alone,) = with_links.forecast(a_run(1), D0, Nobody(), 0)
    (larger,) = with_links.forecast(a_run(1, payload_bytes=1_600_000), D0, Nobody(), 0)
    assert plain.transfer_ns == 0
    assert alone.transfer_ns == pytest.approx(1 * MS + 1 * MS, rel=0.05)
    assert larger.transfer_ns - alone.transfer_ns == pytest.approx(1 * MS, rel=0.05)


def test_headway_sees_copies_of_other_devices_on_shared_links():
    """A copy on the neighbour takes half the port while it lasts."""
    predictor = build_predictor(on_links(Recipe(kind="headway", profiles=PROFILES), TREE), DEVICES)
    (alone,) = predictor.forecast(a_run(2), D0, Nobody(), 0)
    predictor.started(a_run(1, device=D1, payload_bytes=8_000_000), Nobody(), 0)
    (beside,) = predictor.forecast(a_run(2), D0, Nobody(), 0)
    assert beside.transfer_ns > 1.2 * alone.transfer_ns


PROBED = {
    "memory": {"pressures": Pressures(bandwidth_demand=0.4, bandwidth_sensitivity=0.3)},
    "compute": {"pressures": Pressures(bandwidth_demand=0.02, compute_sensitivity=0.03)},
}
COUNTED = {
    "memory": {"flop_per_row": 1e6, "bytes_per_row_unfused": 1e6},
    "compute": {"flop_per_row": 1e6, "bytes_per_row_unfused": 1e4},
}


@pytest.mark.parametrize("known", [PROBED, COUNTED])
@pytest.mark.parametrize("kind", ["pairwise", "windowed-pcie"])
def test_pairwise_tells_models_bound_by_memory_from_others(kind, known):
    """As probes of one thread that never waits say it, or the graph and the calibrated ridge."""
    solo = (SoloTime(rows=1, median_ns=10 * MS, p95_ns=11 * MS, runs=9),)
    profiles = tuple(
        ModelProfile(model=ModelName(name), device=D0, solo=solo, **parts)
        for name, parts in known.items()
    )
    recipe = Recipe(kind=kind, profiles=profiles, ridge_flop_per_byte=10.0)
    said = {}
    for own, other in product(known, repeat=2):
        predictor = build_predictor(recipe, DEVICES)
        predictor.started(a_run(1, model=other), Nobody(), 0)
        said[own, other] = predictor.started(a_run(2, model=own), Nobody(), 0).execution_ns / MS
    assert said == {
        ("memory", "memory"): pytest.approx(12.5),
        ("memory", "compute"): pytest.approx(10.8),
        ("compute", "memory"): pytest.approx(10.8),
        ("compute", "compute"): pytest.approx(11.5),
    }


def test_predictors_know_the_shares_of_classes():
    """A high batch beside a low one of a hundredth of its weight is hardly slowed."""
    niced = [DeviceParams(name=D0, slot_lanes=(0, 0), weight_high=1000.0, weight_low=10.0)]
    even = [DeviceParams(name=D0, slot_lanes=(0, 0))]
    said = {}
    for name, devices in (("niced", niced), ("even", even)):
        predictor = build_predictor(Recipe(kind="headway", profiles=PROFILES[:1]), devices)
        predictor.started(a_run(2, slot_class=SlotClass.LOW), Nobody(), 0)
        said[name] = predictor.forecast(a_run(4), D0, Nobody(), 0)[0].mean_ns
    assert said["niced"] < 10.5 * MS
    assert said["even"] > 15 * MS


def test_only_boosted_that_is_not_fitted_inline_is_trained_apart():
    """What fits as it learns needs nobody; what does not is the model that answers."""
    assert build(Recipe(kind="boosted"), DEVICES).trainable is None
    assert build(Recipe(kind="rls", trains_inline=False), DEVICES).trainable is None
    built = build(Recipe(kind="boosted", trains_inline=False, looks_per_s=10**9), DEVICES)
    assert built.trainable is not None
    assert built.trainable.due() is None
    now_ns = 0
    for batch_id in range(1, 202):
        built.predictor.started(a_run(batch_id), Nobody(), now_ns)
        now_ns += 10 * MS
        stages = Stages(service_ns=10 * MS, execution_ns=10 * MS - batch_id % 7)
        built.predictor.finished(batch_id, stages, now_ns)
    assert built.trainable.due() == 200
    built.trainable.train(200)
    assert built.trainable.due() == 200
    built.predictor.install(200)
    assert built.trainable.due() is None


def test_bytes_of_a_model_without_profile_are_those_of_its_requests():
    """Links carry what was sent; of what comes back nothing is known."""
    predictor = build_predictor(Recipe(kind="headway", links=TREE, profiles=PROFILES), DEVICES)
    run = a_run(1, payload_bytes=8_000_000, model="other")
    predictor.started(run, Nobody(), 0)
    predictor.finished(1, Stages(service_ns=20 * MS, execution_ns=5 * MS), 20 * MS)
    again = predictor.forecast(a_run(0, payload_bytes=8_000_000, model="other"), D0, Nobody(), 0)
    assert again[0].transfer_ns == pytest.approx(10 * MS, rel=0.3)
