"""Laws of the built-in engine, under any arrivals, cancellations and too little memory."""

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoder_rig import GOLD, PLAIN, Play, a_model, alone

from headway.decoder import Tokenizer
from headway.decoder.tiny import TinyCheckpoint
from headway.generate import PreemptWay, SwapSettings, VictimSettings, WatermarkSettings

PROMPTS = ("a", "the and the", "hello you there", "a prompt of more than thirty tokens or so")
ARRIVALS = st.tuples(
    st.just("ask"), st.sampled_from(PROMPTS), st.integers(1, 24), st.sampled_from([GOLD, PLAIN])
)
STEPS = st.tuples(st.just("step"), st.integers(1, 8))
CANCELS = st.tuples(st.just("cancel"), st.integers(0, 20))
PLAYS = st.lists(st.one_of(ARRIVALS, ARRIVALS, STEPS, CANCELS), min_size=3, max_size=25)
WAYS = st.sampled_from([(PreemptWay.RECOMPUTE,), (PreemptWay.SWAP,), tuple(PreemptWay)])


@cache
def expected(prompt):
    return alone(prompt, tokens=24)


@settings(max_examples=60)
@given(plays=PLAYS, ways=WAYS, blocks=st.sampled_from([6, 9, 64]), slots=st.sampled_from([2, 8]))
def test_answers_are_those_of_each_alone_and_all_memory_comes_back(plays, ways, blocks, slots):
    """Whoever came, left or was preempted meanwhile; rows and blocks add up after every event."""
    play = Play(
        a_model(blocks=blocks, context=80, sequences_max=slots),
        swap=SwapSettings(ways=ways, host_tokens_max=100),
        victims=VictimSettings(quantum_steps=1, preempts_max=2),
        watermark=WatermarkSettings(high_ratio=1.0, low_ratio=0.99),
    )
    asked, gone = {}, set()
    for kind, *what in plays:
        if kind == "ask":
            prompt, tokens, terms = what
            asked[play.ask(prompt, tokens=tokens, terms=terms)] = (prompt, tokens)
        elif kind == "step":
            play.step(what[0])
        else:
            play.cancel(what[0])
            gone.add(what[0])
    play.run()
    for number, (prompt, tokens) in asked.items():
        if number not in gone:
            assert play.tokens[number] == expected(prompt)[:tokens]
        else:
            assert play.tokens[number] == expected(prompt)[: len(play.tokens[number])]
    assert play.engine.pool.used_count == 0
    assert play.engine.pool.row_of == {}
    assert play.engine.scheduler.preemption.rule.host_tokens == 0


TOKENIZER = Tokenizer(TinyCheckpoint().vocabulary)


@given(st.text(max_size=60))
def test_any_text_comes_back_from_its_tokens(text):
    """Surrogates apart, which are no text."""
    plain = text.encode("utf-8", "replace").decode()
    assert TOKENIZER.decode(TOKENIZER.encode(plain)) == plain
