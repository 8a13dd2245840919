"""The simulated generating engine: requests out of traces, what clients see, copies."""

import pytest

from headway.generate import (
    CopyLaw,
    EngineLimits,
    FcfsOrder,
    HeadwayScheduler,
    PreemptWay,
    StepLaw,
    StepSettings,
    StockScheduler,
    SwapSettings,
    TierTerms,
    VictimSettings,
)
from headway.sim import Generation, GenerationRequest, quantile, requests_of_trace, tier_figures
from headway.workload import Trace

MS = 1_000_000
LAW = StepLaw(base_ns=10.0 * MS, prefill_ns=10_000.0, context_ns=0.0, free_tokens=0)
LIMITS = EngineLimits(blocks=100, law=LAW)
PLAIN = TierTerms(name="plain", priority=1)
GOLD = TierTerms(name="gold", priority=0)


def a_request(at_ms=0, *, terms=PLAIN, prompt=16, output=5, cap=100, cancelled_ms=None):
    """One request."""
    return GenerationRequest(
        arrived_at_ns=at_ms * MS,
        tag="t",
        terms=terms,
        prompt_tokens=prompt,
        output_tokens=output,
        output_tokens_max=cap,
        cancelled_at_ns=None if cancelled_ms is None else cancelled_ms * MS,
    )


def test_client_sees_first_token_pace_and_end():
    """One step for the prompt and four for the others, each of 10 ms and the prompt's tokens."""
    run = Generation(HeadwayScheduler(LIMITS), LAW).run([a_request(prompt=100)])
    (sample,) = run.samples
    assert sample.ttft_ns == pytest.approx(11 * MS)
    assert sample.tpot_ns == pytest.approx(10 * MS, rel=0.01)
    assert (sample.tokens, run.steps, run.prefill_tokens) == (5, 5, 100)
    assert run.makespan_ns == sample.ended_at_ns


def test_engine_sleeps_until_somebody_comes():
    """Time without requests is no time of the engine's."""
    run = Generation(HeadwayScheduler(LIMITS), LAW).run([a_request(0), a_request(10_000)])
    assert run.samples[1].ttft_ns == pytest.approx(10 * MS, rel=0.05)
    assert run.busy_ns < 200 * MS


def test_answer_is_cut_at_its_cap():
    """A client that asks for three tokens gets three of a hundred."""
    run = Generation(HeadwayScheduler(LIMITS), LAW).run([a_request(output=100, cap=3)])
    assert run.samples[0].tokens == 3
    assert run.samples[0].ended_at_ns is not None


def test_client_that_leaves_frees_its_sequence_within_a_step():
    """Nothing is generated for it after the step that ran when it left."""
    run = Generation(HeadwayScheduler(LIMITS), LAW).run(
        [a_request(output=90, cancelled_ms=205), a_request(output=20)]
    )
    assert 19 <= run.samples[0].tokens <= 21
    assert run.samples[0].ended_at_ns is None
    assert run.samples[1].tokens == 20


def test_refused_request_is_told_apart():
    """What can never fit is no request that is merely slow."""
    run = Generation(StockScheduler(LIMITS, FcfsOrder()), LAW).run([a_request(prompt=5_000)])
    assert run.samples[0].is_refused
    assert run.samples[0].ttft_ns is None


def test_copy_out_stalls_the_engine_and_copy_in_runs_beside_it():
    """A victim's way out is waited for by all, its way back by itself."""
    copies = CopyLaw(fixed_ns=50.0 * MS, token_ns=0.0)
    settings = StepSettings(
        learns=False,
        swap=SwapSettings(ways=(PreemptWay.SWAP,)),
        victims=VictimSettings(quantum_steps=0),
    )
    scheduler = HeadwayScheduler(EngineLimits(blocks=14, law=LAW, copies=copies), settings)
    requests = [
        a_request(prompt=150, output=40, cap=40),
        a_request(95, terms=GOLD, prompt=100, output=5, cap=5),
    ]
    run = Generation(scheduler, LAW, copies).run(requests)
    low, gold = run.samples
    assert (run.swaps, run.stalled_ns) == (1, 50 * MS)
    assert gold.ttft_ns >= 60 * MS
    assert low.itl_ns_max >= 150 * MS
    assert (low.tokens, low.preempts) == (40, 1)


def test_trace_becomes_requests():
    """Tiers in turn, faster by the speed, blocks of prefixes as fine as the engine's."""
    trace = Trace(
        "t",
        (0, 1_000, 3_000, 4_000),
        input_tokens=(40, 70, 33, 5),
        output_tokens=(1, 2, 0, 4),
        prefix_keys=((7,), (7, 9), (), (3,)),
        prefix_block_tokens=32,
    )
    found = list(requests_of_trace(trace, (GOLD, PLAIN, PLAIN), count=3, speed=2.0))
    assert [each.arrived_at_ns for each in found] == [0, 500, 1_500]
    assert [each.terms.name for each in found] == ["gold", "plain", "plain"]
    assert [each.output_tokens for each in found] == [1, 2, 1]
    assert [each.prefix_keys for each in found] == [(14, 15), (14, 15, 18, 19), ()]


def test_trace_can_begin_further_on():
    """A later stretch starts at 0, too."""
    trace = Trace("t", (0, 1_000, 3_000), input_tokens=(1, 2, 3), output_tokens=(1, 1, 1))
    found = list(requests_of_trace(trace, (PLAIN,), count=5, first=1))
    assert [(each.arrived_at_ns, each.prompt_tokens) for each in found] == [(0, 2), (2_000, 3)]


def test_figures_of_a_tier_are_those_of_its_requests():
    """Others do not count, and who had no token has no time to one."""
    requests = [a_request(terms=GOLD), a_request(1), a_request(2, prompt=5_000)]
    run = Generation(HeadwayScheduler(LIMITS), LAW).run(requests)
    plain = tier_figures(run.samples, "plain")
    assert (plain.requests, plain.ended) == (2, 1)
    assert plain.ttft_p50_s == pytest.approx(run.samples[1].ttft_ns / 1e9)


@pytest.mark.parametrize(
    ("values", "level", "expected"),
    [
        ([], 0.5, 0.0),
        ([3.0], 0.99, 3.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0),
        (range(1, 101), 0.99, 99),
    ],
)
def test_quantile_is_a_value_that_was_seen(values, level, expected):
    """The smallest that so large a part does not exceed."""
    assert quantile(values, level) == expected
