"""`headway demo --ui`: two policies get the same requests in turn, and a page tells who kept what.

Both servers run all the time and on the same cores, but only one is asked at a time, so that each
has the machine to itself. Every round is a new workload, played to one server and then to the
other; the counts of all rounds add up on the page until the user has had enough.

Knows the order of things, as `tour` does, and what the page is told. Never how it looks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from headway.demo.machine import describe_machine
from headway.demo.orders import Playing, PlayWorkload, Started
from headway.demo.page import showing
from headway.demo.play import carry_out
from headway.demo.scenario import OVERLOAD_RATIO, Scenario
from headway.demo.screen import Screen
from headway.demo.server import ServerProcess, free_ports
from headway.demo.story import DuelTier, Phase, Side, Story, playing, with_turn
from headway.demo.tour import DemoOptions, Measured, Tour, cores_in_words
from headway.frontends import PageApp
from headway.report import samples_from_jsonl, summarise
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["RIVALS", "run_duel"]

RIVALS: Final = ("fifo", "priority")
"""Policies that `headway` may be set beside."""

_OURS: Final = "headway"
_WORDS: Final[Mapping[str, str]] = {
    "fifo": "First come, first served. It neither knows what is urgent nor how long anything takes:"
    " a request waits its turn, and many a deadline passes while it does.",
    "priority": "The more important tier first, and first come, first served within it. It does not"
    " know how long anything takes.",
    "headway": "It predicts how long each batch will take beside all that runs, starts what can"
    " still be in time, the urgent first, and says no at once to what cannot.",
}
_PAGE: Final = "duel.html"


class _Said:
    """The story as it stands: told here, and read by the page's thread.

    Invariants: ``story`` is replaced as a whole, so whoever reads it reads one that is consistent.
    """

    def __init__(self, story: Story) -> None:
        self.story = story

    def tell(self, **changes: object) -> None:
        """Tell it with changes."""
        self.story = replace(self.story, **changes)

    def as_json(self) -> bytes:
        """For the page."""
        return msgspec.json.encode(self.story)


class _Load(NamedTuple):
    """What is asked of both."""

    scenario: Scenario
    work_ratio: float
    """Of the cores' time."""


def run_duel(
    options: DemoOptions, screen: Screen, *, against: str, rounds_max: int | None = None
) -> None:
    """Measure this machine, then have both play until the user has had enough, which is no error.

    Args:
        options: as of the demo without a page.
        screen: where the terminal is told.
        against: whom `headway` is set beside.
        rounds_max: how often; None for no end.

    Raises:
        HeadwayError: a step could not be done at all.
    """
    machine = describe_machine()
    screen.title("headway demo --ui", f"{machine}, seed {options.seed}")
    options.folder.mkdir(parents=True, exist_ok=True)
    page_port, *ports = free_ports(3)
    origin = f"http://127.0.0.1:{page_port}"
    sides = [
        Side(policy=policy, words=_WORDS[policy], url=f"http://127.0.0.1:{port}")
        for policy, port in zip((against, _OURS), ports, strict=True)
    ]
    said = _Said(Story(machine=machine, turn_s=_turn_ns(options) / NS_PER_S, sides=sides))
    app = PageApp(_PAGE, {"/story": said.as_json}, [side.url for side in sides])
    with showing(app, page_port):
        screen.say(f"The page: {origin}", style="bold")
        screen.say()
        try:
            load = _prepared(Tour(options, screen), options, said, origin)
            with _servers(options, said.story.sides, ports, screen):
                _play_on(options, said, load, screen, rounds_max)
        except KeyboardInterrupt:
            if said.story.phase is Phase.PREPARING:
                raise
        screen.say()
        screen.say(said.story.verdict)


def _prepared(tour: Tour, options: DemoOptions, said: _Said, origin: str) -> _Load:
    said.tell(note="Fetching real models, once.")
    tour.fetch()
    said.tell(note="Checking answers, and measuring how much this machine can do.")
    measured = tour.measure()
    load = _Load(measured.scenario, measured.capacity_ratio * OVERLOAD_RATIO * options.rate_factor)
    _config_of(options).write_text(tour.config(load.scenario, origin), encoding="utf-8")
    said.tell(note=_load_in_words(measured, load, options), tiers=_tiers_of(load))
    return load


def _config_of(options: DemoOptions) -> Path:
    return options.folder / "duel.yaml"


def _turn_ns(options: DemoOptions) -> int:
    """Half of the other demo's, as its stints are: who watches wants both soon."""
    return options.turn_ns // 2


def _load_in_words(measured: Measured, load: _Load, options: DemoOptions) -> str:
    offered_rps = sum(load.scenario.rates_rps(load.work_ratio).values())
    load_ratio = load.work_ratio / measured.capacity_ratio
    return (
        f"{offered_rps:.0f} requests a second, {load_ratio:.2f} times what this machine can do with"
        f" {cores_in_words(load.scenario.core_count)}: somebody has to be told no. Seed"
        f" {options.seed}."
    )


def _tiers_of(load: _Load) -> list[DuelTier]:
    scenario = load.scenario
    budgets_ns, rates_rps = scenario.budgets_ns(), scenario.rates_rps(load.work_ratio)
    return [
        DuelTier(
            name=tier.name,
            budget_ms=budgets_ns[tier.name] / NS_PER_MS,
            rate_rps=round(sum(rates_rps[name] for name in scenario.models_of(tier)), 1),
            models=list(scenario.models_of(tier)),
        )
        for tier in scenario.tiers
    ]


@contextmanager
def _servers(
    options: DemoOptions, sides: Sequence[Side], ports: Sequence[int], screen: Screen
) -> Iterator[None]:
    """Both, ready."""
    with ExitStack() as stack:
        for side, port in zip(sides, ports, strict=True):
            log = options.folder / f"duel-{side.policy}.log"
            server = stack.enter_context(
                ServerProcess(_config_of(options), policy=side.policy, port=port, log=log)
            )
            with screen.step("server") as step:
                seconds = server.wait_ready(lambda _: None)
                step.result = f"{side.url}, policy {side.policy}, ready in {seconds:.1f} s"
        yield


def _play_on(
    options: DemoOptions, said: _Said, load: _Load, screen: Screen, rounds_max: int | None
) -> None:
    """Turn after turn. A round's workload is the same for both; each round's is another."""
    said.tell(phase=Phase.BETWEEN)
    screen.say()
    screen.say("Both servers get the same requests in turn; the page goes on until Ctrl-C.")
    for index in count() if rounds_max is None else range(rounds_max):
        for active in range(len(said.story.sides)):
            _play(options, said, load, active, options.seed + index, screen)
    said.tell(phase=Phase.OVER)


def _play(
    options: DemoOptions, said: _Said, load: _Load, active: int, seed: int, screen: Screen
) -> None:
    side = said.story.sides[active]
    samples = options.folder / f"duel-{side.policy}.jsonl"
    scenario = load.scenario
    order = PlayWorkload(
        url=side.url,
        cache=str(options.cache),
        workload=scenario.workload(load.work_ratio, duration_ns=_turn_ns(options), seed=seed),
        budgets_ns={str(name): ns for name, ns in scenario.budgets_ns().items()},
        samples=str(samples),
    )
    with screen.step(side.policy) as step:
        step.note = f"{_turn_ns(options) / NS_PER_S:g} s under load"
        carry_out(order, _teller(said, active))
        summary = summarise(samples_from_jsonl(samples), duration_ns=_turn_ns(options))
        total = summary.total
        step.result = f"{total.requests} requests, {total.violations} not answered in time"
    said.story = with_turn(said.story, active, summary)


def _teller(said: _Said, active: int) -> Callable[[Started | Playing], None]:
    """Tells the page of a turn while it is played."""

    def tell(news: Started | Playing) -> None:
        now = news.tiers if isinstance(news, Playing) else {}
        elapsed_ns = news.elapsed_ns if isinstance(news, Playing) else 0
        said.story = playing(said.story, active, elapsed_s=elapsed_ns / NS_PER_S, now=now)

    return tell
