"""Predictors to compare with: what each says, learns, keeps, and takes up again."""

import json
import math
import sys
from random import Random

import pytest
from msgspec.structs import replace

from headway.core import BatchId, DeviceParams, Run, SlotClass, Stages
from headway.errors import HeadwayError
from headway.predict.boosted import BoostedModel
from headway.predict.fixed_model import FixedModel
from headway.predict.max10 import Max10Model
from headway.predict.pairwise import Bound, PairwiseModel, bound_of
from headway.predict.profile import ModelProfile, Pressures
from headway.predict.rls import RlsModel
from headway.predict.scene import Ended, Neighbour, Scene
from headway.predict.shell import Shell
from headway.predict.windowed_pcie import WindowedPcieModel, WindowedTransfers

MS = 1_000_000
LANES = (0, 0, 1, 1)
SOLO_MS = {"a": 5, "b": 20, "c": 80}


def a_run(model="a", *, lane=0, rows=1, payload_bytes=0, slot_class=SlotClass.HIGH):
    return Run(
        model=model,
        bucket="",
        rows=rows,
        payload_bytes=payload_bytes,
        device="cpu:0",
        slot=2 * lane,
        lane=lane,
        slot_class=slot_class,
        priority=1,
    )


def a_neighbour(model="a", *, lane=0, left_ms=10, payload_bytes=0):
    run = a_run(model, lane=lane, payload_bytes=payload_bytes)
    return Neighbour(run, SOLO_MS.get(model, 10) * MS, left_ms * MS)


def a_scene(model="a", *neighbours, waiting=0, now_ms=0, rows=1, payload_bytes=0):
    run = a_run(model, rows=rows, payload_bytes=payload_bytes)
    solo_ns = SOLO_MS.get(model, 10) * MS
    return Scene(run, solo_ns, neighbours, LANES, waiting, now_ms * MS)


class NothingWaits:
    """An empty queue."""

    count = 0

    def requests(self):
        return iter(())

    def params(self, model):
        return None


def an_end(scene, execution_ns):
    return Ended(scene, int(execution_ns), (), scene.base_ns)


def law(scene):
    """What the tests' device does: each lane mate takes 80 %, the other lanes 5 %."""
    mates = sum(each.run.lane == scene.run.lane for each in scene.neighbours)
    return scene.base_ns * (1 + 0.8 * mates + 0.05 * (len(scene.neighbours) - mates))


def scenes(count, seed=1):
    rng = Random(f"{seed}/scenes")
    for at in range(count):
        lanes = rng.sample((0, 1, 1), rng.randint(0, 3))
        neighbours = [
            a_neighbour(rng.choice("abc"), lane=lane, left_ms=rng.randint(1, 90)) for lane in lanes
        ]
        yield a_scene(rng.choice("abc"), *neighbours, waiting=rng.randint(0, 9), now_ms=at)


def taught(model, count, *, noise=0.02, seed=1):
    rng = Random(f"{seed}/noise")
    for scene in scenes(count, seed):
        model.learn(an_end(scene, law(scene) * math.exp(rng.gauss(0, noise))))
    return model


def error_ratio(model, count=200):
    """Mean relative error on scenes that it was not taught."""
    errors = [abs(model.execution_ns(scene) / law(scene) - 1) for scene in scenes(count, seed=99)]
    return sum(errors) / count


def profile(model, **parts):
    return ModelProfile(model=model, device="cpu:0", **parts)


def test_fixed_says_the_solo_time():
    """Neighbours and history change nothing."""
    model = taught(FixedModel(), 20)
    assert model.execution_ns(a_scene("b", a_neighbour(), a_neighbour(lane=1))) == 20 * MS
    model.restore(model.state())
    assert model.state() == {}


def test_max10_says_the_solo_time_before_the_first():
    """Nothing was seen, so the profile stands in."""
    assert Max10Model().execution_ns(a_scene("b")) == 20 * MS


def test_max10_forgets_the_eleventh():
    """The slowest of the last ten of the same model, bucket and rows counts, and no longer."""
    model = Max10Model()
    for execution_ms in (50, *range(1, 10)):
        model.learn(an_end(a_scene(), execution_ms * MS))
    assert model.execution_ns(a_scene()) == 50 * MS
    model.learn(an_end(a_scene(), 4 * MS))
    assert model.execution_ns(a_scene()) == 9 * MS
    assert model.execution_ns(a_scene(rows=2)) == 5 * MS


@pytest.mark.parametrize(
    ("parts", "ridge", "expected"),
    [
        ({}, 0.0, Bound.COMPUTE),
        ({"pressures": Pressures(bandwidth_demand=0.2)}, 0.0, Bound.MEMORY),
        ({"pressures": Pressures(bandwidth_sensitivity=0.2)}, 0.0, Bound.MEMORY),
        (
            {
                "pressures": Pressures(bandwidth_demand=0.19, bandwidth_sensitivity=0.19),
                "flop_per_row": 90.0,
                "bytes_per_row_unfused": 10.0,
            },
            10.0,
            Bound.COMPUTE,
        ),
        (
            {
                "pressures": Pressures(compute_demand=0.97),
                "flop_per_row": 90.0,
                "bytes_per_row_unfused": 10.0,
            },
            10.0,
            Bound.MEMORY,
        ),
        ({"flop_per_row": 90.0, "bytes_per_row_unfused": 10.0}, 10.0, Bound.MEMORY),
        ({"flop_per_row": 110.0, "bytes_per_row_unfused": 10.0}, 10.0, Bound.COMPUTE),
        ({"flop_per_row": 90.0, "bytes_per_row_unfused": 10.0}, 0.0, Bound.COMPUTE),
        (
            {"flop_per_row": 90.0, "bytes_per_row_fused": 5.0, "bytes_per_row_unfused": 20.0},
            10.0,
            Bound.MEMORY,
        ),
        ({"bytes_per_row_unfused": 10.0}, 10.0, Bound.COMPUTE),
    ],
)
def test_bound_follows_probes_then_the_roofline(parts, ridge, expected):
    """Probes beside other lanes win over the graph; without either it is bound by compute."""
    assert bound_of(profile("m", **parts), ridge) is expected
    assert bound_of(None, ridge) is Bound.COMPUTE


def test_pairwise_rule_multiplies_a_factor_for_each_neighbour():
    """Memory beside memory 1.25, mixed 1.08, compute beside compute 1.15."""
    hungry = Pressures(bandwidth_demand=0.3, bandwidth_sensitivity=0.4)
    model = PairwiseModel({"b": profile("b", pressures=hungry), "c": profile("c")})
    say = model.execution_ns
    assert say(a_scene("b", a_neighbour("b"))) == pytest.approx(20 * MS * 1.25)
    assert say(a_scene("b", a_neighbour("c"))) == pytest.approx(20 * MS * 1.08)
    assert say(a_scene("c", a_neighbour("b"))) == pytest.approx(80 * MS * 1.08)
    assert say(a_scene("c", a_neighbour("a"), a_neighbour("c"))) == pytest.approx(80 * MS * 1.15**2)


def test_pairwise_blends_after_five_and_forgets_after_twenty():
    """Sixty percent history, forty percent rule, over the last twenty factors of the pair."""
    model = PairwiseModel()
    scene = a_scene("a", a_neighbour("b"))
    for _ in range(4):
        model.learn(an_end(scene, 10 * MS))
    assert model.execution_ns(scene) == pytest.approx(5 * MS * 1.15)
    model.learn(an_end(scene, 10 * MS))
    assert model.execution_ns(scene) == pytest.approx(5 * MS * (0.6 * 2.0 + 0.4 * 1.15))
    for _ in range(20):
        model.learn(an_end(scene, 15 * MS))
    assert model.execution_ns(scene) == pytest.approx(5 * MS * (0.6 * 3.0 + 0.4 * 1.15))


def test_pairwise_shares_a_slowdown_among_neighbours_and_backs_off_to_classes():
    """Two neighbours of a fourfold slowdown have two each; a new pair follows its classes."""
    model = PairwiseModel()
    for _ in range(5):
        model.learn(an_end(a_scene("a", a_neighbour("b"), a_neighbour("c")), 20 * MS))
        model.learn(an_end(a_scene("a"), 500 * MS))
    factor = 0.6 * 2.0 + 0.4 * 1.15
    assert model.execution_ns(a_scene("a", a_neighbour("b"))) == pytest.approx(5 * MS * factor)
    assert model.execution_ns(a_scene("c", a_neighbour("a"))) == pytest.approx(80 * MS * factor)
    assert model.execution_ns(a_scene("a")) == 5 * MS


def test_windowed_pcie_slows_a_transfer_by_the_demand_of_the_window():
    """Demand beyond what the links carry in 100 ms stretches the copy in proportion."""
    transfers = WindowedTransfers(bytes_per_second=1e9)
    run = a_run(payload_bytes=60_000_000)
    assert transfers.transfer_ns(run, (), 0) == pytest.approx(60 * MS)
    transfers.started(a_run(payload_bytes=90_000_000), 5e6, 0)
    assert transfers.transfer_ns(run, (), 0) == pytest.approx(60 * MS * 1.5)


def test_windowed_pcie_forgets_what_has_left_the_window():
    """What started within the last 100 ms counts, whether or not it has ended; no more."""
    transfers = WindowedTransfers(bytes_per_second=1e9)
    for now_ms in (10, 60):
        transfers.started(a_run(payload_bytes=50_000_000), 5e6, now_ms * MS)
        transfers.finished(BatchId(0), Stages(service_ns=1), now_ms * MS)
        transfers.dropped(BatchId(0), now_ms * MS)
    run = a_run(payload_bytes=100_000_000)

    def slowdowns():
        return [transfers.transfer_ns(run, (), ms * MS) / (100 * MS) for ms in (100, 120, 170)]

    assert slowdowns() == pytest.approx([2.0, 1.5, 1.0])
    transfers.started(a_run(payload_bytes=30_000_000), 5e6, 111 * MS)
    assert slowdowns()[1:] == pytest.approx([1.8, 1.3])
    transfers.restore(transfers.state())
    assert slowdowns()[1:] == pytest.approx([1.8, 1.3])


def test_windowed_pcie_counts_outputs_that_a_profile_knows():
    """Bytes go in and come out; each row has its outputs."""
    profiles = {"a": profile("a", transfer_out_bytes=10_000_000)}
    transfers = WindowedTransfers(bytes_per_second=1e9, profiles=profiles)
    run = a_run(rows=3, payload_bytes=20_000_000)
    assert transfers.transfer_ns(run, (), 0) == pytest.approx(50 * MS)


def test_windowed_pcie_is_what_the_shell_tells_it():
    """Behind the port, batches that start fill the window of the next."""
    model = WindowedPcieModel(FixedModel(), bytes_per_second=1e9)
    device = DeviceParams(name="cpu:0", slot_lanes=LANES)
    shell = Shell(model, [device], transfers=model.transfers)
    queue = NothingWaits()
    run = a_run(payload_bytes=80_000_000)
    for at in range(1, 3):
        first = replace(run, batch_id=BatchId(at))
        shell.started(first, queue, 200 * at * MS)
        shell.finished(BatchId(at), Stages(service_ns=90 * MS, execution_ns=5 * MS), 290 * at * MS)
    alone = shell.started(replace(run, batch_id=BatchId(8)), queue, 1_000 * MS)
    beside = shell.started(replace(run, batch_id=BatchId(9), slot=2), queue, 1_010 * MS)
    assert (alone.transfer_ns, beside.transfer_ns) == (80 * MS, 128 * MS)


def test_windowed_pcie_leaves_the_execution_to_the_other_model():
    """It teaches, asks, saves and restores the model it was given."""
    model = taught(WindowedPcieModel(PairwiseModel(), bytes_per_second=1e9), 60)
    plain = taught(PairwiseModel(), 60)
    again = WindowedPcieModel(PairwiseModel(), bytes_per_second=1e9)
    again.restore(json.loads(json.dumps(model.state())))
    for scene in scenes(20, seed=5):
        expected_ns = plain.execution_ns(scene)
        assert model.execution_ns(scene) == again.execution_ns(scene) == expected_ns


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.nan, math.inf])
def test_windowed_pcie_needs_a_bandwidth(bandwidth):
    """A link of no width is refused when it is described."""
    with pytest.raises(ValueError, match="bytes_per_second"):
        WindowedPcieModel(FixedModel(), bytes_per_second=bandwidth)


def test_rls_starts_from_the_solo_time():
    """Before anything was learnt nobody is slowed down."""
    assert RlsModel().execution_ns(a_scene("b", a_neighbour(), a_neighbour(lane=1))) == 20 * MS


def test_rls_learns_what_a_lane_mate_costs():
    """A hundred executions teach it a linear law to two percent; a fixed table is far off."""
    assert error_ratio(taught(RlsModel(), 100)) < 0.02
    assert error_ratio(FixedModel()) > 0.2


def test_rls_follows_a_law_that_changes():
    """When mates stop mattering, what was learnt of them is forgotten within hundreds."""
    model = taught(RlsModel(), 300)
    for scene in scenes(300, seed=3):
        model.learn(an_end(scene, scene.base_ns))
    mated = a_scene("b", a_neighbour("c", left_ms=50))
    assert model.execution_ns(mated) == pytest.approx(20 * MS, rel=0.1)


def test_rls_tells_kinds_apart():
    """One model is hurt by its lane mate and another is not, and neither stands for both."""
    model = RlsModel()
    mate = a_neighbour("c", left_ms=50)
    for _ in range(100):
        model.learn(an_end(a_scene("a", mate), 5 * MS))
        model.learn(an_end(a_scene("b", mate), 40 * MS))
        model.learn(an_end(a_scene("a"), 5 * MS))
        model.learn(an_end(a_scene("b"), 20 * MS))
    assert model.execution_ns(a_scene("a", mate)) == pytest.approx(5 * MS, rel=0.05)
    assert model.execution_ns(a_scene("b", mate)) == pytest.approx(40 * MS, rel=0.05)


def test_rls_learns_pressures_of_models_that_never_met():
    """Where slowdowns follow sensitivity times demand, a pair that never ran is predicted."""
    rng = Random("pressures")
    profiles = {
        name: profile(
            name,
            pressures=Pressures(
                compute_demand=rng.random(),
                bandwidth_demand=rng.random(),
                bandwidth_sensitivity=rng.random(),
            ),
        )
        for name in "abcdefgh"
    }

    def slowed_ns(own, other):
        pressures = profiles[own].pressures
        demand = profiles[other].pressures.bandwidth_demand
        return 10 * MS * (1 + pressures.bandwidth_sensitivity * demand)

    model = RlsModel(profiles)
    solo = {"left_ms": 50, "lane": 1}
    for _ in range(400):
        own, other = rng.choice("efgh"), rng.choice("efgh")
        scene = a_scene(own, a_neighbour(other, **solo))
        model.learn(an_end(scene, slowed_ns(own, other)))
    errors = []
    for own in "efgh":
        scene = a_scene(own, a_neighbour("d", **solo))
        errors.append(abs(model.execution_ns(scene) / slowed_ns(own, "d") - 1))
    assert max(errors) < 0.05


def test_rls_survives_one_hung_execution():
    """A single execution a million times too long moves the prediction by less than a third."""
    model = taught(RlsModel(), 200)
    scene = a_scene("a", a_neighbour("b"))
    before_ns = model.execution_ns(scene)
    model.learn(an_end(scene, 5 * MS * 1_000_000))
    assert model.execution_ns(scene) < 1.33 * before_ns


def test_boosted_answers_as_its_fallback_until_it_is_better():
    """Without a fit, and during the trial after it, the fallback speaks."""
    model, plain = BoostedModel(FixedModel()), FixedModel()
    taught(model, 200)
    model.install(200)
    assert not model.serves
    assert error_ratio(model) == error_ratio(plain)
    taught(model, 60, seed=2)
    assert model.serves
    assert error_ratio(model) < error_ratio(plain) / 2


def test_boosted_never_serves_while_the_fallback_is_better():
    """Where nothing is left to learn but noise, a perfect fallback is kept."""

    class Oracle(FixedModel):
        def execution_ns(self, scene):
            return law(scene)

    model = taught(BoostedModel(Oracle(), trains_inline=True), 600, noise=0.0)
    assert not model.serves
    assert error_ratio(model) == 0.0


def test_boosted_learns_what_is_not_linear():
    """A mate that leaves soon costs little: trees learn it better than a line does."""

    def bent_ns(scene):
        mates = [each for each in scene.neighbours if each.run.lane == 0]
        return scene.base_ns * (2.0 if any(m.left_ns > scene.base_ns for m in mates) else 1.0)

    boosted, plain = BoostedModel(RlsModel(), trains_inline=True), RlsModel()
    for scene in scenes(1200):
        for model in (boosted, plain):
            model.learn(an_end(scene, bent_ns(scene)))

    def error(model):
        unseen = list(scenes(200, seed=99))
        return sum(abs(model.execution_ns(scene) / bent_ns(scene) - 1) for scene in unseen) / 200

    assert boosted.serves
    assert error(boosted) < 0.6 * error(plain)


def test_boosted_uses_its_guide():
    """Another model's answer is a feature: who knows the law by heart is soon copied."""

    class Guide(FixedModel):
        def execution_ns(self, scene):
            return hidden_ns(scene)

    def hidden_ns(scene):
        return scene.base_ns * (1 + scene.now_ns // MS % 3)

    errors = []
    for guide in (None, Guide()):
        model = BoostedModel(FixedModel(), guide=guide, trains_inline=True)
        for scene in scenes(600):
            model.learn(an_end(scene, hidden_ns(scene)))
        unseen = list(scenes(100, seed=4))
        errors.append(sum(abs(model.execution_ns(s) / hidden_ns(s) - 1) for s in unseen) / 100)
    assert errors[1] < 0.1 < errors[0]


def test_boosted_is_due_every_two_hundred():
    """A fit is due at each multiple of 200, until one so recent is installed."""
    model = BoostedModel(FixedModel())
    assert model.due() is None
    taught(model, 199)
    assert model.due() is None
    taught(model, 250, seed=2)
    assert model.due() == 400
    model.install(400)
    assert model.due() is None
    taught(model, 151, seed=3)
    assert model.due() == 600


def test_boosted_installs_what_was_trained_or_trains_the_same():
    """Trained early in a thread or late at a replay, a count gives the same trees."""
    early, late = (taught(BoostedModel(FixedModel()), 200) for _ in range(2))
    early.train(200)
    for model in (early, late):
        taught(model, 77, seed=2)
        model.install(200)
        taught(model, 77, seed=3)
    assert early.serves
    assert error_ratio(early) == error_ratio(late)


def test_boosted_ignores_a_fit_it_cannot_make():
    """Counts of the future, of nothing, and of what was installed before change nothing."""
    model = taught(BoostedModel(FixedModel()), 250)
    for count in (0, -5, 251, 10_000):
        model.train(count)
        model.install(count)
    assert model.due() == 200
    model.install(200)
    model.install(100)
    assert model.due() is None


def test_boosted_without_the_library_says_what_to_install(monkeypatch):
    """Only choosing it asks for LightGBM, and the error names the remedy."""
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(HeadwayError) as caught:
        BoostedModel(FixedModel())
    assert caught.value.hint == "pip install headway[boosted]"


MODELS = {
    "fixed": FixedModel,
    "max10": Max10Model,
    "pairwise": PairwiseModel,
    "windowed-pcie": lambda: WindowedPcieModel(PairwiseModel(), bytes_per_second=1e9),
    "rls": RlsModel,
    "boosted": lambda: BoostedModel(RlsModel(), trains_inline=True),
}


@pytest.mark.parametrize("name", MODELS)
def test_state_survives_a_restart(name):
    """Through JSON and back, every prediction is the same, and so is what is learnt next."""
    model, again = taught(MODELS[name](), 450), MODELS[name]()
    assert model.name == name
    again.restore(json.loads(json.dumps(model.state())))
    for scene in scenes(50, seed=7):
        assert again.execution_ns(scene) == model.execution_ns(scene)
        for each in (model, again):
            each.learn(an_end(scene, law(scene)))
    assert again.state() == model.state()


@pytest.mark.parametrize("name", MODELS)
def test_two_of_a_kind_agree(name):
    """The same history gives the same predictions to the last bit."""
    one, two = (taught(MODELS[name](), 450) for _ in range(2))
    for scene in scenes(50, seed=8):
        assert one.execution_ns(scene) == two.execution_ns(scene)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("junk", [None, 1, "x", [], {}, [[1]], [["a"], ["b", []]], {"first": -1}])
def test_a_state_that_does_not_fit_is_ignored(name, junk):
    """Junk in place of any part leaves a model that answers as if new, or better."""
    model = MODELS[name]()
    for part in [*taught(MODELS[name](), 50).state(), "unheard of"]:
        model.restore({part: junk})
    scene = a_scene("b", a_neighbour("c"))
    assert model.execution_ns(scene) == MODELS[name]().execution_ns(scene)
