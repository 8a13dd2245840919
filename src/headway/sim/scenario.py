"""A scenario: machine, models, load and faults of a simulated run.

Knows how to build a `World` of it for any policy. Never says who goes first; `spec` reads the words
in which people write one down.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import log, sqrt
from random import Random
from typing import Final, NamedTuple

import msgspec

from headway.core import (
    BucketKey,
    Command,
    Dispatch,
    Event,
    Kernel,
    KernelParams,
    ModelName,
    ModelParams,
    Policy,
    Request,
    RequestId,
    SlotClass,
    TenantId,
    TierName,
)
from headway.devices import Accelerator, EmulatedMachine, EmulatedModel, emulated_profile
from headway.predict import LinkTree, ModelProfile, Profile, SoloTime
from headway.sim.devices import ServiceTimes, SharedLanes, SimulatedExecutor, SoloTimes
from headway.sim.emulated import EmulatedDevices
from headway.sim.futures import Foreseeable, Watched
from headway.sim.timed import TimedKernel
from headway.sim.world import Fault, HostPause, World
from headway.workload import Workload

__all__ = ["BudgetRange", "EmulatedSetup", "Scenario", "SimulatedModel", "SimulatedTier"]

_BUCKET: Final = BucketKey("")
"""All requests of a simulated model have one shape."""


class SimulatedTier(NamedTuple):
    """What a request of a tier is given."""

    priority: int
    budget_ns: int
    slot_class: SlotClass
    late_ns: int = 0
    """How long after its deadline it may still be answered."""


class SimulatedModel(NamedTuple):
    """A model as the kernel knows it, and how long its batches take alone."""

    params: ModelParams
    profile: Profile
    noise_cv: float
    """Service times scatter around the profile, log-normal, with this standard deviation over
    mean. On an emulated accelerator the times are the accelerator's, and this is 0."""


class EmulatedSetup(NamedTuple):
    """An emulated accelerator in place of plain devices, and what each model asks of it."""

    accelerator: Accelerator
    models: tuple[EmulatedModel, ...]


class BudgetRange(NamedTuple):
    """Smallest and largest budget of a tier's requests."""

    min_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that a simulated run is made of but the policy.

    Invariants: every model, tier and device that is named exists. The same scenario and seed have
    the same arrivals under every policy.
    """

    params: KernelParams
    models: tuple[SimulatedModel, ...]
    tiers: Mapping[TierName, SimulatedTier]
    weights: Mapping[SlotClass, float] | None
    """How the batches of a lane divide it; None where neighbours do not matter."""
    load_ns: int
    """From the request for a model to a warm replica."""
    faults: tuple[Fault | HostPause, ...]
    workload: Workload
    shares: Mapping[TenantId, float] = field(default_factory=dict)
    """What each tenant is to get of a class, relative to the others; without one it is 1. For
    policies that are fair between tenants."""
    emulated: EmulatedSetup | None = None
    """What the devices are, unless they are plain. Figures of it are to be labelled so."""

    @property
    def seed(self) -> int:
        """Of all chance in it."""
        return self.workload.seed

    def with_seed(self, seed: int) -> "Scenario":
        """The same scenario with other chance."""
        return replace(self, workload=msgspec.structs.replace(self.workload, seed=seed))

    def lasting(self, duration_ns: int) -> "Scenario":
        """The same scenario with the workload's arrivals up to another instant."""
        workload = msgspec.structs.replace(self.workload, duration_ns=duration_ns)
        return replace(self, workload=workload)

    def scaled(self, ratio: float) -> "Scenario":
        """The same scenario at `ratio` times the rates."""
        return replace(self, workload=self.workload.scaled(ratio))

    def requests(self) -> Iterator[Request]:
        """The workload's arrivals as requests, numbered from 1 in order of arrival.

        As in a live server, a stream may ask for less than its tier's budget and never for more.
        """
        tiers = self.tiers
        models = self.emulated.models if self.emulated is not None else ()
        row_bytes = {model.name: model.in_bytes for model in models}
        for number, arrival in enumerate(self.workload.arrivals(), start=1):
            priority, budget_ns, slot_class, late_ns = tiers[arrival.tier]
            if arrival.budget_ns is not None and arrival.budget_ns < budget_ns:
                budget_ns = arrival.budget_ns
            yield Request(
                request_id=RequestId(number),
                model=arrival.model,
                bucket=_BUCKET,
                rows=arrival.rows,
                payload_bytes=row_bytes.get(arrival.model, 0) * arrival.rows,
                priority=priority if arrival.priority is None else arrival.priority,
                tier=arrival.tier,
                tenant=arrival.tenant,
                slot_class=slot_class,
                arrived_at_ns=arrival.at_ns,
                budget_ns=budget_ns,
                late_ns=late_ns,
            )

    def budgets(self) -> dict[TierName, BudgetRange]:
        """What requests of each tier in use are given."""
        given_ns: dict[TierName, list[int]] = {}
        for stream in self.workload.streams:
            own_ns = self.tiers[stream.tier].budget_ns
            given_ns.setdefault(stream.tier, []).append(min(own_ns, stream.budget_ns or own_ns))
        return {tier: BudgetRange(min(all_ns), max(all_ns)) for tier, all_ns in given_ns.items()}

    def profiles(self) -> tuple[ModelProfile, ...]:
        """What would have been measured of each model on each of its devices."""
        if self.emulated is not None:
            machine, demands = self.emulated
            return tuple(
                emulated_profile(machine, demand, device, model.params.batch_rows_max)
                for model, demand in zip(self.models, demands, strict=True)
                for device in model.params.devices
            )
        return tuple(
            ModelProfile(
                model=model.params.name,
                device=device,
                bucket=_BUCKET,
                solo=tuple(
                    SoloTime(rows=rows, median_ns=time_ns, p95_ns=time_ns, runs=1)
                    for rows, time_ns in model.profile.points()
                ),
            )
            for model in self.models
            for device in model.params.devices
        )

    def links(self) -> LinkTree | None:
        """The paths to the devices; None where copies take no time."""
        if self.emulated is None:
            return None
        return self.emulated.accelerator.tree([device.name for device in self.params.devices])

    def executor(self) -> SimulatedExecutor:
        """Fresh devices."""
        if self.emulated is not None:
            return self._emulated_devices(self.emulated)
        return self._lanes(self._service())

    def foreseeable(self) -> Foreseeable:
        """Fresh devices that behave as `executor`'s do, and whose future can be looked at."""
        if self.emulated is not None:
            return self._emulated_devices(self.emulated)
        times = self._service()
        return Watched(self._lanes(times), times)

    def _emulated_devices(self, setup: EmulatedSetup) -> EmulatedDevices:
        names = [device.name for device in self.params.devices]
        return EmulatedDevices(EmulatedMachine(*setup, names, self.seed))

    def _lanes(self, times: ServiceTimes) -> SoloTimes | SharedLanes:
        if self.weights is None:
            return SoloTimes(times)
        return SharedLanes(times, self.params.devices, self.weights)

    def play(
        self,
        policy: Policy,
        *,
        observe: Callable[[int, Event, list[Command]], None] | None = None,
        clock: Callable[[], int] | None = None,
        executor: SimulatedExecutor | None = None,
    ) -> World:
        """Run it to the end under a policy, and return the world as it is then.

        Args:
            policy: who goes first.
            observe: called with every step.
            clock: of real nanoseconds; with one the world's kernel is a `TimedKernel`.
            executor: fresh devices that the policy looks at; None makes some.
        """
        kernel = (
            Kernel(self.params, policy)
            if clock is None
            else TimedKernel(self.params, policy, clock)
        )
        executor = executor or self.executor()
        world = World(kernel, executor, observe=observe, load_ns=self.load_ns)
        world.load(model.params for model in self.models)
        world.run(self.requests(), faults=self.faults)
        return world

    def _service(self) -> "_ScatteredTimes":
        """Solo service times, with noise from a stream of chance of their own."""
        known = {
            model.params.name: _Scattered(model.profile, *_log_normal(model.noise_cv))
            for model in self.models
        }
        return _ScatteredTimes(known, Random(f"{self.seed}/service"))


class _Scattered(NamedTuple):
    """The times of a model, and the parameters of what they are multiplied by."""

    profile: Profile
    mu: float
    sigma: float


class _ScatteredTimes:
    """Solo service times around the models' profiles."""

    def __init__(self, known: Mapping[ModelName, _Scattered], chance: Random) -> None:
        self._known = known
        self._chance = chance

    def __call__(self, dispatch: Dispatch) -> int:
        profile, mu, sigma = self._known[dispatch.model]
        solo_ns = profile.service_ns(dispatch.rows)
        if sigma == 0:
            return solo_ns
        return max(1, round(solo_ns * self._chance.lognormvariate(mu, sigma)))

    def fork(self) -> "_ScatteredTimes":
        """See `ServiceTimes`."""
        chance = Random(0)
        chance.setstate(self._chance.getstate())
        return _ScatteredTimes(self._known, chance)


def _log_normal(cv: float) -> tuple[float, float]:
    """Parameters with mean one and this coefficient of variation."""
    variance = log(1.0 + cv * cv)
    return -variance / 2, sqrt(variance)
