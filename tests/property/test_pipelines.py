"""Any graph of steps gives what its steps give one after another, and each call ends once."""

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine_rig import TIERS
from tests.pipeline_rig import (
    MS,
    FunctionEngine,
    Tally,
    a_list,
    a_number,
    a_pipe_call,
    a_pipeline,
    a_step,
    numbers_of,
    pipelines_on,
    the_number,
)

from headway.errors import ExecutorError, HeadwayError, RequestCancelledError
from headway.executors import is_of_list, item_name
from headway.testing import run_virtual

SUM, SPREAD, EACH, JOIN = "sum", "spread", "each", "join"


class Drawn:
    """A random graph, and what it should give.

    Numbers are summed (`sum`), made into a list (`spread`), raised item by item (`each`), and lists
    are folded so that the order of their items shows (`join`).
    """

    def __init__(self, chance: Random) -> None:
        self.kinds: dict[str, str] = {}
        self.takes: dict[str, list[str]] = {}
        numbers, lists = ["input.x"], []
        for index in range(chance.randint(1, 9)):
            name = f"s{index}"
            kind = chance.choice([SUM, SUM, SPREAD, *([EACH, JOIN] if lists else [])])
            if kind in (SUM, SPREAD):
                taken = chance.sample(numbers, chance.randint(1, min(3, len(numbers))))
            else:
                taken = [chance.choice(lists)]
            self.kinds[name], self.takes[name] = kind, taken
            (numbers if kind in (SUM, JOIN) else lists).append(f"{name}.y")
        ends = [name for name in numbers if name != "input.x"]
        self.results = chance.sample(ends, chance.randint(1, len(ends))) if ends else []

    @property
    def steps(self):
        return [
            a_step(
                name,
                each=self.takes[name][0] if kind == EACH else None,
                **{f"i{index}": text for index, text in enumerate(self.takes[name])},
            )
            for name, kind in self.kinds.items()
        ]

    def models(self):
        return {name: _COMPUTES[kind] for name, kind in self.kinds.items()}

    def answer(self, x: float) -> dict[str, float]:
        """One step after another, as they were drawn."""
        known: dict[str, object] = {"input.x": x}
        for name, kind in self.kinds.items():
            given = [known[text] for text in self.takes[name]]
            known[f"{name}.y"] = {
                SUM: lambda given=given: 1 + sum(given),
                SPREAD: lambda given=given: _items(sum(given)),
                EACH: lambda given=given: [1 + item for item in given[0]],
                JOIN: lambda given=given: _fold(given[0]),
            }[kind]()
        return {text: known[text] for text in self.results}


def _items(total: float) -> list[float]:
    return [float(i) for i in range(int(total) % 4)]


def _fold(items: list[float]) -> float:
    return float(sum((index + 1) * item for index, item in enumerate(items)))


def _spread(call):
    return a_list("y", _items(sum(numbers_of(call).values())))


def _join(call):
    numbers = {name: value for name, value in numbers_of(call).items() if is_of_list(name)}
    return [a_number(_fold([numbers[item_name("i0", i)] for i in range(len(numbers))]), "y")]


_COMPUTES = {
    SUM: lambda call: [a_number(1 + sum(numbers_of(call).values()), "y")],
    EACH: lambda call: [a_number(1 + sum(numbers_of(call).values()), "y")],
    SPREAD: _spread,
    JOIN: _join,
}


def a_drawn(seed: int):
    """A graph with an output, and its plan."""
    chance = Random(f"{seed}/graph")
    drawn = Drawn(chance)
    while not drawn.results:
        drawn = Drawn(chance)
    outputs = {f"out_r{index}": text for index, text in enumerate(drawn.results)}
    steps = drawn.steps
    chance.shuffle(steps)
    return drawn, a_pipeline(*steps, **outputs)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), values=st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_graph_gives_what_its_steps_give_in_sequence(seed, values):
    """However steps of several calls end up in time, each call gets its own answer."""

    async def main():
        drawn, plan = a_drawn(seed)
        chance = Random(f"{seed}/times")
        engine = FunctionEngine(drawn.models(), took_ns=lambda call: chance.randint(0, 9) * MS)
        tally = Tally()
        pipes = pipelines_on(engine, plan, tally=tally)
        replies = await asyncio.gather(
            *(pipes.infer(a_pipe_call(engine, float(value))) for value in values)
        )
        for value, reply in zip(values, replies, strict=True):
            expected = [float(number) for number in drawn.answer(float(value)).values()]
            assert [the_number(tensor) for tensor in reply.outputs] == expected
        assert not +tally.now
        assert not -tally.now

    run_virtual(main())


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_every_call_ends_once_whatever_fails_or_is_cancelled(seed):
    """With steps that fail and clients that leave, nothing is answered twice and nothing left."""

    async def main():
        drawn, plan = a_drawn(seed)
        chance = Random(f"{seed}/faults")

        def may_fail(compute):
            def run(call):
                if chance.random() < 0.15:
                    raise ExecutorError("by chance")
                return compute(call)

            return run

        engine = FunctionEngine(
            {name: may_fail(compute) for name, compute in drawn.models().items()},
            took_ns=lambda call: chance.randint(0, 9) * MS,
        )
        tally, ends = Tally(), {}
        pipes = pipelines_on(engine, plan, tally=tally)
        for _ in range(6):
            told = []
            run_id = pipes.submit(a_pipe_call(engine, 1.0), told.append)
            ends[run_id] = told
            if chance.random() < 0.4:
                engine.loop.call_later(chance.randint(0, 30) / 1e3, pipes.cancel, run_id)
        await asyncio.sleep(1)
        assert all(len(told) == 1 for told in ends.values())
        expected = [float(number) for number in drawn.answer(1.0).values()]
        for (end,) in ends.values():
            if isinstance(end, HeadwayError):
                assert isinstance(end, ExecutorError | RequestCancelledError)
            else:
                assert [the_number(tensor) for tensor in end.outputs] == expected
        assert engine.under_way == []
        assert pipes._runs == {}
        assert not +tally.now
        assert not -tally.now

    run_virtual(main())


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_the_budget_never_exceed_what_is_left(seed):
    """A step's deadline is at most the call's, and no step is wanted for longer than the call."""

    async def main():
        drawn, plan = a_drawn(seed)
        chance = Random(f"{seed}/times")
        engine = FunctionEngine(drawn.models(), took_ns=lambda call: chance.randint(1, 9) * MS)
        pipes = pipelines_on(engine, plan)
        for _ in range(3):
            began_at_ns = engine.now_ns()
            await pipes.infer(a_pipe_call(engine))
            for asked in engine.asked.values():
                call = asked.call
                if call.arrived_at_ns >= began_at_ns:
                    ends_at_ns = began_at_ns + TIERS[plan.tier].budget_ns
                    assert call.arrived_at_ns + call.budget_ns <= ends_at_ns
                    assert call.arrived_at_ns + call.budget_ns + call.late_ns <= ends_at_ns
                    assert call.budget_ns > 0

    run_virtual(main())
