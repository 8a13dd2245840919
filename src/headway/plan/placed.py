"""A plan put to the proof: its slices in a virtual world, under the scheduler's own code.

Knows plans and the simulator. Slices that have a model in common are one world, for there its
requests go wherever they are served first; all others know nothing of each other. A slice runs one
batch after another, a gang is one device. All requests of a model arrive, whether its plan had a
place for them or not, so a plan that leaves load out shows what that does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, log, sqrt
from random import Random
from typing import Final, NamedTuple

from headway.core import (
    BucketKey,
    DeviceName,
    DeviceParams,
    Dispatch,
    KernelParams,
    ModelName,
    ModelParams,
    Policy,
    TierName,
)
from headway.plan.cuts import times_there
from headway.plan.demand import Demand, ModelDemand
from headway.plan.fleet import Fleet
from headway.plan.sharing import Judge, Seat, SharingPlan, Verdict
from headway.plan.verdicts import cut_of_slice
from headway.predict import ModelProfile, Profile, SoloTime
from headway.sim import Scenario, SimulatedModel, SimulatedTier, SoloTimes, Tally, TierTally
from headway.units import NS_PER_S, format_duration
from headway.workload import FixedRows, Gamma, Poisson, Stream, Workload

__all__ = ["PlayLimits", "PolicyMaker", "play_plan", "worlds_of"]

PolicyMaker = Callable[[Sequence[ModelProfile], Sequence[DeviceParams]], Policy]
"""Makes the policy of a world of what would have been measured, and of its devices."""

_REQUESTS_PER_LATE: Final = 40
"""Requests of a model for each that may be late: as many as tell a share from twice that share."""
_SURE: Final = 1.96
"""Standard errors by which a share must be below what was wanted to count as below it."""


class PlayLimits(NamedTuple):
    """How much is played."""

    requests_max: int = 60_000
    """Of all worlds together; each has its part by its rate."""
    duration_ns_max: int = 600 * NS_PER_S
    seed: int = 1


class _Part(NamedTuple):
    """Seats of a model whose batches have one limit: what one kernel can know as one model."""

    name: ModelName
    """In the kernel, and of its tier, so that it is counted by itself."""
    model: ModelDemand
    rate_rps: float
    batch_rows: int
    profiles: Mapping[DeviceName, Profile]


class _World(NamedTuple):
    """Slices that share models."""

    devices: tuple[DeviceName, ...]
    parts: tuple[_Part, ...]

    @property
    def rate_rps(self) -> float:
        """Of all its models."""
        return sum(part.rate_rps for part in self.parts)


def play_plan(
    plan: SharingPlan,
    demand: Demand,
    fleet: Fleet,
    make_policy: PolicyMaker,
    limits: PlayLimits | None = None,
) -> Iterator[Verdict]:
    """Play it, and say of each model what came of its requests.

    Args:
        plan: what is placed where.
        demand: which asks for it.
        fleet: the devices.
        make_policy: of each world.
        limits: on what is played.
    """
    limits = limits or PlayLimits()
    worlds = worlds_of(plan, demand, fleet)
    rate_rps = sum(world.rate_rps for world in worlds)
    seen: dict[ModelName, tuple[TierTally, int, str]] = {}
    for world in worlds:
        requests_max = limits.requests_max * world.rate_rps / rate_rps
        duration_ns = _duration_ns(world, requests_max, limits.duration_ns_max)
        seen.update(_played(world, duration_ns, limits.seed, make_policy))
    for model in demand.models:
        yield _verdict(model, *seen.get(model.name, (TierTally(), 0, "it has no place")))


def worlds_of(plan: SharingPlan, demand: Demand, fleet: Fleet) -> list[_World]:
    """Slices grouped so that no model is in two groups."""
    models = {model.name: model for model in demand.models}
    sm_counts = {device.name: device.sm_count for device in fleet.devices}
    seats: defaultdict[ModelName, list[tuple[DeviceName, Seat, Profile]]] = defaultdict(list)
    for share in plan.devices:
        for part in share.slices:
            where = "" if part.profile is None else f"/{part.profile}@{part.start}"
            cut = cut_of_slice(share, part, sm_counts[share.device])
            for seat in part.seats:
                times = times_there(models[seat.model], cut, fleet.speeds)
                if times is not None and not seat.gang_rank:
                    name = DeviceName(f"{share.device}{where}")
                    seats[seat.model].append((name, seat, times.profile))
    of_model = {name: [device for device, _, _ in own] for name, own in seats.items()}
    return [
        _World(
            devices,
            tuple(
                part
                for model in demand.models
                if model.name in names
                for part in _parts(model, seats[model.name])
            ),
        )
        for devices, names in _components(of_model)
    ]


def _parts(
    model: ModelDemand, seats: Sequence[tuple[DeviceName, Seat, Profile]]
) -> Iterator[_Part]:
    """By the limit of their batches; all requests arrive, divided as the plan divides them."""
    placed_rps = sum(seat.rate_rps for _, seat, _ in seats)
    for rows in sorted({seat.batch_rows for _, seat, _ in seats}):
        own = [(name, seat, profile) for name, seat, profile in seats if seat.batch_rows == rows]
        share = sum(seat.rate_rps for _, seat, _ in own) / placed_rps if placed_rps else 0.0
        yield _Part(
            name=ModelName(f"{model.name}/{rows}"),
            model=model,
            rate_rps=model.rate_rps * share,
            batch_rows=rows,
            profiles={name: profile for name, _, profile in own},
        )


def _components(
    of_model: Mapping[ModelName, Sequence[DeviceName]],
) -> Iterator[tuple[tuple[DeviceName, ...], frozenset[ModelName]]]:
    """Devices that models tie together, and those models, in the order of the models."""
    at_device: defaultdict[DeviceName, list[ModelName]] = defaultdict(list)
    for name, devices in of_model.items():
        for device in devices:
            at_device[device].append(name)
    seen: set[ModelName] = set()
    for first in of_model:
        if first in seen:
            continue
        seen.add(first)
        names, found = [first], dict.fromkeys(of_model[first])
        for name in names:
            for device in of_model[name]:
                found[device] = None
                for other in at_device[device]:
                    if other not in seen:
                        seen.add(other)
                        names.append(other)
        yield tuple(found), frozenset(names)


# --- one world ------------------------------------------------------------------------------------


def _duration_ns(world: _World, requests_max: float, duration_ns_max: int) -> int:
    """Long enough to tell for the rarest model, as far as there are requests for that."""
    wanted_s = max(
        _REQUESTS_PER_LATE / (1.0 - part.model.attainment_ratio) / part.rate_rps
        for part in world.parts
    )
    lasting_s = min(wanted_s, requests_max / world.rate_rps)
    return max(1, min(ceil(lasting_s * NS_PER_S), duration_ns_max))


def _played(
    world: _World, duration_ns: int, seed: int, make_policy: PolicyMaker
) -> Iterator[tuple[ModelName, tuple[TierTally, int, str]]]:
    """What came of each model's requests, in what time, under which policy."""
    params = tuple(DeviceParams(name=name, slot_lanes=(0,)) for name in world.devices)
    scenario = _scenario(world, params, duration_ns, seed)
    chance = Random(f"{seed}/service")
    parts = {part.name: part for part in world.parts}

    def service_ns(dispatch: Dispatch) -> int:
        part = parts[dispatch.model]
        solo_ns = part.profiles[dispatch.device].service_ns(dispatch.rows)
        cv = part.model.service_cv
        return solo_ns if not cv else max(1, round(solo_ns * _scatter(cv, chance)))

    policy = make_policy(list(_measured(world)), params)
    tally = Tally()
    scenario.play(policy, observe=tally, executor=SoloTimes(service_ns))
    for name in dict.fromkeys(part.model.name for part in world.parts):
        own = [
            tally.tiers.get(TierName(part.name), TierTally())
            for part in world.parts
            if part.model.name == name
        ]
        yield name, (TierTally.merged(own), duration_ns, f"policy `{policy.name}`")


def _scatter(cv: float, chance: Random) -> float:
    """Log-normal with mean one."""
    variance = log(1.0 + cv * cv)
    return chance.lognormvariate(-variance / 2, sqrt(variance))


def _scenario(
    world: _World, params: tuple[DeviceParams, ...], duration_ns: int, seed: int
) -> Scenario:
    """A tier for each part, so that each is counted by itself."""
    models = []
    for part in world.parts:
        kernel_params = ModelParams(
            name=part.name,
            devices=tuple(part.profiles),
            batch_rows_max=part.batch_rows,
            linger_ns=part.model.linger_ns,
        )
        profile = next(iter(part.profiles.values()))
        models.append(SimulatedModel(kernel_params, profile, part.model.service_cv))
    return Scenario(
        params=KernelParams(devices=params),
        models=tuple(models),
        tiers={
            TierName(part.name): SimulatedTier(
                part.model.priority, part.model.budget_ns, part.model.slot_class
            )
            for part in world.parts
        },
        weights=None,
        load_ns=0,
        faults=(),
        workload=Workload(
            streams=tuple(_stream(part) for part in world.parts),
            duration_ns=duration_ns,
            seed=seed,
        ),
    )


def _stream(part: _Part) -> Stream:
    rate, cv = part.rate_rps, part.model.arrivals_cv
    return Stream(
        model=part.name,
        tier=TierName(part.name),
        tenant=part.model.tenant,
        arrivals=Poisson(rate) if cv == 1.0 else Gamma(rate, cv),
        rows=FixedRows(part.model.request_rows),
    )


def _measured(world: _World) -> Iterator[ModelProfile]:
    """What a predictor would know of each model in each slice."""
    for part in world.parts:
        for device, profile in part.profiles.items():
            yield ModelProfile(
                model=part.name,
                device=device,
                bucket=BucketKey(""),
                solo=tuple(
                    SoloTime(rows=rows, median_ns=time_ns, p95_ns=time_ns, runs=1)
                    for rows, time_ns in profile.points()
                ),
            )


def _verdict(model: ModelDemand, tally: TierTally, duration_ns: int, how: str) -> Verdict:
    """What was seen; below what was wanted only where chance alone would hardly make it so."""
    asked = tally.arrived
    in_time = tally.completed - tally.late
    ratio = in_time / asked if asked else 0.0
    p99_ns = tally.latency_ns(0.99)
    note = f"{in_time} of {asked} requests in time, {format_duration(duration_ns)}, {how}"
    return Verdict(
        model=model.name,
        judge=Judge.SIMULATION,
        is_met=asked > 0 and _could_be(ratio, asked, model.attainment_ratio),
        budget_ns=model.budget_ns,
        attainment_ratio=model.attainment_ratio,
        expected_attainment_ratio=ratio,
        latency_p99_ns=None if p99_ns is None else round(p99_ns),
        note=note,
    )


def _could_be(ratio: float, count: int, wanted: float) -> bool:
    """Whether so many in time are within the chance of a share as wanted."""
    return ratio >= wanted - _SURE * sqrt(wanted * (1.0 - wanted) / count)
