"""headway's scheduler in vLLM's real engine, with a real if tiny model, beside vLLM's own.

Every test that plays calls compares the tokens with what vLLM's own scheduler gives without a
neighbour: float32, so that they must be the same to the last.
"""

from vllm.sampling_params import StructuredOutputsParams
from vllm_rig import HEADWAY, Call, prompt

from vllm import SamplingParams

STEPS_STOCK_MIN = 60
"""vLLM's own makes those wait for longer than this in both scenarios below."""


def flood():
    """One tenant sends 40 requests, another four right after."""
    many = [Call(f"many{i}", prompt(i, 64), 16, args={"tenant": "many"}) for i in range(40)]
    few = [
        Call(f"few{i}", prompt(100 + i, 16), 16, args={"tenant": "few"}, at_step=1)
        for i in range(4)
    ]
    return many + few


def gold_over_long_jobs():
    """Long jobs hold all slots when important requests arrive."""
    long = [Call(f"long{i}", prompt(i, 64), 80, priority=5) for i in range(16)]
    gold = [Call(f"gold{i}", prompt(100 + i, 32), 8, at_step=15) for i in range(8)]
    return long + gold


def memory_is_short():
    """Long jobs fill a memory of 40 blocks; important requests come one by one."""
    long = [Call(f"long{i}", prompt(i, 64), 150, priority=5) for i in range(12)]
    gold = [Call(f"gold{i}", prompt(100 + i, 96), 8, at_step=30 + 20 * i) for i in range(5)]
    return long + gold


SMALL = {"max_num_seqs": 16, "num_gpu_blocks_override": 41, "max_model_len": 512}


def test_flood_does_not_hold_up_the_small_tenant(engines, answers):
    """The first tokens of a small tenant are early beside a flood, and no step is lost by it."""
    calls, steps, ttft = flood(), {}, {}
    for scheduler in (None, HEADWAY):
        engine = engines(scheduler)
        engine.play(calls)
        assert engine.tokens == answers(calls)
        steps[scheduler], ttft[scheduler] = engine.step, engine.ttft_steps(calls, "few")
    assert min(ttft[None]) > STEPS_STOCK_MIN
    assert max(ttft[HEADWAY]) <= 4
    assert steps[HEADWAY] <= 1.05 * steps[None]


def test_gold_is_served_at_once_where_long_jobs_hold_all_slots(engines, answers):
    """Somebody less important pauses, and loses nothing: no preemption, the same tokens."""
    calls = gold_over_long_jobs()
    stock = engines(None, scheduling_policy="priority")
    stock.play(calls)
    stock_steps, stock_ttft = stock.step, stock.ttft_steps(calls, "gold")
    engine = engines(scheduling_policy="priority")
    engine.play(calls)
    assert engine.tokens == answers(calls)
    assert not engine.preempts
    assert max(engine.ttft_steps(calls, "gold")) <= 4
    assert min(stock_ttft) > STEPS_STOCK_MIN
    assert engine.step <= 1.02 * stock_steps


def test_gold_takes_memory_and_the_victims_end_with_the_same_tokens(engines, answers):
    """Victims are recomputed, each no more than twice, and nobody's tokens change."""
    calls = memory_is_short()
    engine = engines(**SMALL)
    engine.play(calls)
    assert engine.tokens == answers(calls)
    assert engine.preempts
    assert max(engine.preempts.values()) <= 2
    assert not any(name.startswith("gold") for name in engine.preempts)
    assert max(engine.ttft_steps(calls, "gold")) <= 4


def test_vllms_own_headroom_is_part_of_the_question_who_has_room(engines, answers):
    """With vLLM's watermark too, whoever is let in by the plan is let in by vLLM."""
    calls = memory_is_short()
    engine = engines(**SMALL, watermark=0.1)
    lost = engine.scheduler._lost
    engine.play(calls)
    assert engine.tokens == answers(calls)
    assert engine.scheduler.memory.total_count == 40
    assert not lost
    assert max(engine.ttft_steps(calls, "gold")) <= 4


def test_gated_tier_waits_above_the_high_mark(engines, answers):
    """Fewer of a gated tier begin than there is memory for now, so fewer become victims."""
    calls = [call for call in memory_is_short() if call.name.startswith("long")]
    preempts = {}
    for gated in (False, True):
        tiers = {"bronze": {"priority": 5, "gated": gated}}
        engine = engines(**SMALL, headway={"tiers": tiers, "tier": "bronze"})
        engine.play([call._replace(priority=0) for call in calls])
        assert engine.tokens == answers(calls)
        preempts[gated] = sum(engine.preempts.values())
    assert preempts[True] < preempts[False] / 2


def test_cancelled_request_frees_its_memory_within_a_step(engines):
    """What ran and what waited is gone when the next step is planned, and others go on."""
    engine = engines(**SMALL)
    for i in range(12):
        engine.add(Call(f"long{i}", prompt(i, 64), 200))
    for _ in range(40):
        engine.advance()
    scheduler = engine.scheduler
    waiting = [each.request_id.rsplit("-", 1)[0] for each in scheduler.waiting]
    running = [each.request_id.rsplit("-", 1)[0] for each in scheduler.running]
    assert waiting
    engine.engine.abort_request([*waiting, *running[1:]])
    engine.advance()
    assert len(scheduler.running) == 1
    assert not scheduler.waiting
    held = scheduler.memory.used_count
    assert held <= 1 + -(-scheduler.running[0].num_tokens // 32)
    assert len(scheduler.policy_of_steps.roster.sequences) == 1
    engine.play([Call("new", prompt(50, 64), 4, at_step=engine.step)])
    assert len(engine.tokens["new"]) == 4
    assert set(engine.tokens) == {running[0], "new"}


def test_request_that_never_fits_ends_with_an_error_and_others_go_on(engines):
    """What is more than the whole memory is told so, instead of waiting for ever."""
    engine = engines(max_num_seqs=4, num_gpu_blocks_override=9, max_model_len=256)
    scheduler = engine.scheduler
    assert scheduler.memory.total_count == 8
    scheduler.max_model_len = 512  # as if vLLM had not looked at it itself
    engine.engine.model_config.max_model_len = 512
    engine.play([Call("large", prompt(1, 200), 250), Call("small", prompt(2, 20), 5)])
    assert engine.reasons == {"large": "error", "small": "length"}


def test_shared_prefix_is_computed_once(engines, answers):
    """A second request finds the first one's blocks, and a third that runs beside them, too."""
    common = prompt(1, 256)
    calls = [
        Call("first", [*common, 5], 40),
        Call("second", [*common, 6], 40, at_step=10),
        Call("third", [*common, 7], 4, at_step=60),
    ]
    engine = engines()
    handed_out = []
    stock = engine.scheduler.schedule

    def counted(*args):
        output = stock(*args)
        handed_out.append(dict(output.num_scheduled_tokens))
        return output

    engine.scheduler.schedule = counted
    engine.play(calls)
    assert engine.tokens == answers(calls)
    computed = dict.fromkeys(("first", "second", "third"), 0)
    for step in handed_out:
        for request_id, tokens in step.items():
            computed[request_id.rsplit("-", 1)[0]] += tokens
    assert computed == {"first": 257 + 39, "second": 1 + 39, "third": 1 + 3}


def test_long_prompt_in_chunks_does_not_hold_up_short_ones(engines, answers):
    """A prompt of several steps' budgets is begun, and short ones get their tokens meanwhile."""
    calls = [
        Call("long", prompt(1, 900), 4),
        *(Call(f"short{i}", prompt(10 + i, 20), 20, at_step=1) for i in range(4)),
    ]
    engine = engines(headway={"learns": False})
    engine.play(calls)
    assert engine.tokens == answers(calls)
    assert max(engine.ttft_steps(calls, "short")) <= 6


def test_answer_bound_to_a_choice_is_one_of_them(engines):
    """A request waits until its grammar is compiled, beside one that has none."""
    engine = engines()
    outputs = StructuredOutputsParams(choice=["yes", "no"])
    params = SamplingParams(temperature=0.0, max_tokens=8, structured_outputs=outputs)
    engine.engine.add_request("choice", "Is it?", params)
    engine.play([Call("plain", prompt(1, 20), 20)])
    text = engine.engine.get_tokenizer().decode(engine.tokens["choice"], skip_special_tokens=True)
    assert text in {"yes", "no"}


def test_prefix_cache_is_reset_under_running_requests(engines, answers):
    """Requests that vLLM drops by itself begin again, and end with the same tokens."""
    calls = [Call(f"long{i}", prompt(i, 64), 60) for i in range(4)]
    engine = engines()
    for call in calls:
        engine.add(call)
    for _ in range(20):
        engine.advance()
    assert engine.scheduler.reset_prefix_cache(reset_running_requests=True)
    engine.play([])
    assert engine.tokens == answers(calls)
    assert not any(
        each.preempt_count for each in engine.scheduler.policy_of_steps.roster.sequences.values()
    )
