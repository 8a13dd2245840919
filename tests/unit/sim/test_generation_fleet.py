"""Several simulated engines: together as one is, apart with keys and values on their way."""

import pytest

from headway.errors import InternalError
from headway.generate import BlockPool, EngineLimits, HeadwayScheduler, StepLaw, TierTerms
from headway.sim import (
    Generation,
    GenerationFleet,
    GenerationRequest,
    HandedPool,
    HandOver,
    target_figures,
)
from headway.workload import BurstLoad, PowerLaw, burst_trace

MS = 1_000_000
LAW = StepLaw(base_ns=10.0 * MS, prefill_ns=10_000.0, context_ns=0.0, free_tokens=0)
LIMITS = EngineLimits(blocks=400, law=LAW)
TERMS = TierTerms(name="chat", ttft_ns=200 * MS, tpot_ns=30 * MS)
WAY = HandOver(kv_bytes=1_000, bytes_per_s=1e6, latency_ns=2 * MS)
"""A millisecond a token."""


def an_engine(pool=None, limits=LIMITS):
    """One under our step scheduler."""
    return Generation(HeadwayScheduler(limits, None, pool), LAW)


def a_receiver(blocks=400):
    """One that is handed sequences."""
    limits = EngineLimits(blocks=blocks, law=LAW)
    return an_engine(HandedPool(blocks, 16), limits)


def a_request(at_ms=0, *, prompt=100, output=5, cancelled_ms=None, keys=()):
    """One request."""
    return GenerationRequest(
        arrived_at_ns=at_ms * MS,
        tag="t",
        terms=TERMS,
        prompt_tokens=prompt,
        output_tokens=output,
        output_tokens_max=200,
        prefix_keys=keys,
        cancelled_at_ns=None if cancelled_ms is None else cancelled_ms * MS,
    )


def many(count=120):
    """Bursts that keep two engines busy."""
    load = BurstLoad(
        rate_rps=40.0,
        prompt=PowerLaw(exponent=0.7, tokens_min=16, tokens_max=600),
        output=PowerLaw(exponent=0.7, tokens_min=2, tokens_max=100),
    )
    trace = burst_trace(load, 1, count)
    columns = zip(trace.at_ns, trace.input_tokens, trace.output_tokens, strict=True)
    return [
        a_request(at_ns / MS, prompt=prompt, output=output) for at_ns, prompt, output in columns
    ]


def whole(requests):
    """With whole instants."""
    return [
        GenerationRequest(
            arrived_at_ns=round(each.arrived_at_ns),
            tag=each.tag,
            terms=each.terms,
            prompt_tokens=each.prompt_tokens,
            output_tokens=each.output_tokens,
            output_tokens_max=each.output_tokens_max,
        )
        for each in requests
    ]


def test_fleet_of_one_is_the_engine_itself():
    """Every sample and the makespan are those of the engine on its own."""
    requests = whole(many())
    alone = an_engine().run(requests)
    fleet = GenerationFleet([an_engine()]).run(requests)
    assert fleet.samples == alone.samples
    assert fleet.makespan_ns == alone.makespan_ns


def test_two_engines_share_what_comes():
    """Each has about half of the work, and all is done sooner."""
    requests = whole(many())
    one = GenerationFleet([an_engine()]).run(requests)
    two = GenerationFleet([an_engine(), an_engine()]).run(requests)
    shares = [each.prefill_tokens for each in two.engines]
    assert sum(shares) == sum(each.prompt_tokens for each in requests)
    assert min(shares) > 0.35 * sum(shares)
    assert target_figures(two.samples).met >= target_figures(one.samples).met


def test_second_token_waits_for_the_way():
    """11 ms of prompt, 102 ms on the link, a step for each token: nothing is computed twice."""
    fleet = GenerationFleet([an_engine()], [a_receiver()], WAY)
    run = fleet.run([a_request(prompt=100, output=5)])
    (sample,) = run.samples
    assert sample.ttft_ns == pytest.approx(11 * MS)
    assert sample.itl_ns_max == pytest.approx(112 * MS, rel=0.01)
    assert sample.ended_at_ns == pytest.approx((11 + 102 + 40) * MS, rel=0.01)
    assert (sample.tokens, run.handed, run.handed_tokens) == (5, 1, 100)
    assert [each.prefill_tokens for each in run.engines] == [100, 1]
    assert run.link_busy_ns == 102 * MS


def test_what_a_receiver_has_of_a_prefix_is_not_sent():
    """Of 96 tokens of prompt 64 are there from the one before."""
    fleet = GenerationFleet([an_engine()], [a_receiver()], WAY)
    requests = [
        a_request(0, prompt=96, keys=(1, 2, 3, 4, 5, 6)),
        a_request(2_000, prompt=96, keys=(1, 2, 3, 4, 7, 8)),
    ]
    run = fleet.run(requests)
    assert run.handed_tokens == 96 + 32
    assert [sample.tokens for sample in run.samples] == [5, 5]


def test_every_answer_ends_whole_though_receivers_are_short_of_memory():
    """Preempted there they are computed there again; nobody loses a token."""
    requests = whole(many())
    fleet = GenerationFleet([an_engine()], [a_receiver(blocks=60)], WAY)
    run = fleet.run(requests)
    assert [sample.tokens for sample in run.samples] == [each.output_tokens for each in requests]
    assert all(sample.ended_at_ns is not None for sample in run.samples)


def test_answer_of_one_token_stays_where_it_is():
    """There is nothing to hand over."""
    fleet = GenerationFleet([an_engine()], [a_receiver()], WAY)
    run = fleet.run([a_request(output=1)])
    assert (run.handed, run.link_busy_ns) == (0, 0)
    assert run.samples[0].ended_at_ns == run.samples[0].first_token_at_ns


@pytest.mark.parametrize("cancelled_ms", [5, 60, 130])
def test_who_leaves_frees_everything_wherever_it_is(cancelled_ms):
    """During its prompt, on the way, and while it is generated."""
    engine, receiver = an_engine(), a_receiver()
    fleet = GenerationFleet([engine], [receiver], WAY)
    run = fleet.run([a_request(output=50, cancelled_ms=cancelled_ms)])
    assert run.samples[0].ended_at_ns is None
    assert engine.scheduler.roster.pool.used_count == 0
    assert receiver.scheduler.roster.pool.used_count == 0


def test_handed_pool_says_all_but_one_token_are_there_once():
    """The second start is as in any pool."""
    pool = HandedPool(10, 16)
    pool.hand(1)
    assert pool.start(1, (), 40) == 39
    pool.release(1)
    assert pool.start(1, (), 40) == BlockPool(10, 16).start(1, (), 40) == 0


def test_fleet_without_engines_or_way_is_refused():
    """Both are the caller's mistake."""
    with pytest.raises(ValueError, match="a fleet has engines"):
        GenerationFleet([])
    with pytest.raises(ValueError, match="a way to those"):
        GenerationFleet([an_engine()], [a_receiver()])
    with pytest.raises(ValueError, match="a link carries"):
        HandOver(kv_bytes=1, bytes_per_s=0.0)


def test_engine_is_lived_through_bit_by_bit_as_in_one_go():
    """Where somebody stops to look changes nothing."""
    requests = whole(many(60))
    alone, bits = an_engine().run(requests), an_engine()
    for number, request in enumerate(requests, start=1):
        bits.submit(number, request)
    with pytest.raises(ValueError, match="submitted twice"):
        bits.submit(1, requests[0])
    bits.advance(requests[30].arrived_at_ns)
    with pytest.raises(InternalError, match="are left"):
        bits.result()
    while (at_ns := bits.next_at_ns()) is not None:
        bits.advance(at_ns)
    assert bits.result().samples == alone.samples


def test_targets_count_those_that_kept_both():
    """One in time, one whose first token is late, one that was refused."""
    run = an_engine().run(
        [a_request(0), a_request(1_000, prompt=5_000), a_request(9_000, prompt=7_000)]
    )
    figures = target_figures(run.samples)
    assert (figures.requests, figures.ended, figures.refused) == (3, 2, 1)
    assert (figures.first_in_time, figures.pace_in_time, figures.met) == (2, 2, 2)
    assert figures.goodput_rps(2_000 * MS) == 1.0
    assert target_figures([]).met_ratio == 1.0
    assert target_figures([]).ttft_p99_ns is None
