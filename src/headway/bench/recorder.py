"""The recorder's process: `python -m headway.bench.recorder`, an order on stdin, news on stdout.

Serves real models in this process's engine and its workers, sends them open-loop Poisson arrivals,
and keeps the journal. A process and a session of its own, so that it can be put before whatever
else the machine does. Knows clocks and workers; never a predictor: those read what it left.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from subprocess import DEVNULL, Popen
from typing import Final

import msgspec
from msgspec import Struct

from headway.bench.before import measure_before
from headway.bench.inputs import ClassRequests, config_of, prepare_requests
from headway.bench.mix import LATE_MODEL, MIX
from headway.bench.orders import (
    ORDERS,
    Order,
    Progress,
    Recorded,
    RunOrder,
    Sidecar,
    SoloMeasured,
)
from headway.bench.plan import Arrival, Shift, plan_arrivals
from headway.bench.quiet import CpuUse, CpuWatch, precede_others
from headway.bench.rig import Rig
from headway.bench.setups import Setup
from headway.config import usable_cores
from headway.errors import HeadwayError
from headway.loadgen import precise_loop
from headway.runtime import InferReply
from headway.units import NS_PER_S

__all__ = ["main"]

_BUSY_LOOP: Final = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
_NEWS_PER_RUN: Final = 50

Tell = Callable[[Struct], None]


def main() -> int:
    """Carry out one order."""
    precede_others()
    order = ORDERS.decode(sys.stdin.buffer.read())
    try:
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            runner.run(_carry_out(order, _tell))
    except HeadwayError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _tell(news: Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(news) + b"\n")
    sys.stdout.buffer.flush()


async def _carry_out(order: Order, tell: Tell) -> None:
    solo = await measure_before(order)
    tell(solo)
    for run in order.runs:
        await _record(order, run, solo, tell)


async def _record(order: Order, run: RunOrder, solo: SoloMeasured, tell: Tell) -> None:
    """One recording, the quietest of a few tries; the files get their names when it is whole."""
    path = Path(run.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept: Sidecar | None = None
    for _ in range(order.tries_max):
        partial = path.with_name(path.name + ".partial")
        partial.unlink(missing_ok=True)
        sidecar = await _try(order, run, partial, solo, tell)
        if kept is None or _noise(sidecar) < _noise(kept):
            kept = sidecar
            text = msgspec.json.format(msgspec.json.encode(sidecar))
            path.with_suffix(".json").write_bytes(text)
            partial.rename(path)
        if _noise(kept) <= order.others_cores_max:
            break
    partial.unlink(missing_ok=True)
    assert kept is not None, "at least one try was asked for"
    tell(Recorded(path=run.path, busy_ratio=kept.busy, others_cores=kept.others_cores))


async def _try(
    order: Order, run: RunOrder, journal: Path, solo: SoloMeasured, tell: Tell
) -> Sidecar:
    requests = prepare_requests(Path(order.cache), seed=run.seed)
    plan = _plan(order.setup, run, solo)
    config = config_of(order.setup, Path(order.cache), usable_cores())
    async with Rig(config, journal=journal) as rig:
        player = _Player(rig, requests, run, order.setup, tell)
        with CpuWatch() as cpu:
            await player.play(plan)
    return _sidecar(order.setup, run, solo, player, cpu.use)


def _noise(sidecar: Sidecar) -> float:
    return sidecar.others_cores or 0.0


def _plan(setup: Setup, run: RunOrder, solo: SoloMeasured) -> list[Arrival]:
    after = run.utilisation if run.utilisation_after is None else run.utilisation_after
    return plan_arrivals(
        MIX,
        {kind.name: kind.median_ns for kind in solo.classes},
        work_ratios=(run.utilisation * solo.capacity_ratio, after * solo.capacity_ratio),
        cores_count=setup.cores_count,
        duration_ns=run.duration_ns,
        seed=run.seed,
        late_model=LATE_MODEL if run.shift is Shift.NEW_MODEL else None,
    )


def _sidecar(
    setup: Setup, run: RunOrder, solo: SoloMeasured, player: "_Player", use: CpuUse
) -> Sidecar:
    after = run.utilisation if run.utilisation_after is None else run.utilisation_after
    half_ns = run.duration_ns // 2
    return Sidecar(
        config=setup.name,
        seed=run.seed,
        utilisation=run.utilisation,
        utilisation_after=after,
        busy=use.own_cores / setup.cores_count,
        others_cores=use.others_cores,
        shift=run.shift,
        shift_at_ns=None if run.shift is Shift.NONE else player.began_at_ns + half_ns,
        load_at_ns=player.began_at_ns,
        duration_ns=run.duration_ns,
        cores=setup.cores_count,
        capacity_ratio=solo.capacity_ratio,
        solo=solo.classes,
    )


class _Player:
    """Sends a plan, whatever became of the requests before.

    With `Shift.SLOTS` at first only as many at once as there are cores; the others are held back,
    in order of their turn.
    """

    def __init__(
        self,
        rig: Rig,
        requests: Sequence[ClassRequests],
        run: RunOrder,
        setup: Setup,
        tell: Tell,
    ) -> None:
        self._rig = rig
        self._requests = requests
        self._run = run
        self._setup = setup
        self._tell = tell
        self._chance = Random(f"{run.seed}/requests")
        self._held: list[Arrival] = []
        self._running = 0
        self._limit: int | None = setup.cores_count if run.shift is Shift.SLOTS else None
        self._idle = asyncio.Event()
        self._error: HeadwayError | None = None
        self.began_at_ns = 0

    async def play(self, plan: Sequence[Arrival]) -> None:
        """Send every request when it is due, and wait until all have ended."""
        loop = asyncio.get_running_loop()
        self.began_at_ns, began_at_s = self._rig.engine.now_ns(), loop.time()
        step = max(1, len(plan) // _NEWS_PER_RUN)
        with ExitStack() as at_end:
            loop.call_at(began_at_s + self._run.duration_ns / 2 / NS_PER_S, self._turn, at_end)
            for index, arrival in enumerate(plan):
                await asyncio.sleep(began_at_s + arrival.at_ns / NS_PER_S - loop.time())
                self._arrive(arrival)
                if index % step == 0:
                    self._tell(Progress(path=self._run.path, done_ratio=index / len(plan)))
            while self._running:
                self._idle.clear()
                await self._idle.wait()
        if self._error is not None:
            raise self._error

    def _turn(self, at_end: ExitStack) -> None:
        """Half of the time has passed."""
        self._limit = None
        self._send_held()
        if self._run.shift is Shift.CORE:
            core = usable_cores()[self._setup.cores_count - 1]
            command = [sys.executable, "-c", _BUSY_LOOP, str(core)]
            process = Popen(command, stdin=DEVNULL)  # noqa: S603 - our own few words
            at_end.callback(process.wait)
            at_end.callback(process.kill)

    def _arrive(self, arrival: Arrival) -> None:
        self._held.append(arrival)
        self._send_held()

    def _send_held(self) -> None:
        while self._held and (self._limit is None or self._running < self._limit):
            self._send(self._held.pop(0))

    def _send(self, arrival: Arrival) -> None:
        kind = self._requests[arrival.class_index]
        self._running += 1
        self._rig.submit(kind.traffic.model, self._chance.choice(kind.inputs), self._on_end)

    def _on_end(self, end: InferReply | HeadwayError) -> None:
        self._running -= 1
        if isinstance(end, HeadwayError):
            self._error = end
        if self._limit is not None:
            self._send_held()
        if not self._running:
            self._idle.set()


if __name__ == "__main__":
    sys.exit(main())
