"""A scenario: machine, models, load and faults of a simulated run.

Knows how to build a `World` of it for any policy. Never says who goes first; `spec` reads the words
in which people write one down.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
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
    ModelParams,
    Policy,
    Request,
    RequestId,
    SlotClass,
    TierName,
)
from headway.devices import Accelerator, EmulatedMachine, EmulatedModel, emulated_profile
from headway.predict import LinkTree, ModelProfile, Profile, SoloTime
from headway.sim.devices import SharedLanes, SimulatedExecutor, SoloTimes
from headway.sim.emulated import EmulatedDevices
from headway.sim.world import Fault, World
from headway.workload import Workload

__all__ = ["BudgetRange", "EmulatedSetup", "Scenario", "SimulatedModel", "SimulatedTier"]

_BUCKET: Final = BucketKey("")
"""All requests of a simulated model have one shape."""


class SimulatedTier(NamedTuple):
    """What a request of a tier is given."""

    priority: int
    budget_ns: int
    slot_class: SlotClass


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
    faults: tuple[Fault, ...]
    workload: Workload
    emulated: EmulatedSetup | None = None
    """What the devices are, unless they are plain. Figures of it are to be labelled so."""

    @property
    def seed(self) -> int:
        """Of all chance in it."""
        return self.workload.seed

    def with_seed(self, seed: int) -> "Scenario":
        """The same scenario with other chance."""
        return replace(self, workload=msgspec.structs.replace(self.workload, seed=seed))

    def requests(self) -> Iterator[Request]:
        """The workload's arrivals as requests, numbered from 1 in order of arrival.

        As in a live server, a stream may ask for less than its tier's budget and never for more.
        """
        tiers = self.tiers
        models = self.emulated.models if self.emulated is not None else ()
        row_bytes = {model.name: model.in_bytes for model in models}
        for number, arrival in enumerate(self.workload.arrivals(), start=1):
            priority, budget_ns, slot_class = tiers[arrival.tier]
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
            names = [device.name for device in self.params.devices]
            return EmulatedDevices(EmulatedMachine(*self.emulated, names, self.seed))
        service_ns = self._service()
        if self.weights is None:
            return SoloTimes(service_ns)
        return SharedLanes(service_ns, self.params.devices, self.weights)

    def play(
        self,
        policy: Policy,
        *,
        observe: Callable[[int, Event, list[Command]], None] | None = None,
    ) -> World:
        """Run it to the end under a policy, and return the world as it is then."""
        kernel = Kernel(self.params, policy)
        world = World(kernel, self.executor(), observe=observe, load_ns=self.load_ns)
        world.load(model.params for model in self.models)
        world.run(self.requests(), faults=self.faults)
        return world

    def _service(self) -> Callable[[Dispatch], int]:
        """Solo service times, with noise from a stream of chance of their own."""
        draw = Random(f"{self.seed}/service").lognormvariate
        known = {
            model.params.name: (model.profile.service_ns, *_log_normal(model.noise_cv))
            for model in self.models
        }

        def service_ns(dispatch: Dispatch) -> int:
            solo_ns, mu, sigma = known[dispatch.model]
            if sigma == 0:
                return solo_ns(dispatch.rows)
            return max(1, round(solo_ns(dispatch.rows) * draw(mu, sigma)))

        return service_ns


def _log_normal(cv: float) -> tuple[float, float]:
    """Parameters with mean one and this coefficient of variation."""
    variance = log(1.0 + cv * cv)
    return -variance / 2, sqrt(variance)
