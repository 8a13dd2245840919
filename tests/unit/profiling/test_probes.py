"""Probes and the pressures that follow, from a model and a stressor that are numbers."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.devices import LoadKind, Rate
from headway.predict import Pressures
from headway.profiling import (
    STRESSORS,
    Place,
    Probe,
    ProbeEffort,
    Request,
    Stressor,
    Timed,
    choose_cores,
    pressures_of,
    probe,
)

MS = 1_000_000
WINDOW_NS = 100  # of real time, while the stressor is alone: as good as none


class World:
    """A model of 10 ms that a working stressor slows, and a stressor that the model slows."""

    def __init__(self, *, model_factor: float, stressor_factor: float, drift: float = 1.0) -> None:
        self.now_ns = 0
        self.model_factor = model_factor
        self.stressor_factor = stressor_factor
        self.drift = drift
        self.is_stressed = False
        self.has_run = False
        self.waited_ns = 0

    def clock_ns(self) -> int:
        return self.now_ns

    # As a bench.

    async def run(self, inputs, rows: int) -> Timed:
        execution_ns = int(10 * MS * (self.model_factor if self.is_stressed else 1))
        self.drift *= 1.02 if self.drift != 1 else 1
        execution_ns = int(execution_ns * self.drift)
        self.now_ns += execution_ns + 2 * MS
        self.has_run = True
        return Timed(execution_ns, self.waited_ns, execution_ns + 2 * MS, 0)

    # As burners.

    def go(self) -> None:
        self.is_stressed, self.has_run = True, False

    def rest(self) -> list[Rate]:
        self.is_stressed = False
        factor = self.stressor_factor if self.has_run else 1.0
        return [Rate(factor * 50, factor * 100, factor), Rate(factor * 50, factor * 100, factor)]


def look(world: World, stressor: Stressor, rounds: int = 3) -> Probe:
    """Run one probe."""
    effort = ProbeEffort(rounds=rounds, window_ns=WINDOW_NS)
    request = Request((), 1)
    return asyncio.run(probe(world, request, stressor, world, effort, world.clock_ns))


def test_factors_are_beside_over_alone() -> None:
    """The model 30 % slower, the stressor at 90 %, and the model busy for 13 of 15 ms."""
    world = World(model_factor=1.3, stressor_factor=0.9)
    seen = look(world, Stressor(LoadKind.STREAM, Place.OTHER_CORES, 1.0))
    assert seen.model_factor == pytest.approx(1.3)
    assert seen.stressor_factor == pytest.approx(0.9)
    assert seen.busy_ratio == pytest.approx(13 / 15)
    assert (seen.kind, seen.strength_ratio) == (LoadKind.STREAM, 1.0)


def test_drift_of_the_machine_cancels() -> None:
    """A machine that becomes 2 % slower with each run moves no factor by more than a few runs."""
    world = World(model_factor=1.5, stressor_factor=0.9, drift=1.001)
    seen = look(world, Stressor(LoadKind.STREAM, Place.OTHER_CORES, 1.0), rounds=9)
    assert seen.model_factor == pytest.approx(1.5, rel=0.08)


def test_waits_count_on_the_own_core_only() -> None:
    """Beside a stressor elsewhere a wait is others' doing; on the own core it is what is sought."""
    world = World(model_factor=1.0, stressor_factor=1.0)
    world.waited_ns = 4 * MS
    seen = look(world, Stressor(LoadKind.COMPUTE, Place.OTHER_CORES, 1.0))
    assert seen.busy_ratio == pytest.approx(6 / 12)
    seen = look(world, Stressor(LoadKind.COMPUTE, Place.OWN_CORE, 1.0))
    assert seen.busy_ratio == pytest.approx(10 / 12)


def a_probe(kind: LoadKind, place: Place = Place.OTHER_CORES, **fields: float) -> Probe:
    """One outcome; what is not said is as if nothing had happened."""
    values = {"strength_ratio": 1.0, "model_factor": 1.0, "stressor_factor": 1.0, "busy_ratio": 1.0}
    return Probe(kind=kind, place=place, **{**values, **fields})


def test_sensitivity_is_a_slope_over_both_strengths() -> None:
    """At half strength half the effect, at full strength all of it."""
    seen = pressures_of(
        [
            a_probe(LoadKind.STREAM, strength_ratio=0.5, model_factor=1.1),
            a_probe(LoadKind.STREAM, strength_ratio=1.0, model_factor=1.2),
            a_probe(LoadKind.COMPUTE, strength_ratio=0.5, model_factor=1.0),
            a_probe(LoadKind.COMPUTE, strength_ratio=1.0, model_factor=1.05),
        ]
    )
    assert seen.bandwidth_sensitivity == pytest.approx(0.2)
    assert seen.compute_sensitivity == pytest.approx(0.04)


def test_demand_is_what_the_stressor_lost_while_the_model_ran() -> None:
    """A stream that lost 10 % to a model that ran half of the time lost 20 % to it."""
    seen = pressures_of(
        [
            a_probe(LoadKind.STREAM, stressor_factor=0.9, busy_ratio=0.5),
            a_probe(LoadKind.STREAM, stressor_factor=0.1, strength_ratio=0.5),
            a_probe(LoadKind.COMPUTE, Place.OWN_CORE_IDLE, stressor_factor=0.7),
            a_probe(LoadKind.COMPUTE, Place.OWN_CORE, stressor_factor=0.5, model_factor=2.0),
        ]
    )
    assert seen.bandwidth_demand == pytest.approx(0.2)
    assert seen.compute_demand == pytest.approx(0.3)
    assert seen.compute_sensitivity == 0


def test_nothing_probed_is_the_default() -> None:
    """Without probes, and where the model hardly ran, nothing is claimed."""
    assert pressures_of([]) == Pressures()
    idle = a_probe(LoadKind.STREAM, stressor_factor=0.5, busy_ratio=0.01)
    assert pressures_of([idle]).bandwidth_demand == Pressures().bandwidth_demand


FACTORS = st.floats(0, 1e6)


@given(
    st.lists(
        st.builds(
            Probe,
            kind=st.sampled_from([LoadKind.COMPUTE, LoadKind.STREAM]),
            place=st.sampled_from(list(Place)),
            strength_ratio=st.sampled_from([0.5, 1.0]),
            model_factor=FACTORS,
            stressor_factor=FACTORS,
            busy_ratio=st.floats(0, 1),
        ),
        max_size=12,
    )
)
def test_pressures_stay_in_bounds(probes: list[Probe]) -> None:
    """Demands lie in 0..1 and no sensitivity is negative, whatever was seen."""
    seen = pressures_of(probes)
    assert 0 <= seen.compute_demand <= 1
    assert 0 <= seen.bandwidth_demand <= 1
    assert min(seen.compute_sensitivity, seen.bandwidth_sensitivity) >= 0


def test_stressors_have_two_strengths_of_each_kind() -> None:
    """Compute and bandwidth from other cores at two strengths, and both ways on the own core."""
    beside = {(s.kind, s.strength_ratio) for s in STRESSORS if s.place is Place.OTHER_CORES}
    assert beside == {
        (kind, strength) for kind in (LoadKind.COMPUTE, LoadKind.STREAM) for strength in (0.5, 1.0)
    }
    assert {s.place for s in STRESSORS} == set(Place)


def test_cores_for_model_and_stressors() -> None:
    """The last core for the model, the others for stressors; a single core has no others."""
    assert choose_cores((70_000,)).others == ()
    chosen = choose_cores((70_000, 70_001, 70_002))
    assert (chosen.own, chosen.others) == (70_002, (70_000, 70_001))
    assert len(choose_cores(range(70_000, 70_100)).others) == 32
