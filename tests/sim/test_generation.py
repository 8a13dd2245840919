"""The step scheduler in virtual time: a committed run, tiers, prefixes, Little's law."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from headway.errors import InternalError
from headway.generate import (
    Capacity,
    EngineLimits,
    FcfsOrder,
    HeadwayScheduler,
    PriorityOrder,
    RequestMix,
    StepLaw,
    StockScheduler,
    StockSettings,
    TierTerms,
)
from headway.sim import Generation, GenerationRequest, tier_figures

MS = 1_000_000
S = 1_000 * MS
GOLDEN = Path(__file__).parent / "golden" / "generation.jsonl"
LAW = StepLaw()
LIMITS = EngineLimits(blocks=3_000)
GOLD = TierTerms(name="gold", priority=0, ttft_ns=300 * MS, tpot_ns=50 * MS)
SILVER = TierTerms(name="silver", priority=1, ttft_ns=500 * MS, tpot_ns=100 * MS)
BRONZE = TierTerms(name="bronze", priority=2, ttft_ns=10 * S, tpot_ns=200 * MS, is_gated=True)


def lengths(count, *, prompt, output, seed="lengths"):
    """Prompts and outputs around means, with the long tails that recorded ones have."""
    random = Random(f"generation/{seed}")
    return [
        (
            max(8, min(6_000, int(random.lognormvariate(0.0, 0.9) * prompt / 1.5))),
            max(4, min(1_500, int(random.lognormvariate(0.0, 0.8) * output / 1.38))),
        )
        for _ in range(count)
    ]


def poisson(sizes, rate_rps, terms, *, seed="arrivals"):
    """Requests of these sizes at a rate, terms dealt out in turn."""
    random, at_s = Random(f"generation/{seed}"), 0.0
    for number, (prompt, output) in enumerate(sizes):
        at_s += random.expovariate(rate_rps)
        tier = terms[number % len(terms)]
        yield GenerationRequest(
            arrived_at_ns=int(at_s * S),
            tag=tier.name,
            terms=tier,
            prompt_tokens=prompt,
            output_tokens=output,
            output_tokens_max=2_048,
        )


# -- a committed run -------------------------------------------------------------------------------


def the_run():
    """Plans of forty requests in a memory that is too small: chunks, pauses, victims, loads."""
    plans = []
    filler = msgspec.structs.replace(BRONZE, is_gated=False)
    limits = EngineLimits(blocks=100, sequences_max=8, step_tokens_max=512)
    requests = [
        msgspec.structs.replace(
            request,
            prefix_keys=(1, 2, 3, 4)[: request.prompt_tokens // 16] if number % 3 == 0 else (),
            cancelled_at_ns=request.arrived_at_ns + 400 * MS if number % 17 == 5 else None,
            output_tokens_max=400,
        )
        for number, request in enumerate(
            poisson(lengths(40, prompt=250, output=40), 12.0, (GOLD, SILVER, filler, filler))
        )
    ]
    Generation(
        HeadwayScheduler(limits), LAW, observe=lambda plan, begun, ended: plans.append(plan)
    ).run(requests)
    return plans


def test_golden_generation_comes_out_the_same():
    """The scheduler decides today what it decided when the run was committed."""
    lines = [msgspec.json.encode(plan) for plan in the_run()]
    assert lines == GOLDEN.read_bytes().splitlines()


def test_golden_generation_has_a_bit_of_everything():
    """A run that covers little would guard little."""
    plans = the_run()
    work = [work for plan in plans for work in plan.work]
    assert any(each.start > 0 and each.tokens > 1 for each in work)
    assert {preempted.way for plan in plans for preempted in plan.preempted} == {
        "recompute",
        "swap",
    }
    assert any(plan.loads for plan in plans)
    assert max(len(plan.work) for plan in plans) == 8


# -- what the policy is for ------------------------------------------------------------------------


def test_tiers_are_kept_under_more_than_the_engine_can_do():
    """At 1.2 times its capacity gold and silver are in time, and the run ends no later."""
    sizes = lengths(500, prompt=1_000, output=250)
    terms = (GOLD, SILVER, BRONZE, BRONZE, BRONZE)
    runs = {}
    for scheduler in (
        HeadwayScheduler(LIMITS),
        StockScheduler(LIMITS, FcfsOrder(), StockSettings(step_tokens=512)),
        StockScheduler(LIMITS, PriorityOrder(), StockSettings(step_tokens=512)),
    ):
        runs[scheduler.name] = Generation(scheduler, LAW).run(poisson(sizes, 7.0, terms))
    ttft = {
        (name, tier): tier_figures(run.samples, tier).ttft_p99_s
        for name, run in runs.items()
        for tier in ("gold", "silver", "bronze")
    }
    assert ttft["headway", "gold"] < 0.6 < ttft["priority", "gold"]
    assert ttft["headway", "silver"] < 1.1 < ttft["priority", "silver"]
    assert ttft["headway", "bronze"] <= ttft["priority", "bronze"]
    assert runs["headway"].makespan_ns <= 1.02 * runs["fcfs"].makespan_ns


def test_law_that_is_wrong_by_half_is_learnt_soon_enough():
    """A scheduler that begins with a wrong law does nearly as well as one that knows."""
    sizes = lengths(300, prompt=1_000, output=250)
    wrong = StepLaw(base_ns=18e6, prefill_ns=100_000.0, context_ns=30.0)
    worst_s = []
    for law in (LAW, wrong):
        limits = EngineLimits(blocks=3_000, law=law)
        run = Generation(HeadwayScheduler(limits), LAW).run(
            poisson(sizes, 5.0, (GOLD, SILVER, BRONZE))
        )
        worst_s.append(tier_figures(run.samples, "gold").ttft_p99_s)
    assert worst_s[1] <= 1.15 * worst_s[0]


def test_shared_prefixes_are_computed_once():
    """Of forty conversations on one document, its blocks go through the model once or nearly."""
    keys = tuple(range(100))
    requests = [
        GenerationRequest(
            arrived_at_ns=number * 200 * MS,
            tag="a",
            terms=BRONZE,
            prompt_tokens=1_600 + 50,
            output_tokens=40,
            output_tokens_max=100,
            prefix_keys=keys,
        )
        for number in range(40)
    ]
    run = Generation(HeadwayScheduler(LIMITS), LAW).run(requests)
    assert run.prefill_tokens <= 1_650 + 39 * 50 + 2 * 1_650


# -- Little's law ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "output"), [(1_000, 250), (400, 400), (1_500, 150)], ids=["chat", "write", "read"]
)
@pytest.mark.parametrize("part", [0.4, 0.7])
def test_littles_law_says_how_many_run_at_a_rate(prompt, output, part):
    """Within a tenth of what is simulated: sequences in the engine, and the memory they take."""
    sizes = lengths(700, prompt=prompt, output=output)
    mix = RequestMix.of([each[0] for each in sizes], [each[1] for each in sizes])
    capacity = Capacity(law=LAW, kv_tokens=LIMITS.kv_tokens)
    rate_rps = part * capacity.at_most(mix).rate_rps
    scheduler = HeadwayScheduler(LIMITS)
    sequence_ns = token_ns = 0
    requests = list(poisson(sizes, rate_rps, (BRONZE,)))
    from_ns, until_ns = requests[60].arrived_at_ns, requests[-1].arrived_at_ns

    def observe(plan, begun_at_ns, ended_at_ns):
        nonlocal sequence_ns, token_ns
        if from_ns <= begun_at_ns < until_ns:
            roster = scheduler.roster
            resident = (*roster.decoding.values(), *roster.prefilling.values())
            sequence_ns += len(resident) * (ended_at_ns - begun_at_ns)
            token_ns += sum(each.computed_tokens for each in resident) * (ended_at_ns - begun_at_ns)

    Generation(scheduler, LAW, observe=observe).run(requests)
    load = capacity.at_rate(mix, rate_rps)
    assert load.sequences == pytest.approx(sequence_ns / (until_ns - from_ns), rel=0.10)
    assert load.kv_tokens == pytest.approx(token_ns / (until_ns - from_ns), rel=0.12)


@pytest.mark.parametrize(
    ("prompt", "output"), [(1_000, 250), (400, 400), (1_500, 150)], ids=["chat", "write", "read"]
)
def test_littles_law_says_the_highest_rate(prompt, output):
    """Within a tenth of what comes out when far more is asked for."""
    sizes = lengths(900, prompt=prompt, output=output)
    mix = RequestMix.of([each[0] for each in sizes], [each[1] for each in sizes])
    capacity = Capacity(law=LAW, kv_tokens=LIMITS.kv_tokens)
    run = Generation(HeadwayScheduler(LIMITS), LAW).run(poisson(sizes, 100.0, (GOLD,)))
    ends_ns = sorted(sample.ended_at_ns for sample in run.samples)
    # Without the time in which the engine fills, and that in which the last long ones end.
    low, high = len(ends_ns) // 10, len(ends_ns) * 8 // 10
    rate_rps = (high - low) / ((ends_ns[high] - ends_ns[low]) / S)
    assert capacity.at_most(mix).rate_rps == pytest.approx(rate_rps, rel=0.10)


# -- the simulator itself --------------------------------------------------------------------------


class Idle(StockScheduler):
    """A scheduler that has sequences and never plans anything."""

    def plan(self, now_ns):
        """Nothing."""


def test_scheduler_that_forgets_its_sequences_is_found_out():
    """A run that cannot go on says so instead of ending as if all were well."""
    requests = poisson([(10, 10)], 1.0, (GOLD,))
    with pytest.raises(InternalError, match="`1` sequences are left"):
        Generation(Idle(LIMITS, FcfsOrder()), LAW).run(requests)


def test_copies_out_hold_the_step_back_and_copies_in_do_not():
    """What is swapped stalls the engine by the copy out alone."""
    requests = list(poisson(lengths(40, prompt=900, output=200), 50.0, (BRONZE,)))
    requests += [
        msgspec.structs.replace(each, terms=GOLD, arrived_at_ns=each.arrived_at_ns + 2 * S)
        for each in requests[:10]
    ]
    limits = EngineLimits(blocks=500)
    run = Generation(HeadwayScheduler(limits), LAW, limits.copies).run(requests)
    assert run.swaps > 0
    assert run.stalled_ns <= run.swaps * limits.copies.copy_ns(6_000)
    assert sum(sample.tokens for sample in run.samples) == sum(
        each.output_tokens for each in requests
    )


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_bytes(b"".join(msgspec.json.encode(plan) + b"\n" for plan in the_run()))
