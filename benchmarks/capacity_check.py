"""Estimates of capacity against simulation: waits, requests at once, and how many devices it takes.

First one model on k equal devices, over loads, kinds of arrivals and scatters of service times: the
wait that is exceeded once in a hundred, and how many requests are in the system at once, by the
formulas of `headway plan capacity` and played with the scheduler's own code. Then whole workloads:
how many devices the bound asks for, and how many keep every objective when played.

Usage: `python benchmarks/capacity_check.py [--quick] [--format table|json]`. With `--format json`
the document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/capacity_check.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import product as combinations
from random import Random

from harness import BENCHMARKS, Row, publish, quick_parser

from headway.bench import policy_maker
from headway.config import load_sharing
from headway.core import (
    Command,
    Complete,
    DeviceName,
    DeviceParams,
    Dispatch,
    Event,
    KernelParams,
    ModelName,
    ModelParams,
    RequestArrived,
    SlotClass,
    TierName,
)
from headway.plan import PlayLimits, capacity, wait_of
from headway.policy import fifo
from headway.predict import Profile, Recipe, build_predictor
from headway.sim import Scenario, SimulatedModel, SimulatedTier, SoloTimes
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Gamma, Poisson, Stream, Workload

NAME = "capacity_check"
SERVICE_NS = 10 * NS_PER_MS
BUDGET_NS = 600 * NS_PER_S
"""Nobody is late, so that everybody's wait is seen."""
SERVERS = (1, 2, 4, 16)
LOADS = (0.5, 0.7, 0.85, 0.95)
ARRIVALS_CV = (0.5, 1.0, 2.0)
SERVICE_CV = (0.0, 1.0)
COLUMNS = (
    *("what", "servers", "load", "arrivals_cv", "service_cv", "p99_estimate_ms", "p99_played_ms"),
    *("at_once_estimate", "at_once_played", "product", "by_load", "by_bound", "by_simulation"),
)
NOTES = (
    "Waits are of one model whose batches are single requests of 10 ms, on equal devices in "
    "arrival order; simulated in virtual time. Gaps between arrivals are gamma, services fixed "
    "or exponential.",
    "The formulas are Erlang's for k servers, scaled by half the sum of the squared coefficients "
    "of variation: exact for independent arrivals and exponential times, an approximation "
    "elsewhere.",
)
EXAMPLE = BENCHMARKS.parent / "examples" / "plan" / "onprem.yaml"


class AtOnce:
    """How many requests are in the system, on average over the time in which they arrive."""

    def __init__(self, duration_ns: int) -> None:
        self._duration_ns = duration_ns
        self._count = 0
        self._last_ns = 0
        self._sum_ns = 0

    def __call__(self, now_ns: int, event: Event, commands: Sequence[Command]) -> None:
        """Take one kernel step."""
        until_ns = min(now_ns, self._duration_ns)  # timers go on when all is over
        self._sum_ns += self._count * (until_ns - self._last_ns)
        self._last_ns = until_ns
        self._count += isinstance(event, RequestArrived)
        self._count -= sum(isinstance(command, Complete) for command in commands)

    def mean(self) -> float:
        """Over the whole time."""
        return self._sum_ns / self._duration_ns


def main() -> int:
    """Compare and publish."""
    parser = quick_parser(__doc__, "two loads, one and four devices, fewer requests")
    options = parser.parse_args()
    requests = 10_000 if options.quick else 50_000
    servers = (1, 4) if options.quick else SERVERS
    loads = (0.7, 0.85) if options.quick else LOADS
    rows = [
        waits(*case, requests) for case in combinations(servers, loads, ARRIVALS_CV, SERVICE_CV)
    ]
    rows += workloads(4_000 if options.quick else 20_000)
    publish(NAME, rows, COLUMNS, options, notes=NOTES)
    return 0


def waits(servers: int, load: float, arrivals_cv: float, service_cv: float, requests: int) -> Row:
    """One model on some devices."""
    rate = load * servers * NS_PER_S / SERVICE_NS
    wait = wait_of(
        rate_rps=rate,
        service_s=SERVICE_NS / NS_PER_S,
        servers=servers,
        arrivals_cv=arrivals_cv,
        service_cv=service_cv,
    )
    duration_ns = round(requests / rate * NS_PER_S)
    at_once = AtOnce(duration_ns)
    scenario = pool(servers, rate, arrivals_cv, duration_ns)
    chance = Random(f"{servers}/{load}/{arrivals_cv}/{service_cv}/service")
    waited: list[int] = []
    arrived: dict[object, int] = {}

    def observe(now_ns: int, event: Event, commands: list[Command]) -> None:
        at_once(now_ns, event, commands)
        if isinstance(event, RequestArrived):
            arrived[event.request.request_id] = now_ns
        for command in commands:
            if isinstance(command, Dispatch):
                waited.extend(now_ns - arrived.pop(name) for name in command.request_ids)

    def service_ns(_: Dispatch) -> int:
        # Exponential where the coefficient is 1, as the formula has it; else what it always takes.
        return round(chance.expovariate(1 / SERVICE_NS)) + 1 if service_cv else SERVICE_NS

    policy = fifo(
        build_predictor(Recipe(kind="fixed", profiles=scenario.profiles()), scenario.params.devices)
    )
    scenario.play(policy, observe=observe, executor=SoloTimes(service_ns))
    waited.sort()
    return {
        "what": "wait",
        "servers": servers,
        "load": load,
        "arrivals_cv": arrivals_cv,
        "service_cv": service_cv,
        "requests": len(waited),
        "p99_estimate_ms": round(wait.quantile_s(0.99) * 1e3, 2),
        "p99_played_ms": round(waited[int(0.99 * len(waited))] / NS_PER_MS, 2),
        "at_once_estimate": round(rate * (wait.mean_s + SERVICE_NS / NS_PER_S), 3),
        "at_once_played": round(at_once.mean(), 3),
    }


def pool(servers: int, rate: float, arrivals_cv: float, duration_ns: int) -> Scenario:
    """Equal devices, one batch at a time each."""
    devices = tuple(
        DeviceParams(name=DeviceName(f"gpu:{index}"), slot_lanes=(0,)) for index in range(servers)
    )
    params = ModelParams(
        name=ModelName("m"),
        devices=tuple(device.name for device in devices),
        queue_requests_max=1 << 20,
    )
    tier = TierName("t")
    arrivals = Poisson(rate) if arrivals_cv == 1.0 else Gamma(rate, arrivals_cv)
    stream = Stream(model=params.name, tier=tier, arrivals=arrivals)
    return Scenario(
        params=KernelParams(devices=devices, requests_max=1 << 20),
        models=(SimulatedModel(params, Profile({1: SERVICE_NS}), 0.0),),
        tiers={tier: SimulatedTier(0, BUDGET_NS, SlotClass.HIGH)},
        weights=None,
        load_ns=0,
        faults=(),
        workload=Workload(streams=(stream,), duration_ns=duration_ns, seed=1),
    )


def workloads(requests: int) -> Iterator[Row]:
    """The example's models on as many of one product as they need."""
    demand, fleet = load_sharing(EXAMPLE)
    for name in ("A100-80GB", "H100-SXM5-80GB"):
        like = next(device for device in fleet.devices if device.product == name)
        models = tuple(model for model in demand.models if model.gang_devices == 1)
        answer = capacity(
            type(demand)(models=models, isolation=demand.isolation, chains=demand.chains),
            fleet,
            like,
            policy_maker({"kind": "headway"}),
            limits=PlayLimits(requests_max=requests),
        )
        yield {
            "what": "workload",
            "product": name,
            "by_load": answer.least_by_load,
            "by_bound": answer.by_bound,
            "by_simulation": answer.by_simulation,
        }


if __name__ == "__main__":
    sys.exit(main())
