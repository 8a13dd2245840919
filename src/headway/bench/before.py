"""What is measured before a load: each class alone, and what the cores can do when never idle.

Part of the recorder's process. Knows an order and a rig; never a predictor.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Final, NamedTuple

from headway.bench.inputs import ClassRequests, config_of, prepare_requests
from headway.bench.orders import Order, SoloClass, SoloMeasured
from headway.bench.quiet import CpuWatch
from headway.bench.rig import Rig
from headway.config import usable_cores
from headway.core import (
    BatchFinished,
    BatchId,
    Command,
    Dispatch,
    Event,
    Request,
    RequestArrived,
    RequestId,
)
from headway.report import percentile
from headway.units import NS_PER_S

__all__ = ["SoloWatch", "measure_alone", "measure_before", "measure_capacity"]

_SOLO_WARM: Final = 3


class _Alone(NamedTuple):
    """One execution with the machine to itself."""

    request: Request
    execution_ns: int
    overhead_ns: int
    """What its service took beside its stages."""


class SoloWatch:
    """An observer that keeps each execution with the request that it was of."""

    def __init__(self) -> None:
        self.executions: list[_Alone] = []
        """A batch is one request here."""
        self._requests: dict[RequestId, Request] = {}
        self._batches: dict[BatchId, tuple[Request, int]] = {}

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Look at one step."""
        if isinstance(event, RequestArrived):
            self._requests[event.request.request_id] = event.request
        elif isinstance(event, BatchFinished):
            request, started_at_ns = self._batches.pop(event.batch_id)
            stages_ns = event.transfer_in_ns + event.execution_ns + event.transfer_out_ns
            overhead_ns = max(0, now_ns - started_at_ns - stages_ns)
            self.executions.append(_Alone(request, event.execution_ns, overhead_ns))
        for command in commands:
            if isinstance(command, Dispatch):
                request = self._requests.pop(command.request_ids[0])
                self._batches[command.batch_id] = (request, now_ns)


async def measure_before(order: Order) -> SoloMeasured:
    """Each class alone, one request at a time; then as many at once as there are slots."""
    requests = prepare_requests(Path(order.cache), seed=0)
    watch = SoloWatch()
    config = config_of(order.setup, Path(order.cache), usable_cores())
    async with Rig(config, observers=[watch]) as rig:
        with CpuWatch() as cpu:
            classes = await measure_alone(rig, watch, requests, order.solo_rounds)
            capacity_ratio = await measure_capacity(
                rig,
                requests,
                [kind.median_ns for kind in classes],
                slots=order.setup.cores_count * order.setup.slots_per_core,
                duration_ns=order.capacity_ns,
            )
    return SoloMeasured(
        classes=classes, capacity_ratio=capacity_ratio, others_cores=cpu.use.others_cores
    )


async def measure_alone(
    rig: Rig, watch: SoloWatch, requests: Sequence[ClassRequests], rounds: int
) -> tuple[SoloClass, ...]:
    """Class after class, over and over: what disturbs the machine disturbs all alike."""
    for index in range(_SOLO_WARM + rounds):
        for kind in requests:
            await rig.infer(kind.traffic.model, kind.inputs[index % len(kind.inputs)])
    measured = watch.executions[_SOLO_WARM * len(requests) :]
    return tuple(
        _solo_class(kind.traffic.name, measured[index :: len(requests)])
        for index, kind in enumerate(requests)
    )


async def measure_capacity(
    rig: Rig,
    requests: Sequence[ClassRequests],
    solo_ns: Sequence[int],
    *,
    slots: int,
    duration_ns: int,
) -> float:
    """Work done at its time alone over the processor time that it took, with every slot full.

    Over processor time and not over the time that passed: what other programs take meanwhile, and
    the slots that run dry at the end, say nothing of what the cores can do.
    """
    chance = Random("capacity")
    weights = [kind.traffic.weight for kind in requests]
    loop = asyncio.get_running_loop()
    began_at_s = loop.time()
    work_ns = 0

    async def keep_sending() -> None:
        nonlocal work_ns
        while loop.time() < began_at_s + duration_ns / NS_PER_S:
            (index,) = chance.choices(range(len(requests)), weights)
            await rig.infer(requests[index].traffic.model, requests[index].inputs[0])
            work_ns += solo_ns[index]

    with CpuWatch() as cpu:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(slots):
                tasks.create_task(keep_sending())
    used_ns = cpu.use.own_cores * (loop.time() - began_at_s) * NS_PER_S
    return work_ns / max(1.0, used_ns)


def _solo_class(name: str, alone: Sequence[_Alone]) -> SoloClass:
    request = alone[0].request
    times_ns = sorted(one.execution_ns for one in alone)
    p95_ns = percentile(times_ns, 0.95)
    assert p95_ns is not None, "at least one round was asked for"
    return SoloClass(
        name=name,
        model=request.model,
        bucket=request.bucket,
        rows=request.rows,
        median_ns=round(median(times_ns)),
        p95_ns=p95_ns,
        overhead_ns=round(median(one.overhead_ns for one in alone)),
        payload_bytes=request.payload_bytes,
        runs=len(alone),
    )
