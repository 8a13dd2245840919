"""An open-loop client of any Open Inference Protocol server: a process that takes orders.

Orders come as lines of JSON on stdin, and are answered by a line each on stdout once they are
carried out; what became of each request stands in a file of samples. All bodies are made before the
first order. Knows a mix's classes and the protocol; never which server answers, but for parameters
that are put into every request as they stand.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

import msgspec

from headway.bench.inputs import prepare_requests
from headway.bench.mixes import Mix, find_mix
from headway.bench.quiet import precede_others
from headway.core import ModelName, TenantId, TierName
from headway.loadgen import Body, LoadLimits, RestClient, encode_body, play, precise_loop
from headway.report import samples_to_jsonl
from headway.workload import Arrival, Outcome

__all__ = ["ClassWords", "PlayOrder", "main"]

_WARM_BUDGET_NS = 60_000_000_000


class ClassWords(msgspec.Struct, frozen=True, kw_only=True):
    """How a class's requests are sent."""

    tier: str
    budget_ns: int
    parameters: dict[str, int]
    """Put into each request's JSON."""
    warm_parameters: dict[str, int]
    """Instead of them, before the run."""


class PlayOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    url: str
    mix: str
    classes: list[ClassWords]
    """One for each class of the mix."""
    plan: list[tuple[int, int]]
    """When, from the start, and which class."""
    samples: str
    """File to write."""
    warm_rounds: int = 3
    warm_at_once: int = 2
    """Requests of a class at once, so that every instance is warm."""


class Plan:
    """Arrivals that are known one by one, where a load generator wants a workload."""

    def __init__(self, mix: Mix, order: PlayOrder) -> None:
        self._mix = mix
        self._order = order

    def count(self) -> int:
        """Of all requests."""
        return len(self._order.plan)

    def arrivals(self) -> Iterator[Arrival]:
        """They, in order."""
        for at_ns, index in self._order.plan:
            words = self._order.classes[index]
            yield arrival_of(self._mix, index, at_ns, words.tier, words.budget_ns)


def arrival_of(mix: Mix, index: int, at_ns: int, tier: str, budget_ns: int) -> Arrival:
    """A request of a class."""
    one = mix.classes[index]
    return Arrival(
        at_ns=at_ns,
        stream=index,
        model=ModelName(one.model),
        tier=TierName(tier),
        tenant=TenantId("default"),
        rows=one.rows,
        budget_ns=budget_ns,
        priority=None,
    )


class ClassBodies:
    """Bodies by class, handed out in turn."""

    def __init__(self, pools: Sequence[Sequence[Body]]) -> None:
        self._turns = [cycle(pool) for pool in pools]

    def body(self, arrival: Arrival) -> Body:
        """See `headway.loadgen.BodySource`."""
        return next(self._turns[arrival.stream])


def with_parameters(body: Body, parameters: Mapping[str, int]) -> Body:
    """The same request with more said in its JSON."""
    if not parameters:
        return body
    head = msgspec.json.decode(body.data[: body.json_bytes])
    head["parameters"] |= parameters
    text = msgspec.json.encode(head)
    return Body(text + body.data[body.json_bytes :], len(text))


async def carry_out(order: PlayOrder, pools: Sequence[Sequence[Body]]) -> None:
    """Warm the server up, then play the plan and write what became of it."""
    mix = find_mix(order.mix)
    async with RestClient(order.url) as client:
        for index, words in enumerate(order.classes):
            body = with_parameters(pools[index][0], words.warm_parameters)
            arrival = arrival_of(mix, index, 0, words.tier, _WARM_BUDGET_NS)
            for _ in range(order.warm_rounds):
                answers = await asyncio.gather(
                    *(client.send(arrival, body) for _ in range(order.warm_at_once))
                )
                bad = [a for a in answers if a.outcome is not Outcome.COMPLETED]
                if bad:
                    raise SystemExit(f"{mix.classes[index].name} cannot be served: {bad[0]}")
        bodies = ClassBodies(
            [
                [with_parameters(body, words.parameters) for body in pool]
                for pool, words in zip(pools, order.classes, strict=True)
            ]
        )
        gc.collect()
        gc.freeze()
        run = await play(Plan(mix, order), bodies, client.send, limits=LoadLimits())
    samples_to_jsonl(run.samples, Path(order.samples))


def main() -> int:
    """Carry out orders until there are no more; arguments are the models' folder and the mixes."""
    precede_others()
    cache, *names = sys.argv[1:]
    pools = {}
    for name in names:
        kinds = [one.traffic for one in find_mix(name).classes]
        requests = prepare_requests(Path(cache), seed=0, mix=kinds)
        pools[name] = [[encode_body(inputs) for inputs in kind.inputs] for kind in requests]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=PlayOrder)
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            runner.run(carry_out(order, pools[order.mix]))
        sys.stdout.write("done\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
