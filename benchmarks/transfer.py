"""How long a copy takes among others: predicted at its start, against what it took.

Two sources. `emulated`: copies to four emulated accelerators in both directions, 64 KiB to 64 MiB,
1 to 8 in flight; the buses lose capacity in ways that the predictor is not told (see
`headway/devices/emulated_links.py`), so these rows say how well it learns a law of another form,
not how well it knows a real bus. `together`: all copies of a group start at one instant, nothing
follows until the last has ended. `open`: copies start at random instants, whatever is in flight.
`host`: real copies through shared memory by 1 to 8 processes, recorded and then scored. On a
machine with few cores the copies share cores as well as memory: the system's time slices of
milliseconds, and what other programs take, are in the result and in no prediction.

Every predictor is scored on the same copies. `fixed` is launch + size over the link's rate.
`windowed-pcie` is that times the bytes started in the last 100 ms over a bandwidth, if that is
above 1; the bandwidth is fitted to the learning part. `tree` shares rated capacities, `headway`
also learns. The first 600 copies of an emulated run, and the first of two rounds over 1 to 8
processes of a host run, are the learning part and are not scored.

Usage: `python benchmarks/transfer.py [--quick] [--format table|json]`. With `--format json` the
document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/transfer.json`.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import exp, log
from random import Random
from statistics import fmean, median
from typing import NamedTuple, Protocol

from harness import Interval, Row, publish, quick_parser

from headway.core import DeviceName
from headway.devices.emulated import accelerator
from headway.devices.emulated_links import Buses
from headway.predict.flows import Copy
from headway.predict.links import Direction, Link, LinkTree
from headway.predict.transfer import TransferModel

NAME = "transfer"
MACHINE = "a100-pcie4"
SIZE_MIN, SIZE_MAX = 64 << 10, 64 << 20
WINDOW_NS = 100_000_000
LEARNING_COUNT = 600
COPIES_MAX = 8
BUFFER_BYTES = 128 << 20
"""Larger than any cache, so that the next copy does not find its bytes there."""
COLUMNS = (
    "source",
    "emulated",
    "pattern",
    "copies",
    "predictor",
    "mape",
    "p95_error",
    "bias",
    "under",
    "count",
    "cost_us",
    "others_cores",
)


class Predictor(Protocol):
    """What is scored."""

    def started(self, copy: Copy, now_ns: int) -> float:
        """How long the copy will take, in nanoseconds."""

    def finished(self, copy_id: int, now_ns: int) -> None:
        """It has ended."""


class Fixed:
    """Launch, and size over the link's rate."""

    def __init__(self, tree: LinkTree) -> None:
        self._model = TransferModel(tree, learns=False)

    def started(self, copy: Copy, now_ns: int) -> float:
        """Whatever else happens."""
        return self._model.floor_ns(copy)

    def finished(self, copy_id: int, now_ns: int) -> None:
        """It does not look."""


class Windowed(Fixed):
    """The same, times the demand of the last 100 ms over the bandwidth where that is above 1.

    The bandwidth is the one that would have been best for the copies of the learning part.
    """

    def __init__(self, tree: LinkTree) -> None:
        super().__init__(tree)
        link = max(tree.links, key=lambda link: link.in_bytes_per_s)
        top = 2 * link.in_bytes_per_s * WINDOW_NS / 1e9
        self._grid_bytes = [top * 2 ** (-step / 4) for step in range(40)]
        self._capacity_bytes = self._grid_bytes[0]
        self._seen: deque[tuple[int, int]] = deque()
        self._open: dict[int, tuple[int, float, int]] = {}
        self._past: list[tuple[float, int, float]] = []

    def started(self, copy: Copy, now_ns: int) -> float:
        """Its own bytes count."""
        self._seen.append((now_ns, copy.size_bytes))
        while self._seen[0][0] <= now_ns - WINDOW_NS:
            self._seen.popleft()
        demand_bytes = sum(size for _, size in self._seen)
        alone_ns = super().started(copy, now_ns)
        self._open[copy.copy_id] = (now_ns, alone_ns, demand_bytes)
        return alone_ns * max(1.0, demand_bytes / self._capacity_bytes)

    def finished(self, copy_id: int, now_ns: int) -> None:
        """Choose the bandwidth at the end of the learning part."""
        started_ns, alone_ns, demand_bytes = self._open.pop(copy_id)
        if len(self._past) < LEARNING_COUNT:
            self._past.append((alone_ns, demand_bytes, max(1.0, now_ns - started_ns)))
            if len(self._past) == LEARNING_COUNT:
                # The window is full by then, or the fit would be to the few bytes of its start.
                del self._past[: LEARNING_COUNT // 2]
                self._capacity_bytes = min(self._grid_bytes, key=self._error)
                self._past *= 2

    def _error(self, capacity_bytes: float) -> float:
        return fmean(
            abs(alone * max(1.0, demand / capacity_bytes) / took - 1)
            for alone, demand, took in self._past
        )


class Trees(NamedTuple):
    """What predictors are told of the machine."""

    usual: LinkTree  # rates that a copy alone usually has; for those that do not learn
    best: LinkTree  # rates that it has at best: capacities


def predictors(trees: Trees) -> dict[str, Predictor]:
    """One of each."""
    return {
        "fixed": Fixed(trees.usual),
        "windowed-pcie": Windowed(trees.usual),
        "tree": TransferModel(trees.usual, learns=False),
        "headway": TransferModel(trees.best),
    }


class Scored(NamedTuple):
    """One copy and what was said of it."""

    in_flight: int  # when it started, itself included
    took_ns: float
    said_ns: dict[str, float]
    cost_ns: int  # of the forecast alone


class Scorer:
    """Tells every predictor of every start and end, and keeps what each said."""

    def __init__(self, trees: Trees) -> None:
        self._predictors = predictors(trees)
        self._open: dict[int, tuple[float, int, dict[str, float], int]] = {}
        self.scored: list[Scored] = []

    def start(self, copies: Sequence[Copy], now_ns: float) -> None:
        """Copies start at one instant; each prediction knows of all of them."""
        at_ns = round(now_ns)
        said = {
            c.copy_id: {n: p.started(c, at_ns) for n, p in self._predictors.items()} for c in copies
        }
        cost_ns = 0
        for name in ("tree", "headway"):
            model = self._predictors[name]
            assert isinstance(model, TransferModel)
            began_ns = time.perf_counter_ns()
            forecasts = model.forecast(None, at_ns)
            cost_ns = time.perf_counter_ns() - began_ns
            for forecast in forecasts:
                if forecast.copy_id in said:
                    said[forecast.copy_id][name] = forecast.left_ns
        in_flight = len(self._open) + len(copies)
        for copy in copies:
            self._open[copy.copy_id] = (now_ns, in_flight, said[copy.copy_id], cost_ns)

    def end(self, copy_id: int, now_ns: float) -> None:
        """A copy has ended."""
        started_ns, in_flight, said, cost_ns = self._open.pop(copy_id)
        self.scored.append(Scored(in_flight, now_ns - started_ns, said, cost_ns))
        for predictor in self._predictors.values():
            predictor.finished(copy_id, round(now_ns))

    @property
    def is_idle(self) -> bool:
        """Nothing is in flight."""
        return not self._open


def a_size(chance: Random) -> int:
    """Every doubling is as likely as the next."""
    return round(exp(chance.uniform(log(SIZE_MIN), log(SIZE_MAX))))


# -- emulated ----------------------------------------------------------------------------------


def emulated(pattern: str, count: int, seed: int) -> list[Scored]:
    """Copies on the emulated machine's buses."""
    machine = accelerator(MACHINE)
    devices = [DeviceName(f"emulated:{index}") for index in range(len(machine.device_links))]
    tree = machine.tree(devices)
    chance = Random(f"{seed}/transfer/{pattern}")
    groups = list(_groups(pattern, count, devices, chance))[::-1]
    buses = Buses(tree, machine.buses, Random(f"{seed}/buses"))
    scorer = Scorer(Trees(tree, tree))
    now_ns = 0.0
    while groups or not scorer.is_idle:
        step_ns = buses.next_ns()
        if groups and (pattern == "open" or scorer.is_idle):
            step_ns = min(step_ns, max(0.0, groups[-1][0] - now_ns))
        ended = buses.advance(step_ns)
        now_ns += step_ns
        for copy_id in ended:
            scorer.end(copy_id, now_ns)
        may_start = pattern == "open" or scorer.is_idle
        if groups and may_start and (groups[-1][0] <= now_ns + 1e-3 or pattern == "together"):
            _, copies = groups.pop()
            scorer.start(copies, now_ns)
            for copy in copies:
                buses.add(buses.move(copy.copy_id, copy.device, copy.direction, copy.size_bytes, 0))
    return scorer.scored[LEARNING_COUNT:]


def _groups(
    pattern: str, count: int, devices: Sequence[DeviceName], chance: Random
) -> Iterator[tuple[float, list[Copy]]]:
    """When copies start, and which."""
    at_ns, made = 0.0, 0
    while made < count:
        group = []
        for _ in range(chance.randint(1, COPIES_MAX) if pattern == "together" else 1):
            made += 1
            group.append(
                Copy(
                    copy_id=made,
                    device=chance.choice(devices),
                    direction=chance.choice(list(Direction)),
                    size_bytes=a_size(chance),
                )
            )
        yield at_ns, group
        at_ns += chance.expovariate(1 / 300_000)


# -- host --------------------------------------------------------------------------------------


class Recorded(NamedTuple):
    """A real copy."""

    process: int
    size_bytes: int
    started_ns: int
    ended_ns: int


def record(processes: int, seconds: float, gap_ns: float, seed: int) -> list[Recorded]:
    """So many processes copy, each from shared memory to its own part of it."""
    context = multiprocessing.get_context("fork")
    source = _buffer(BUFFER_BYTES)
    barrier, results = context.Barrier(processes), context.SimpleQueue()
    children = [
        context.Process(
            target=_copy_for, args=(index, source, barrier, results, seconds, gap_ns, seed)
        )
        for index in range(processes)
    ]
    for child in children:
        child.start()
    found: list[Recorded] = []
    for _ in children:
        found += [Recorded(*values) for values in results.get()]
    for child in children:
        child.join()
    source.close()
    return sorted(found, key=lambda one: one.started_ns)


def _buffer(size_bytes: int) -> mmap.mmap:
    """Shared memory whose pages are there."""
    descriptor = os.memfd_create("copies")
    os.ftruncate(descriptor, size_bytes)
    buffer = mmap.mmap(descriptor, size_bytes)
    os.close(descriptor)
    for start in range(0, size_bytes, 1 << 20):
        buffer[start : start + (1 << 20)] = b"\1" * (1 << 20)
    return buffer


def _copy_for(index, source, barrier, results, seconds, gap_ns, seed) -> None:  # noqa: ANN001
    """In a child: copies at random instants; one that is late starts at once."""
    chance = Random(f"{seed}/host/{index}")
    target = _buffer(BUFFER_BYTES)
    reads, writes = memoryview(source), memoryview(target)
    found: list[tuple[int, int, int, int]] = []
    barrier.wait()
    now_ns = due_ns = time.monotonic_ns()
    until_ns = now_ns + round(seconds * 1e9)
    at = 0
    while due_ns < until_ns:
        size_bytes = a_size(chance)
        at = at if at + size_bytes <= BUFFER_BYTES else 0
        now_ns = time.monotonic_ns()
        if due_ns > now_ns:
            time.sleep((due_ns - now_ns) / 1e9)
        started_ns = time.monotonic_ns()
        writes[at : at + size_bytes] = reads[at : at + size_bytes]
        found.append((index, size_bytes, started_ns, time.monotonic_ns()))
        at += size_bytes
        due_ns = max(due_ns + round(chance.expovariate(1 / gap_ns)) if gap_ns else 0, found[-1][3])
    results.put(found)


def host_trees(seconds: float, seed: int) -> Trees:
    """One node edge and a link a process, from a first part that is not scored.

    A process's rate and launch are those of one alone, usual and best; the node's rate is the one
    with which sharing it evenly comes nearest to what 2, 4 and 8 processes took.
    """
    alone = record(1, seconds, 0, seed)
    large = [one for one in alone if one.size_bytes > SIZE_MAX // 8]
    rates = sorted(one.size_bytes / (one.ended_ns - one.started_ns) * 1e9 for one in large)
    usual = rates[len(rates) // 2]
    small = [one for one in alone if one.size_bytes < 8 * SIZE_MIN]
    launch_ns = median(
        one.ended_ns - one.started_ns - one.size_bytes / usual * 1e9 for one in small
    )
    gap_ns = _alone_ns(usual, seed)
    parts = [record(count, seconds, gap_ns * count / 2, seed + count) for count in (2, 4, 8)]
    nodes = [usual * 2 ** (step / 4) for step in range(17)]
    node = min(nodes, key=lambda rate: _even_error(_tree(rate, usual, launch_ns), parts))
    best = rates[int(0.9 * (len(rates) - 1))]
    return Trees(_tree(node, usual, launch_ns), _tree(max(node, best), best, launch_ns))


def _tree(node: float, rate: float, launch_ns: float) -> LinkTree:
    links = [Link(name="node", in_bytes_per_s=node, out_bytes_per_s=node)]
    names = [f"process{index}" for index in range(COPIES_MAX)]
    links += [
        Link(name=name, parent="node", in_bytes_per_s=rate, out_bytes_per_s=rate) for name in names
    ]
    return LinkTree(
        links=tuple(links),
        devices={DeviceName(name): name for name in names},
        launch_ns=max(0, round(launch_ns)),
        chunk_bytes=2 * SIZE_MAX,
    )


def _even_error(tree: LinkTree, parts: Sequence[Sequence[Recorded]]) -> float:
    """MAPE of sharing evenly."""
    scorer = Scorer(Trees(tree, tree))
    for index, copies in enumerate(parts):
        replay(copies, scorer, index + 1)
    return fmean(abs(one.said_ns["tree"] / one.took_ns - 1) for one in scorer.scored)


def _alone_ns(rate: float, seed: int) -> float:
    """Mean duration of a copy alone."""
    return fmean(a_size(Random(f"{seed}/{index}")) for index in range(1000)) / rate * 1e9


def replay(copies: Sequence[Recorded], scorer: Scorer, run: int) -> None:
    """Tell the predictors of recorded copies in the order of their starts and ends."""
    steps: list[tuple[int, int, int]] = []
    for number, one in enumerate(copies):
        steps += [(one.started_ns, 1, number), (one.ended_ns, 0, number)]
    for at_ns, is_start, number in sorted(steps):
        one = copies[number]
        copy_id = run * 1_000_000 + number
        if is_start:
            device = DeviceName(f"process{one.process}")
            scorer.start(
                [
                    Copy(
                        copy_id=copy_id,
                        device=device,
                        direction=Direction.IN,
                        size_bytes=one.size_bytes,
                    )
                ],
                at_ns,
            )
        else:
            scorer.end(copy_id, at_ns)


def host(trees: Trees, seconds: float, seed: int) -> list[Scored]:
    """1 to 8 processes in turn, twice, played to predictors that keep what they learnt."""
    scorer = Scorer(trees)
    gap_ns = _alone_ns(trees.usual.links[1].in_bytes_per_s, seed)
    learning_count = 0
    for part in range(2):
        for processes in range(1, COPIES_MAX + 1):
            run = 10 * part + processes
            gap = gap_ns * max(1.0, processes / 2)
            copies = record(processes, seconds * (1 + part) / 2, gap, 100 * seed + run)
            replay(copies, scorer, run)
        learning_count = learning_count or len(scorer.scored)
    return scorer.scored[learning_count:]


# -- rows --------------------------------------------------------------------------------------


def rows_of(source: str, pattern: str, scored: Sequence[Scored], others_cores: float) -> list[Row]:
    """A row for each number in flight and predictor, and one for all."""
    rows: list[Row] = []
    groups: dict[str, list[Scored]] = {"1-8": [s for s in scored if s.in_flight <= COPIES_MAX]}
    for copies in range(1, COPIES_MAX + 1):
        groups[str(copies)] = [s for s in scored if s.in_flight == copies]
    for copies, found in groups.items():
        if len(found) < 20:  # fewer say nothing
            continue
        for predictor in found[0].said_ns:
            errors = [s.said_ns[predictor] / s.took_ns - 1 for s in found]
            sizes = sorted(abs(error) for error in errors)
            row: Row = {
                "source": source,
                "emulated": source == "emulated",
                "pattern": pattern,
                "copies": copies,
                "predictor": predictor,
                "mape": round(100 * fmean(sizes), 2),
                "p95_error": round(100 * sizes[int(0.95 * (len(sizes) - 1))], 2),
                "bias": round(100 * fmean(errors), 2),
                "under": round(100 * fmean(error < 0 for error in errors), 1),
                "count": len(found),
                "others_cores": others_cores,
            }
            if predictor == "headway":
                row["cost_us"] = round(median(s.cost_ns for s in found) / 1e3, 1)
            rows.append(row)
    return rows


def measured(work: Callable[[], list[Scored]], source: str, pattern: str) -> list[Row]:
    """Run one part, and note what other programs used meanwhile."""
    with Interval() as interval:
        scored = work()
    print(f"{source}, {pattern}: {len(scored)} copies", file=sys.stderr, flush=True)
    return rows_of(source, pattern, scored, interval.others_cores)


def main() -> int:
    """Run both parts and put the figures where they are asked for."""
    options = quick_parser(__doc__, "a fifth of the copies").parse_args()
    count, seconds = (2_000, 0.5) if options.quick else (6_000, 4.0)
    seeds = (1,) if options.quick else (1, 2, 3)
    rows: list[Row] = []
    for pattern in ("together", "open"):
        rows += measured(
            lambda pattern=pattern: [s for seed in seeds for s in emulated(pattern, count, seed)],
            "emulated",
            pattern,
        )
    trees = host_trees(seconds, 0)
    rows += measured(
        lambda: [s for seed in seeds for s in host(trees, seconds, seed)], "host", "open"
    )
    node, link, *_ = (link.in_bytes_per_s / 1e9 for link in trees.usual.links)
    cores = len(os.sched_getaffinity(0))
    publish(
        NAME,
        rows,
        COLUMNS,
        options,
        notes=[
            f"emulated: rows marked so come from the emulated machine `{MACHINE}`, whose law has "
            "another form than the predictor; they are no measurement of a bus.",
            f"host: one process copies {link:.2f} GB/s, launch {trees.usual.launch_ns} ns; sharing "
            f"evenly fits best with {node:.2f} GB/s for all together (8 times one process's or "
            f"more: no sharing was seen). A copy's time starts when its process has a core; beyond "
            f"{cores} processes the system's time slices fall into it.",
            "mape, p95_error, bias and under are percentages; cost_us is the median of one "
            "forecast of everything in flight.",
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
