"""The recorder's process: `python -m headway.bench.recorder`, an order on stdin, news on stdout.

Serves real models in this process's engine and its workers, sends them open-loop Poisson arrivals,
and keeps the journal. A process and a session of its own, so that it can be put before whatever
else the machine does. Knows clocks and workers; never a predictor: those read what it left.
"""

import sys
from pathlib import Path

import msgspec

from headway.bench.before import measure_before
from headway.bench.inputs import config_of, prepare_requests
from headway.bench.mix import LATE_MODEL, MIX
from headway.bench.orders import (
    ORDERS,
    Order,
    Recorded,
    RunOrder,
    Sidecar,
    SoloMeasured,
)
from headway.bench.plan import Arrival, Shift, plan_arrivals
from headway.bench.player import Player
from headway.bench.process import Tell, carry_out_ordered
from headway.bench.quiet import CpuUse, CpuWatch
from headway.bench.rig import Rig
from headway.bench.setups import Setup
from headway.config import usable_cores

__all__ = ["main"]


def main() -> int:
    """Carry out one order."""
    return carry_out_ordered(ORDERS, _carry_out)


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
        player = Player(rig, requests, run, order.setup, tell)
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
    setup: Setup, run: RunOrder, solo: SoloMeasured, player: Player, use: CpuUse
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


if __name__ == "__main__":
    sys.exit(main())
