"""A contest of policies on real models: what is played, in which order, and what it came to.

Knows mixes, policies by their settings, seeds and loads, and the messages to and from the process
that plays. Never an engine.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from headway.app import own_predictor, policy_from_section
from headway.bench.mixes import MOVING, STATIONARY, Mix, kinds_of
from headway.bench.orders import SoloClass
from headway.bench.process import have_carried_out
from headway.bench.setups import SETUPS, Setup
from headway.bench.simulated import Contender
from headway.report import PolicyRun
from headway.units import NS_PER_S

__all__ = [
    "CONTEST_FULL",
    "CONTEST_NEWS",
    "CONTEST_ORDERS",
    "CONTEST_OTHERS_MAX",
    "CONTEST_POLICIES",
    "CONTEST_POLICIES_QUICK",
    "CONTEST_QUICK",
    "Contest",
    "ContestNews",
    "ContestOrder",
    "ContestPlayed",
    "ContestProgress",
    "ContestRun",
    "Measured",
    "expected_ns",
    "hold_contest",
    "order_of",
]

CONTEST_OTHERS_MAX: Final = 0.15
"""Cores that other programs may use before a run is played again."""
RUN_OVERHEAD_NS: Final = 1_500_000_000
"""Of a run: a worker that starts and loads, a warm-up, and the end of the last requests."""
CONTEST_POLICIES: Final = (
    "fifo",
    "priority",
    "edf",
    "static-cap",
    "static-cap:low_max=2",
    "static-cap:low_max=3",
    "lane-edf",
    "batch3:low_min=3",
    "clockwork",
    "nexus",
    "pcie",
    "strait",
    "headway",
)
"""All that ship, as a command line names them; low classes of the mixes have priority 3."""
CONTEST_POLICIES_QUICK: Final = ("priority", "headway")
ROWS_FILE: Final = "runs.jsonl"


class Contest(Struct, frozen=True, kw_only=True):
    """Everything that is to be played."""

    mixes: tuple[Mix, ...]
    niced: tuple[bool, ...] = (True, False)
    """Whether slots are told the class of their batch; each is a contest of its own."""
    seeds: int = 5
    """As many, from 1."""
    duration_ns: int = 12 * NS_PER_S
    """Of the arrivals of one run."""
    loads: tuple[float, ...] = ()
    """The mixes that do not move are played at each of these; none plays them at their own."""
    solo_rounds: int = 12
    capacity_ns: int = 2_500_000_000
    """Of each mix."""
    tries_max: int = 2
    """Of a run that other programs disturbed."""


CONTEST_FULL: Final = Contest(mixes=(STATIONARY, *MOVING))
CONTEST_QUICK: Final = Contest(
    mixes=(STATIONARY, MOVING[0]),
    niced=(True,),
    seeds=1,
    duration_ns=6 * NS_PER_S,
    solo_rounds=4,
    capacity_ns=1_500_000_000,
    tries_max=1,
)


class ContestRun(Struct, frozen=True, kw_only=True):
    """One run of one policy."""

    mix: str
    load: float | None
    """None where the mix says; one that does not move has one of its own."""
    policy: str
    """What it is called."""
    settings: dict[str, object]
    predictor: str
    niced: bool
    seed: int
    duration_ns: int
    journal: str | None = None
    """Where it is kept; None keeps none."""

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it another run."""
        return (self.mix, self.load, self.policy, self.niced, self.seed, self.duration_ns)

    @property
    def words(self) -> str:
        """For people."""
        load = "" if self.load is None else f" at {100 * self.load:.0f} %"
        return f"{self.mix}{load}, {self.policy}, seed {self.seed}"


class ContestOrder(Struct, frozen=True, kw_only=True):
    """What the process that plays is given."""

    setup: Setup
    cache: str
    """Folder of the fetched models."""
    mixes: tuple[Mix, ...]
    solo_rounds: int
    capacity_ns: int
    tries_max: int
    others_cores_max: float
    runs: tuple[ContestRun, ...]


class Measured(Struct, frozen=True, kw_only=True, tag=True):
    """Every class was timed alone, and the cores under every mix."""

    classes: tuple[SoloClass, ...]
    capacity_ratios: dict[str, float]
    """Mix -> work that the cores do in their time when they are never idle, at its time alone."""
    others_cores: float | None


class ContestProgress(Struct, frozen=True, kw_only=True, tag=True):
    """How far one run is."""

    run: ContestRun
    done_ratio: float


class ContestPlayed(Struct, frozen=True, kw_only=True, tag=True):
    """A run came to its end."""

    run: ContestRun
    row: PolicyRun
    took_ns: int
    """All of it, with the tries that were not kept."""
    tries: int


ContestNews = Measured | ContestProgress | ContestPlayed
CONTEST_ORDERS: Final = msgspec.json.Decoder(ContestOrder)
CONTEST_NEWS: Final[msgspec.json.Decoder[Measured | ContestProgress | ContestPlayed]] = (
    msgspec.json.Decoder(Measured | ContestProgress | ContestPlayed)
)


def order_of(
    contest: Contest,
    contenders: Sequence[Contender],
    *,
    cache: Path,
    journals: Path | None = None,
    played: Iterable[ContestPlayed] = (),
) -> ContestOrder:
    """All runs, in the order in which they are played.

    Policies play in turn on the same arrivals, every other seed the other way round: whatever
    changes on the machine in the meantime meets all of them.

    Args:
        contest: what is played.
        contenders: by whom.
        cache: where the fetched models are.
        journals: folder to keep them in; None keeps none.
        played: runs that need not be played again.

    Raises:
        ConfigError: a policy does not exist, or has no such settings.
    """
    done = {one.run.key for one in played}
    return ContestOrder(
        setup=SETUPS["pinned"],
        cache=str(cache),
        mixes=contest.mixes,
        solo_rounds=contest.solo_rounds,
        capacity_ns=contest.capacity_ns,
        tries_max=contest.tries_max,
        others_cores_max=CONTEST_OTHERS_MAX,
        runs=tuple(run for run in _runs(contest, contenders, journals) if run.key not in done),
    )


def expected_ns(order: ContestOrder) -> int:
    """How long it takes, about, if nothing disturbs it."""
    kinds = len(kinds_of(order.mixes))
    solo_ns = kinds * (order.solo_rounds + 3) * _SOLO_MEAN_NS
    before_ns = RUN_OVERHEAD_NS + solo_ns + len(order.mixes) * order.capacity_ns
    return before_ns + sum(run.duration_ns + RUN_OVERHEAD_NS for run in order.runs)


def hold_contest(
    contest: Contest,
    contenders: Sequence[Contender],
    *,
    cache: Path,
    folder: Path | None,
    on_order: Callable[[ContestOrder], None],
    on_news: Callable[[ContestNews], None],
) -> list[PolicyRun]:
    """Play everything; the rows, also of what the folder has from before.

    Args:
        contest: what is played.
        contenders: by whom.
        cache: where the fetched models are.
        folder: keeps journals and rows; what it has a row of is not played again. None keeps none.
        on_order: is told what is played, before it is.
        on_news: is told how it goes.

    Raises:
        ConfigError: a policy does not exist, or has no such settings.
        HeadwayError: the process that plays failed.
    """
    kept = [] if folder is None else _read(folder / ROWS_FILE)
    order = order_of(contest, contenders, cache=cache, journals=folder, played=kept)
    wanted = {run.key for run in _runs(contest, contenders, None)}
    rows = [one.row for one in kept if one.run.key in wanted]
    on_order(order)

    def on_each(news: ContestNews) -> None:
        if isinstance(news, ContestPlayed):
            rows.append(news.row)
            if folder is not None:
                _append(folder / ROWS_FILE, news)
        on_news(news)

    if order.runs:
        have_carried_out("headway.bench.matches", order, CONTEST_NEWS, on_each, what="the contest")
    return rows


_SOLO_MEAN_NS: Final = 90_000_000
"""Time alone of a class, over all that there are, about."""


def _runs(
    contest: Contest, contenders: Sequence[Contender], journals: Path | None
) -> Iterator[ContestRun]:
    for seed in range(1, contest.seeds + 1):
        in_turn = contenders if seed % 2 else contenders[::-1]
        for mix in contest.mixes:
            for load in _loads(mix, contest):
                for niced in contest.niced:
                    for contender in in_turn:
                        run = _run(contest, mix, load, contender, niced=niced, seed=seed)
                        yield (
                            run
                            if journals is None
                            else replace(run, journal=str(journals / f"{_file_name(run)}.jsonl"))
                        )


def _loads(mix: Mix, contest: Contest) -> Sequence[float | None]:
    if mix.moves:
        return (None,)
    return contest.loads or (mix.load_min,)


def _run(
    contest: Contest,
    mix: Mix,
    load: float | None,
    contender: Contender,
    *,
    niced: bool,
    seed: int,
) -> ContestRun:
    settings = {**contender.settings, "class_slots": niced}
    section = policy_from_section(settings)
    return ContestRun(
        mix=mix.name,
        load=load,
        policy=contender.label,
        settings=settings,
        predictor=contender.predictor or own_predictor(section),
        niced=niced,
        seed=seed,
        duration_ns=contest.duration_ns,
    )


def _file_name(run: ContestRun) -> str:
    load = "" if run.load is None else f"-u{100 * run.load:.0f}"
    policy = "".join(char if char.isalnum() else "-" for char in run.policy)
    return f"{run.mix}{load}-{'niced' if run.niced else 'level'}-{policy}-s{run.seed}"


def _read(path: Path) -> list[ContestPlayed]:
    if not path.exists():
        return []
    decoder = msgspec.json.Decoder(ContestPlayed)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]


def _append(path: Path, played: ContestPlayed) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(msgspec.json.encode(played) + b"\n")
