"""The step scheduler: who runs, who pauses, who makes room, and what is said at the door."""

import pytest
from tests.generate_rig import BRONZE, GOLD, MS, PLAIN, SILVER, Rig, S, an_engine

from headway.core import TenantId
from headway.generate import (
    Accepted,
    AgingSettings,
    CopyLaw,
    CreditSettings,
    HeadwayScheduler,
    MarkAction,
    PreemptWay,
    Refused,
    RefuseReason,
    SequenceLost,
    StepCut,
    StepFinished,
    StepLaw,
    StepSettings,
    SwapSettings,
    TierTerms,
    VictimSettings,
    WatermarkSettings,
    Work,
)


def a_rig(settings=None, **limits):
    """A rig on an engine of one's own."""
    settings = {"learns": False} | (settings or {})
    return Rig(HeadwayScheduler(an_engine(**limits), StepSettings(**settings)))


# -- the life of one -------------------------------------------------------------------------------


def test_prompt_goes_through_in_chunks_and_gives_a_token_at_its_end():
    """Neither the first nor the second chunk gives a token; the last does, then one a step."""
    rig = a_rig(step_tokens_max=256)
    number = rig.arrive(prompt=600, output=3)
    plans = [rig.step() for _ in range(5)]
    assert [(w.start, w.tokens, w.yields) for plan in plans for w in plan.work] == [
        (0, 256, False),
        (256, 256, False),
        (512, 88, True),
        (600, 1, True),
        (601, 1, True),
    ]
    assert rig.tokens[number] == 3
    assert rig.step() is None


def test_sequence_ends_at_its_cap():
    """The cap is hard, whatever the host says of the answer."""
    rig = Rig()
    number = rig.arrive(output=100, cap=5)
    rig.step(10)
    assert rig.tokens[number] == 5
    assert rig.scheduler.pool.used_count == 0


def test_shared_prefix_is_not_computed_again():
    """The second of two with a common prefix begins behind it, and memory counts it once."""
    rig = Rig()
    rig.arrive(prompt=65, output=50, keys=(1, 2, 3, 4))
    rig.step(2)
    second = rig.arrive(prompt=65, output=50, keys=(1, 2, 3, 9))
    rig.step()
    (work,) = [work for work in rig.plans[-1].work if work.sequence_id == second]
    assert (work.start, work.tokens) == (48, 17)
    assert rig.scheduler.pool.used_count == 5 + 2


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_cancelled_sequence_gives_back_all_it_holds(steps):
    """Waiting, in its prompt, or decoding."""
    rig = a_rig(step_tokens_max=256)
    number = rig.arrive(prompt=300, output=50)
    rig.step(steps)
    rig.cancel(number)
    assert rig.scheduler.pool.used_count == 0
    assert rig.step() is None


# -- the door --------------------------------------------------------------------------------------


def test_prompt_that_no_schedule_could_serve_in_time_is_told_so():
    """Accepted, with the time that physics allows, and the word that the target is out of reach."""
    rig = Rig()
    rig.arrive(GOLD, prompt=1_000)
    assert rig.answer.is_ttft_reachable
    assert rig.answer.ttft_ns_min == pytest.approx(20 * MS, rel=0.01)
    rig = a_rig(blocks=100_000)
    rig.arrive(GOLD, prompt=100_000)
    assert isinstance(rig.answer, Accepted)
    assert not rig.answer.is_ttft_reachable
    assert rig.answer.ttft_ns_min > 1 * S


def test_tier_may_refuse_what_cannot_be_in_time():
    """Where the tier says so, it is not let in."""
    terms = TierTerms(name="gold", ttft_ns=100 * MS, refuses_unreachable=True)
    rig = Rig()
    rig.arrive(terms, prompt=15_000)
    assert (type(rig.answer), rig.answer.reason) == (Refused, RefuseReason.TTFT_UNREACHABLE)


def test_sequence_that_never_fits_is_refused():
    """Prompt and cap together are more than all memory."""
    rig = a_rig(blocks=10)
    rig.arrive(prompt=100, output=61)
    assert rig.answer.reason is RefuseReason.NEVER_FITS
    rig.arrive(prompt=100, output=60)
    assert isinstance(rig.answer, Accepted)


def test_line_is_bounded():
    """One more than may wait is refused."""
    rig = a_rig(waiting_max=2)
    for _ in range(2):
        rig.arrive()
        assert isinstance(rig.answer, Accepted)
    rig.arrive()
    assert rig.answer.reason is RefuseReason.WAITING_FULL


# -- slots -----------------------------------------------------------------------------------------


def test_important_ones_take_slots_at_once_and_nobody_loses_work():
    """Eight gold ones begin within two steps, and the low ones go on where they were."""
    rig = a_rig(sequences_max=8)
    low = [rig.arrive(BRONZE, output=100) for _ in range(24)]
    rig.step(10)
    gold = [rig.arrive(GOLD, output=8) for _ in range(8)]
    rig.step(2)
    assert set(gold) <= set(rig.first_step)
    assert rig.in_step() == set(gold)
    rig.run()
    assert rig.preempts == {}
    assert [rig.tokens[number] for number in low] == [100] * 24
    assert sum(plan.prefill_tokens for plan in rig.plans) == 32 * 16


def test_small_tag_overtakes_a_flood_within_its_credit():
    """A tag that had nothing so far takes the slots of one that has had more than its round."""
    rig = a_rig({"credits": CreditSettings(quantum=512.0)}, sequences_max=8)
    for _ in range(64):
        rig.arrive(output=32, tag="flood")
    rig.step(60)
    small = [rig.arrive(output=32, tag="small") for _ in range(8)]
    at_step = len(rig.plans)
    rig.run()
    assert max(rig.first_step[number] for number in small) <= at_step + 31
    assert rig.preempts == {}


def test_order_inside_a_tag_is_arrival():
    """Nobody overtakes within a tag."""
    rig = a_rig(sequences_max=2)
    numbers = [rig.arrive(output=5) for _ in range(8)]
    rig.run()
    assert sorted(numbers, key=rig.first_step.__getitem__) == numbers


def test_slack_decides_between_tags_of_one_class():
    """Both within their credit: the one whose prompt takes longer must begin sooner."""
    rig = a_rig(sequences_max=1)
    rig.arrive(GOLD, output=1)
    rig.step()
    short = rig.arrive(GOLD, prompt=16, output=1, tag="a")
    long = rig.arrive(GOLD, prompt=1_000, output=1, tag="b")
    rig.run()
    assert rig.first_step[long] < rig.first_step[short]


# -- memory ----------------------------------------------------------------------------------------


def test_victim_is_taken_for_a_more_important_one_only():
    """Memory full of bronze: gold takes what it needs, another bronze one waits."""
    settings = {"watermark": WatermarkSettings(high_ratio=1.0, low_ratio=0.99)}
    rig = a_rig(settings, blocks=40)
    for _ in range(4):
        rig.arrive(PLAIN, prompt=128, output=30)
    rig.step(10)
    waiting = rig.arrive(PLAIN, prompt=128, output=30)
    rig.step(3)
    assert (rig.preempts, waiting in rig.first_step) == ({}, False)
    gold = rig.arrive(GOLD, prompt=128, output=30)
    rig.step(2)
    assert gold in rig.first_step
    assert len(rig.preempts) == 1
    rig.run()
    assert set(rig.tokens.values()) == {30}


def test_victim_has_had_its_quantum():
    """Who has just begun is not sent back at once: gold waits until the quantum is over."""
    settings = {"victims": VictimSettings(quantum_steps=6)}
    rig = a_rig(settings, blocks=10)
    rig.arrive(PLAIN, prompt=130, output=20)
    rig.step(2)
    rig.arrive(GOLD, prompt=64, output=4)
    rig.step(4)
    assert rig.preempts == {}
    rig.step(2)
    assert rig.preempts == {1: 1}


def test_victim_goes_on_before_new_ones_of_its_class():
    """Though others of its class arrived meanwhile, and before it was preempted."""
    rig = a_rig({"victims": VictimSettings(quantum_steps=0)}, blocks=10)
    victim = rig.arrive(PLAIN, prompt=100, output=40)
    rig.step(3)
    later = rig.arrive(PLAIN, prompt=100, output=4)
    gold = rig.arrive(GOLD, prompt=100, output=4)
    rig.step(2)
    assert rig.preempts == {victim: 1}
    rig.run()
    assert rig.first_step[gold] < rig.first_step[later]
    order = [number for plan in rig.plans for number in rig.in_step(plan)]
    assert order.index(later) > max(i for i, each in enumerate(order) if each == gold)
    assert rig.tokens[victim] == 40


def test_nobody_is_the_victim_for_ever():
    """After as many preemptions as are allowed it keeps its memory, however many gold ones come."""
    settings = {"victims": VictimSettings(quantum_steps=0, preempts_max=2)}
    rig = a_rig(settings, blocks=12)
    victim = rig.arrive(PLAIN, prompt=100, output=60)
    for _ in range(40):
        rig.arrive(GOLD, prompt=100, output=2)
        rig.step(4)
    rig.run()
    assert rig.preempts == {victim: 2}
    assert rig.tokens[victim] == 60


def test_decoding_ones_that_run_out_of_memory_make_room_for_the_first():
    """Two grow into memory for one and a half: the later one steps back, both end whole."""
    settings = {"watermark": WatermarkSettings(high_ratio=1.0, low_ratio=0.99)}
    rig = a_rig(settings, blocks=10)
    first = rig.arrive(prompt=40, output=60)
    second = rig.arrive(prompt=40, output=60)
    rig.run()
    assert rig.tokens == {first: 60, second: 60}
    assert set(rig.preempts) <= {second}


def test_swapped_victim_goes_on_without_computing_anything_again():
    """Its keys and values come back, and all prompt tokens of the run are those of the prompts."""
    settings = {
        "swap": SwapSettings(ways=(PreemptWay.SWAP,)),
        "victims": VictimSettings(quantum_steps=0),
    }
    rig = a_rig(settings, blocks=10)
    victim = rig.arrive(PLAIN, prompt=100, output=30)
    rig.step(4)
    rig.arrive(GOLD, prompt=100, output=4)
    rig.run()
    assert [p.way for plan in rig.plans for p in plan.preempted] == [PreemptWay.SWAP]
    assert sum(plan.prefill_tokens for plan in rig.plans) == 200
    assert rig.tokens[victim] == 30
    assert rig.scheduler.preemption.rule.host_tokens == 0


def test_victim_one_token_before_its_first_has_a_pace_afterwards():
    """It comes back straight into decoding; its first token is an instant all the same."""
    settings = {
        "swap": SwapSettings(ways=(PreemptWay.SWAP,)),
        "victims": VictimSettings(quantum_steps=0),
    }
    rig = a_rig(settings, blocks=10, sequences_max=4, step_tokens_max=100)
    terms = TierTerms(name="paced", priority=1, tpot_ns=100 * MS)
    victim = rig.arrive(terms, prompt=101, output=30)
    rig.step()
    rig.arrive(GOLD, prompt=90, output=2)
    while not rig.tokens[victim]:
        rig.step()
    assert [(p.sequence_id, p.tokens) for plan in rig.plans for p in plan.preempted] == [
        (victim, 100)
    ]
    sequence = rig.scheduler.roster.sequences[victim]
    assert sequence.first_token_at_ns is not None
    assert sequence.due_at_ns() == sequence.first_token_at_ns + 100 * MS


def test_cancelled_load_keeps_its_blocks_until_the_copy_is_done():
    """Otherwise the copy would write into somebody else's memory."""
    settings = {
        "swap": SwapSettings(ways=(PreemptWay.SWAP,)),
        "victims": VictimSettings(quantum_steps=0),
    }
    rig = a_rig(settings, blocks=10)
    victim = rig.arrive(PLAIN, prompt=100, output=30)
    rig.step(4)
    gold = rig.arrive(GOLD, prompt=100, output=4)
    rig.step(2)
    rig.cancel(gold)
    plan = rig.scheduler.plan(rig.now_ns)
    assert [load.sequence_id for load in plan.loads] == [victim]
    rig.cancel(victim)
    assert rig.scheduler.pool.used_count == 7
    assert rig.scheduler.preemption.rule.host_tokens == 0
    assert rig.scheduler.roster.loaded(victim) is None
    assert rig.scheduler.pool.used_count == 0


# -- the gate --------------------------------------------------------------------------------------


def test_gate_holds_gated_tiers_and_lets_others_pass():
    """Above the high mark bronze waits, gold does not; nobody who runs is touched."""
    settings = {"watermark": WatermarkSettings(high_ratio=0.6, low_ratio=0.3)}
    rig = a_rig(settings, blocks=100)
    for _ in range(6):
        rig.arrive(BRONZE, prompt=160, output=40)
    rig.step(3)
    late = rig.arrive(BRONZE, prompt=160, output=4)
    gold = rig.arrive(GOLD, prompt=160, output=4)
    rig.step(3)
    assert gold in rig.first_step
    assert late not in rig.first_step
    assert rig.preempts == {}
    rig.run()
    assert late in rig.first_step


def test_eviction_at_the_mark_is_there_by_name():
    """The textbook form pushes running ones out at the high mark, down to the low one."""
    marks = WatermarkSettings(high_ratio=0.6, low_ratio=0.3, action=MarkAction.EVICT)
    rig = a_rig({"watermark": marks}, blocks=100)
    for _ in range(8):
        rig.arrive(PLAIN, prompt=159, output=40)
    rig.step(1)
    plan = rig.step(1)
    assert len(plan.preempted) >= 5


# -- step budget -----------------------------------------------------------------------------------


def test_prompt_leaves_decoding_ones_their_pace():
    """A prompt of a lower class takes no more of a step than the gold ones' targets leave."""
    law = StepLaw(base_ns=10.0 * MS, prefill_ns=100_000.0, context_ns=0.0, free_tokens=0)
    rig = a_rig(law=law)
    rig.arrive(GOLD, prompt=16, output=50)
    rig.step(1)
    rig.arrive(PLAIN, prompt=4_000)
    plan = rig.step()
    assert plan.prefill_tokens == 399


def test_pace_of_a_batch_job_does_not_slow_an_urgent_prompt_down():
    """Only the targets of those as important as the prompt count."""
    law = StepLaw(base_ns=10.0 * MS, prefill_ns=100_000.0, context_ns=0.0, free_tokens=0)
    slow = TierTerms(name="slow", priority=2, tpot_ns=20 * MS)
    rig = a_rig(law=law)
    rig.arrive(slow, prompt=16, output=50)
    rig.step(1)
    rig.arrive(GOLD, prompt=4_000)
    plan = rig.step()
    assert plan.prefill_tokens == 1_899  # half of gold's 400 ms, less the 10 that decoding takes


def test_work_is_spread_over_steps_where_it_rides_for_nothing():
    """A patient prompt takes only what costs nothing; one that its target presses takes more."""
    law = StepLaw(base_ns=12.0 * MS, prefill_ns=67_000.0, context_ns=0.0, free_tokens=128)
    rig = a_rig(law=law)
    for _ in range(20):
        rig.arrive(PLAIN, output=100)
    rig.step(2)
    rig.arrive(BRONZE, prompt=1_000)
    assert rig.step().prefill_tokens == 128 - 20
    rig.run()
    for _ in range(20):
        rig.arrive(PLAIN, output=100)
    rig.step(2)
    rig.arrive(TierTerms(name="now", priority=0, ttft_ns=100 * MS), prompt=1_000)
    assert 400 < rig.step().prefill_tokens < 1_000


def test_empty_memory_is_filled_at_full_speed():
    """Where most of those that could decode wait for their prompt, everybody's pace is worth it."""
    law = StepLaw(base_ns=12.0 * MS, prefill_ns=67_000.0, context_ns=0.0, free_tokens=128)
    rig = a_rig(law=law)
    for _ in range(20):
        rig.arrive(PLAIN, prompt=500)
    assert rig.step().prefill_tokens == 2_048


def test_long_prompt_does_not_hold_short_ones_up():
    """A hundred thousand tokens, then fifty short prompts of one class, which are not held up."""
    rig = a_rig(blocks=20_000, step_tokens_max=512)
    long = rig.arrive(prompt=100_000, output=4)
    rig.step(2)
    short = [rig.arrive(prompt=100, output=4, tag="u") for _ in range(50)]
    at_step = len(rig.plans)
    rig.step(22)
    assert max(rig.first_step[number] for number in short) <= at_step + 22
    assert long not in rig.first_step
    rig.run()


def test_low_streams_step_aside_for_an_urgent_pace():
    """Thirty low streams do not stretch a gold one's tokens; one of them always goes on."""
    law = StepLaw(base_ns=2.0 * MS, prefill_ns=10_000.0, decode_ns=4.0 * MS, context_ns=0.0)
    rig = a_rig(law=law)
    for _ in range(30):
        rig.arrive(PLAIN, output=500)
    rig.step(2)
    gold = rig.arrive(TierTerms(name="fast", tpot_ns=20 * MS), output=50)
    rig.step(2)
    plan = rig.step()
    assert gold in rig.in_step(plan)
    assert 2 <= plan.decode_count <= 8


# -- aging -----------------------------------------------------------------------------------------


def test_lowest_class_begins_though_the_higher_never_pause():
    """One slot and gold without end: bronze begins soon after it has waited for the bound."""
    settings = {"aging": AgingSettings(after_ns=500 * MS, floor_ratio=0.1)}
    rig = a_rig(settings, sequences_max=1)
    for _ in range(3):
        rig.arrive(GOLD, output=20)
    low = rig.arrive(PLAIN, output=1)
    for _ in range(100):
        rig.arrive(GOLD, output=20)
        rig.step(20)
        if low in rig.first_step:
            break
    assert 50 <= rig.first_step[low] <= 200


def test_lowest_class_goes_on_though_the_higher_never_pause():
    """Begun and pushed out of its slot by gold without end, bronze still comes to its end."""
    settings = {"aging": AgingSettings(after_ns=500 * MS, floor_ratio=0.1)}
    rig = a_rig(settings, sequences_max=1)
    low = rig.arrive(PLAIN, output=10)
    rig.step(2)
    for _ in range(200):
        rig.arrive(GOLD, output=20)
        rig.step(20)
        if low not in rig.scheduler.roster.sequences:
            break
    assert rig.tokens[low] == 10
    assert len(rig.plans) < 2_000


def test_low_streams_take_turns_where_they_step_aside():
    """Of thirty that have no target and too little room, none is left out for long."""
    law = StepLaw(base_ns=2.0 * MS, prefill_ns=10_000.0, decode_ns=4.0 * MS, context_ns=0.0)
    rig = a_rig(law=law)
    low = [rig.arrive(PLAIN, output=500) for _ in range(30)]
    rig.step(2)
    rig.arrive(TierTerms(name="fast", tpot_ns=20 * MS), output=400)
    rig.step(100)
    assert min(rig.tokens[number] for number in low) >= 8


# -- charges ---------------------------------------------------------------------------------------


def test_victim_is_not_charged_twice():
    """Its tag pays for a prompt once, whoever had it computed again."""
    settings = {
        "swap": SwapSettings(ways=(PreemptWay.RECOMPUTE,)),
        "victims": VictimSettings(quantum_steps=0),
    }
    rig = a_rig(settings, blocks=10)
    rig.arrive(PLAIN, prompt=100, output=30, tag="victim")
    rig.step(4)
    rig.arrive(GOLD, prompt=100, output=4, tag="gold")
    rig.run()
    assert rig.preempts == {1: 1}
    figures = rig.scheduler.line(PLAIN.priority).credits.figures()
    assert figures[TenantId("victim")] == 100 + 2 * 30


def test_laws_are_learnt_from_what_the_host_reports():
    """Steps and copies that last longer than was believed are believed in the end."""
    rig = a_rig({"learns": True}, copies=CopyLaw())
    rig.arrive(output=400)
    rig.step(300)
    assert rig.scheduler.times.law.step_ns(0, 1, 300) == pytest.approx(10 * MS, rel=0.01)


def test_law_that_was_learnt_to_cost_nothing_still_plans():
    """Steps that seem to take no time at all, as a clock that stood still would report them."""
    rig = Rig(HeadwayScheduler(an_engine()), step_ns=0)
    for _ in range(20):
        rig.arrive(GOLD, prompt=40, output=3)
        rig.step()
    rig.run()
    assert set(rig.tokens.values()) == {3}


def test_silver_yields_to_gold_and_goes_before_bronze():
    """Classes are strict where nobody has waited for too long."""
    rig = a_rig(sequences_max=1)
    rig.arrive(PLAIN, output=2)
    rig.step()
    order = [rig.arrive(terms, output=2) for terms in (BRONZE, SILVER, GOLD)]
    rig.run()
    assert sorted(order, key=rig.first_step.__getitem__) == order[::-1]


# -- engines with limits of their own --------------------------------------------------------------


def test_chunk_that_the_engine_cut_goes_on_where_it_ended():
    """What was not done is planned again, and no token is counted that did not come."""
    rig = a_rig(step_tokens_max=256)
    number = rig.arrive(prompt=200, output=3)
    (work,) = rig.scheduler.plan(rig.now_ns).work
    cut = Work(number, 0, 72, work.yields)
    rig.scheduler.handle(StepCut(work=(cut,)), rig.now_ns)
    rig.scheduler.handle(StepFinished(step_ns=MS), rig.now_ns)
    (work,) = rig.step().work
    assert (work.start, work.tokens, work.yields) == (72, 128, True)
    assert rig.tokens[number] == 1


def test_sequence_that_the_engine_left_out_is_in_the_next_step():
    """It keeps what it holds, as if it had paused."""
    rig = Rig()
    first, second = rig.arrive(), rig.arrive()
    rig.step()
    plan = rig.scheduler.plan(rig.now_ns)
    (left_out,) = [each for each in plan.work if each.sequence_id == second]
    rig.scheduler.handle(StepCut(work=(Work(second, left_out.start, 0, False),)), rig.now_ns)
    rig.scheduler.handle(StepFinished(step_ns=MS), rig.now_ns)
    rig.scheduler.roster.check()
    starts = {work.sequence_id: work.start for work in rig.step().work}
    assert starts == {first: left_out.start + 1, second: left_out.start}


@pytest.mark.parametrize("in_step", [False, True])
def test_lost_sequence_begins_again_and_is_no_victim(in_step):
    """An engine dropped it by itself: that counts against nobody, and its tokens stay."""
    rig = Rig()
    number = rig.arrive(prompt=32, output=10)
    rig.step(3)
    if in_step:
        assert rig.scheduler.plan(rig.now_ns).work
    rig.scheduler.handle(SequenceLost(sequence_id=number), rig.now_ns)
    rig.scheduler.handle(SequenceLost(sequence_id=number), rig.now_ns)
    rig.scheduler.handle(SequenceLost(sequence_id=99), rig.now_ns)
    if in_step:
        rig.scheduler.handle(StepFinished(step_ns=MS), rig.now_ns)
    rig.scheduler.roster.check()
    assert rig.scheduler.pool.used_count == 0
    assert rig.scheduler.roster.sequences[number].preempt_count == 0
    (work,) = rig.step().work
    assert (work.start, work.tokens) == (0, 35)
    rig.run()
    assert rig.tokens[number] == 10


def test_step_that_nobody_timed_teaches_nothing():
    """A host that could not time a step says 0, and the law stays."""
    rig = Rig(learns=True)
    rig.arrive()
    law = rig.scheduler.times.law
    rig.scheduler.plan(rig.now_ns)
    rig.scheduler.handle(StepFinished(step_ns=0), rig.now_ns)
    assert rig.scheduler.times.law == law
