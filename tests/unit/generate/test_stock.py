"""What ours is compared with: arrival order, strict priority, virtual token counters."""

from tests.generate_rig import GOLD, PLAIN, Rig, an_engine

from headway.generate import (
    FcfsOrder,
    PriorityOrder,
    SequenceParams,
    StockScheduler,
    StockSettings,
    VtcOrder,
)
from headway.generate.sequence import Sequence


def a_rig(order, *, step_tokens=256, reserves_prompt=True, **limits):
    """A rig on a stock scheduler."""
    settings = StockSettings(step_tokens=step_tokens, reserves_prompt=reserves_prompt)
    return Rig(StockScheduler(an_engine(**limits), order, settings))


def test_fcfs_lets_nobody_pass():
    """Gold that waits neither overtakes nor evicts."""
    rig = a_rig(FcfsOrder(), sequences_max=2)
    low = [rig.arrive(PLAIN, output=10) for _ in range(4)]
    gold = rig.arrive(GOLD, output=2)
    rig.run()
    assert rig.first_step[gold] > max(rig.first_step[number] for number in low)
    assert rig.preempts == {}


def test_priority_overtakes_in_the_line_and_evicts_nobody():
    """Gold is next when a slot is free, and not before: the fault that is to be shown."""
    rig = a_rig(PriorityOrder(), sequences_max=1)
    low = [rig.arrive(PLAIN, output=10) for _ in range(3)]
    rig.step(3)
    gold = rig.arrive(GOLD, output=2)
    rig.step(5)
    assert gold not in rig.first_step
    rig.run()
    assert rig.first_step[low[0]] < rig.first_step[gold] < rig.first_step[low[1]]
    assert rig.preempts == {}


def test_step_budget_is_constant_and_running_ones_come_first():
    """Prompts have what decoding leaves of it."""
    rig = a_rig(FcfsOrder(), step_tokens=64)
    rig.arrive(output=50)
    rig.step()
    rig.arrive(prompt=200)
    assert [rig.step().prefill_tokens for _ in range(4)] == [63, 63, 63, 11]


def test_fcfs_evicts_whoever_began_last():
    """Where one that runs needs a block and there is none."""
    rig = a_rig(FcfsOrder(), blocks=10)
    first = rig.arrive(prompt=40, output=60)
    second = rig.arrive(prompt=40, output=60)
    third = rig.arrive(prompt=40, output=60)
    rig.run()
    assert rig.preempts[third] >= 1
    assert first not in rig.preempts
    assert rig.tokens == {first: 60, second: 60, third: 60}


def test_priority_evicts_the_least_important_latest():
    """However early it began."""
    rig = a_rig(PriorityOrder(), blocks=10)
    low = rig.arrive(PLAIN, prompt=60, output=60)
    rig.step()
    gold = rig.arrive(GOLD, prompt=60, output=60)
    rig.run()
    assert rig.preempts == {low: 1}
    assert rig.tokens == {low: 60, gold: 60}


def test_nobody_begins_in_a_step_that_evicted():
    """The room that an eviction made is not given to somebody new at once."""
    rig = a_rig(FcfsOrder(), blocks=10, reserves_prompt=False)
    for _ in range(4):
        rig.arrive(prompt=40, output=60)
    rig.run()
    evicting = [plan for plan in rig.plans if plan.preempted]
    assert evicting
    assert all(work.tokens == 1 or work.start > 0 for plan in evicting for work in plan.work)


def a_sequence(number, tag, prompt=10):
    """One that waits."""
    params = SequenceParams(
        sequence_id=number,
        model="llm",
        tag=tag,
        terms=PLAIN,
        arrived_at_ns=number,
        prompt_tokens=prompt,
        output_tokens_max=10,
    )
    return Sequence(params, None)


def test_vtc_serves_the_smallest_counter():
    """Charged for prompts as they begin, and for tokens as they come, over the client's weight."""
    order = VtcOrder(1.0, 2.0, {"heavy": 2.0})
    sequences = {tag: a_sequence(number, tag) for number, tag in enumerate(("light", "heavy"), 1)}
    for sequence in sequences.values():
        order.add(sequence)
    order.served(sequences["light"], 10, 0)
    order.served(sequences["heavy"], 10, 4)
    assert (order.counter("light"), order.counter("heavy")) == (10.0, 9.0)
    assert order.peek().tag == "heavy"


def test_vtc_lifts_whoever_comes_back():
    """To the smallest counter of those who wait, else to that of whoever left last."""
    order = VtcOrder()
    busy = a_sequence(1, "busy")
    order.add(busy)
    order.served(busy, 500, 0)
    order.add(a_sequence(2, "new"))
    assert order.counter("new") == 500.0
    order.remove(busy)
    order.remove(order.peek())
    order.served(busy, 300, 0)
    order.add(a_sequence(3, "later"))
    assert order.counter("later") == 500.0


def test_vtc_halves_a_flood():
    """Eight requests behind a flood of 64 begin with the next slots that are free."""
    rig = a_rig(VtcOrder(), sequences_max=8)
    for _ in range(64):
        rig.arrive(output=32, tag="flood")
    rig.step()
    small = [rig.arrive(output=32, tag="small") for _ in range(8)]
    rig.run()
    assert max(rig.first_step[number] for number in small) == 32
