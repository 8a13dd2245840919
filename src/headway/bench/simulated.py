"""Simulated contests: policies in turn on the same arrivals, over seeds and loads.

Knows how a contender, a scenario and its observers come together, and how runs are spread over
processes. Refuses to know what is printed of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import msgspec

from headway.app import build_policy, own_predictor, policy_from_section
from headway.config import PolicyConfig
from headway.core import Command, Event, Request, SlotClass, TierName
from headway.predict import Recipe, build_predictor, on_links
from headway.report import ClassTally, PolicyRun
from headway.sim import (
    Oracle,
    Scenario,
    Tally,
    TierTally,
    TimedKernel,
    Usage,
    UsageFigures,
    World,
)
from headway.units import NS_PER_MS, NS_PER_S

__all__ = [
    "ORACLE",
    "Contender",
    "Match",
    "Played",
    "add_oracle",
    "play",
    "play_all",
    "recipe_for",
    "section_for",
]

Observe = Callable[[int, Event, list[Command]], None]

ORACLE = "oracle"
"""The yardstick: only a simulator has it, for only there the future is known."""

_WITH_SHARES = frozenset({"headway"})
"""Policies that divide a class between its tenants."""


class Contender(NamedTuple):
    """A policy that takes part."""

    label: str
    """What it is called in tables; `static-cap:low_max=2`."""
    settings: Mapping[str, object]
    """As the configuration takes them; `kind` may also be `oracle`."""
    predictor: str | None = None
    """None for the policy's own."""


class Match(NamedTuple):
    """One contender on one scenario, with the seed and the load of this run."""

    scenario: Scenario
    contender: Contender
    mix: str
    load_ratio: float | None = None
    """Times the scenario's own rates, which it has been scaled by; None where nobody asked."""


class Played(NamedTuple):
    """What came of a match."""

    run: PolicyRun
    tiers: Mapping[TierName, TierTally]
    usage: UsageFigures
    events: int


def section_for(scenario: Scenario, contender: Contender) -> PolicyConfig:
    """A contender's settings, with the scenario's shares where the policy knows tenants."""
    settings = dict(contender.settings)
    if scenario.shares and settings["kind"] in _WITH_SHARES:
        settings.setdefault("shares", dict(scenario.shares))
    return policy_from_section(settings)


def recipe_for(scenario: Scenario, contender: Contender) -> Recipe:
    """What its predictor knows before a scenario's first request: times, and links."""
    section = section_for(scenario, contender)
    recipe = Recipe(
        kind=contender.predictor or own_predictor(section),
        profiles=scenario.profiles(),
        has_classes=section.class_slots,
    )
    links = scenario.links()
    return recipe if links is None else on_links(recipe, links)


def play(
    match: Match,
    *,
    observers: Sequence[Observe] = (),
    clock: Callable[[], int] | None = None,
) -> Played:
    """Play one match to its end.

    Args:
        match: who plays what.
        observers: also told of every step.
        clock: of real nanoseconds, to time decisions by.
    """
    scenario = match.scenario
    tally = Tally()
    usage = Usage(scenario.params.devices, _work_ns(scenario))
    observe = _all_of([tally, usage, *observers])
    if match.contender.settings["kind"] == ORACLE:
        world = _play_oracle(scenario, observe, clock)
    else:
        recipe = recipe_for(scenario, match.contender)
        policy = build_policy(
            section_for(scenario, match.contender),
            build_predictor(recipe, scenario.params.devices),
        )
        world = scenario.play(policy, observe=observe, clock=clock)
    run = _policy_run(match, tally, usage, world)
    figures = usage.figures(scenario.workload.duration_ns)
    return Played(run, tally.tiers, figures, world.event_count)


def play_all(
    matches: Sequence[Match],
    *,
    processes: int,
    clock: Callable[[], int] | None = None,
) -> Iterator[Played]:
    """Play matches, several at once in processes of their own; results in the matches' order.

    Args:
        matches: what is played.
        processes: at once; 1 plays them here.
        clock: a function of a module, which every process can import.
    """
    if processes <= 1 or len(matches) <= 1:
        for match in matches:
            yield play(match, clock=clock)
        return
    workers = min(processes, len(matches))
    # A fresh interpreter each: whoever calls may hold threads, which do not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from [
            future.result()
            for future in [pool.submit(play, match, clock=clock) for match in matches]
        ]


def add_oracle(runs: Sequence[PolicyRun]) -> list[PolicyRun]:
    """The runs, each with what the yardstick let down on the same arrivals, where it was played."""
    yardsticks = {(r.mix, r.load, r.seed): r for r in runs if r.policy == ORACLE}
    measured = []
    for run in runs:
        yardstick = yardsticks.get((run.mix, run.load, run.seed))
        if yardstick is not None:
            run = msgspec.structs.replace(
                run,
                oracle_high=yardstick.high_violations,
                oracle_low=yardstick.low_violations,
            )
        measured.append(run)
    return measured


def _play_oracle(scenario: Scenario, observe: Observe, clock: Callable[[], int] | None) -> World:
    """The yardstick looks at the very devices that will run what it starts."""
    oracle = Oracle(scenario, scenario.foreseeable())
    return scenario.play(oracle.policy(), observe=observe, clock=clock, executor=oracle)


def _all_of(observers: Sequence[Observe]) -> Observe:
    def observe(now_ns: int, event: Event, commands: list[Command]) -> None:
        for observer in observers:
            observer(now_ns, event, commands)

    return observe


def _work_ns(scenario: Scenario) -> Callable[[Request], float]:
    """What a request takes alone, by the scenario's profiles."""
    profiles = {model.params.name: model.profile for model in scenario.models}

    def work_ns(request: Request) -> float:
        return profiles[request.model].service_ns(request.rows)

    return work_ns


def _has_classes(scenario: Scenario) -> bool:
    """Whether its devices run a low batch other than a high one, where a policy tells them."""
    if scenario.emulated is not None:
        return scenario.emulated.accelerator.execution.class_yield > 0
    return any(device.weight_high != device.weight_low for device in scenario.params.devices)


def _policy_run(match: Match, tally: Tally, usage: Usage, world: World) -> PolicyRun:
    scenario = match.scenario
    duration_ns = scenario.workload.duration_ns
    figures = usage.figures(duration_ns)
    of_class = {
        slot_class: TierTally.merged(
            tier for name, tier in tally if scenario.tiers[name].slot_class is slot_class
        )
        for slot_class in SlotClass
    }
    high, low = of_class[SlotClass.HIGH], of_class[SlotClass.LOW]
    total = TierTally.merged(of_class.values())
    kernel = world.kernel
    decision = kernel.decision_ns if isinstance(kernel, TimedKernel) else lambda _: None
    budgets = scenario.budgets()
    return PolicyRun(
        mix=match.mix,
        policy=match.contender.label,
        niced=_has_classes(scenario),
        seed=scenario.seed,
        load=match.load_ratio,
        duration_s=duration_ns / NS_PER_S,
        emulated=scenario.emulated is not None,
        high_requests=high.arrived,
        low_requests=low.arrived,
        high_violations=high.violation_ratio,
        low_violations=low.violation_ratio,
        high_goodput_rps=_goodput_rps(high, duration_ns),
        low_goodput_rps=_goodput_rps(low, duration_ns),
        high_goodput_work=usage.work_done_ns[SlotClass.HIGH] / duration_ns,
        low_goodput_work=usage.work_done_ns[SlotClass.LOW] / duration_ns,
        high_p50_ms=_scaled(high.latency_ns(0.5), NS_PER_MS),
        high_p99_ms=_scaled(high.latency_ns(0.99), NS_PER_MS),
        low_p50_ms=_scaled(low.latency_ns(0.5), NS_PER_MS),
        low_p99_ms=_scaled(low.latency_ns(0.99), NS_PER_MS),
        error_mean=figures.error_mean_ratio,
        error_median=figures.error_median_ratio,
        utilisation=figures.lanes_busy_ratio,
        waste_ratio=figures.waste_ratio,
        decision_p50_us=_scaled(decision(0.5), 1_000),
        decision_p99_us=_scaled(decision(0.99), 1_000),
        refused=total.rejected,
        expired=total.expired - total.given_up,
        given_up=total.given_up,
        failed=total.failed,
        others_cores=None,
        classes={
            str(name): ClassTally(
                requests=tier.arrived,
                violations=tier.violations,
                budget_ms=budgets[name].min_ns / NS_PER_MS,
            )
            for name, tier in tally
        },
    )


def _goodput_rps(tally: TierTally, duration_ns: int) -> float:
    return (tally.completed - tally.late) * NS_PER_S / duration_ns


def _scaled(number: float | None, unit: int) -> float | None:
    return None if number is None else number / unit
