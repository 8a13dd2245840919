"""The load generator's process: `python -m headway.demo.player`, an order on stdin, news on stdout.

A process of its own, so that what the demo draws on the screen delays no request. Knows how real
requests are made and how they are sent. Never what the demo makes of the samples.
"""

import asyncio
import sys
from pathlib import Path
from random import Random
from time import monotonic_ns

import msgspec
from msgspec import Struct

from headway.core import ModelName, TierName
from headway.demo.assets import DemoAssets
from headway.demo.orders import ORDERS, Finished, MeasureCapacity, Playing, PlayWorkload, Started
from headway.demo.samples import sample_makers
from headway.errors import HeadwayError
from headway.loadgen import (
    InputMaker,
    Progress,
    RestClient,
    precise_loop,
    prepare_bodies,
    run_load,
    stacked,
)
from headway.report import samples_to_jsonl
from headway.workload import workload_from_dict

__all__ = ["main"]


def main() -> int:
    """Carry out one order."""
    order = ORDERS.decode(sys.stdin.buffer.read())
    try:
        if isinstance(order, PlayWorkload):
            _tell(_play(order))
        else:
            _tell(_measure_capacity(order))
    except HeadwayError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _play(order: PlayWorkload) -> Finished:
    workload = workload_from_dict(order.workload)
    planned = workload.count()
    run = run_load(
        workload,
        order.url,
        makers=_makers(order.cache),
        tier_budgets_ns={TierName(name): ns for name, ns in order.budgets_ns.items()},
        on_start=lambda: _tell(Started(planned)),
        on_progress=_tell_progress,
    )
    samples_to_jsonl(run.samples, Path(order.samples))
    return Finished(done=len(run.samples), elapsed_ns=run.elapsed_ns)


def _measure_capacity(order: MeasureCapacity) -> Finished:
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        return runner.run(_send_as_done(order))


async def _send_as_done(order: MeasureCapacity) -> Finished:
    """Count what is done in the time given; what then still runs does not count."""
    workload = workload_from_dict(order.workload)
    bodies = prepare_bodies(
        workload, _makers(order.cache), chance=Random(f"{workload.seed}/bodies")
    )
    arrivals = workload.arrivals()
    done = 0

    async def send_one_after_another(client: RestClient) -> None:
        nonlocal done
        for arrival in arrivals:
            await client.send(arrival, bodies.body(arrival))
            done += 1

    async with RestClient(order.url) as client:
        _tell(Started(0))
        began_at_ns = monotonic_ns()
        try:
            async with asyncio.timeout(order.duration_ns / 1e9), asyncio.TaskGroup() as tasks:
                for _ in range(order.in_flight):
                    tasks.create_task(send_one_after_another(client))
        except TimeoutError:
            pass
        return Finished(done=done, elapsed_ns=monotonic_ns() - began_at_ns)


def _makers(cache: str) -> dict[ModelName, InputMaker]:
    makers = sample_makers(DemoAssets(Path(cache)))
    return {ModelName(name): stacked(maker) for name, maker in makers.items()}


def _tell_progress(progress: Progress) -> None:
    _tell(
        Playing(
            elapsed_ns=progress.elapsed_ns,
            done=progress.done,
            tiers={name: (tier.done, tier.violations) for name, tier in progress.tiers.items()},
        )
    )


def _tell(news: Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(news) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
