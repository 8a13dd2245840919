"""The worker's logic: requests become sequences, tokens become what was said."""

import pytest
from tests.decoder_rig import GREEDY, PLAIN, Play, a_model, alone

from headway.decoder import Generate, Message, Prompt, Wishes
from headway.decoder.answering import Answering
from headway.decoder.wire import ORDERS, REPLIES, Begun, Cancel, Frames, Refused, Stop, framed
from headway.generate import TierTerms

HELLO = Prompt(text="hello")


def an_order(*prompts, request_id=1, choices=1, tokens=6, terms=PLAIN, limit=1_000, **wishes):
    return Generate(
        request_id=request_id,
        prompts=list(prompts) or [HELLO],
        choices=choices,
        tokens_max=tokens,
        answer_tokens_max=limit,
        wishes=Wishes(**{"temperature": 0.0, "ignores_end": True} | wishes),
        tag="t",
        terms=terms,
        age_ns=0,
    )


def an_answering(**limits):
    play = Play(a_model(**limits))
    return Answering(play.engine, play.now_ns, "seed")


def all_said(answering):
    said = []
    while (stepped := answering.step()) is not None:
        said += stepped.said
    return said


def text_of(said, choice=0):
    return "".join(each.text for each in said if each.choice == choice)


def test_request_is_let_in_and_answered():
    """Its tokens are told, the last with how it ended, and the steps' time is on them."""
    answering = an_answering()
    assert answering.generate(an_order()) == Begun(request_id=1, prompt_tokens=5)
    said = all_said(answering)
    assert len(said) == 6
    assert [each.finish for each in said] == [None] * 5 + ["length"]
    assert all(each.device_ns > 0 for each in said)
    play = Play()
    number = play.ask("hello", tokens=6, sampling=GREEDY)
    assert text_of(said) == play.run().texts[number]
    assert not answering._requests
    assert not answering._places


def test_answers_of_several_prompts_are_counted_through():
    """Two prompts with two answers each are four choices; chance parts those of one prompt."""
    answering = an_answering()
    other = Prompt(tokens=[10, 11, 12])
    begun = answering.generate(an_order(HELLO, other, choices=2, temperature=1.0, tokens=20))
    assert begun.prompt_tokens == 2 * 5 // 2 + 3
    said = all_said(answering)
    texts = [text_of(said, choice) for choice in range(4)]
    assert len(set(texts)) == 4


def test_seed_of_a_client_gives_the_same_answer():
    """And without one, two requests differ."""
    answering = an_answering()
    texts = []
    for request_id, seed in ((1, 7), (2, 7), (3, None), (4, None)):
        answering.generate(an_order(request_id=request_id, seed=seed, temperature=1.0, tokens=20))
        texts.append(text_of(all_said(answering)))
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


def test_conversation_is_written_in_the_models_form():
    """Special tokens around messages, and none of them from what a message says."""
    answering = an_answering()
    prompt = Prompt(messages=[Message("user", "<|im_end|>")])
    begun = answering.generate(an_order(prompt))
    form = answering.engine.model.card.chat
    ids = answering.engine.model.tokenizer.encode_pieces(form.pieces(prompt.messages))
    assert begun.prompt_tokens == len(ids)
    assert ids.count(2) == 1
    all_said(answering)


def test_limit_of_the_server_cuts_what_is_asked():
    """However many tokens a client wants, or none named."""
    answering = an_answering()
    answering.generate(an_order(tokens=50, limit=3))
    assert len(all_said(answering)) == 3
    answering.generate(an_order(tokens=None, limit=4))
    assert len(all_said(answering)) == 4


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (an_order(Prompt(text="")), "empty"),
        (an_order(Prompt(text="x" * 100), tokens=50), "takes `128` together"),
        (an_order(Prompt(text="x" * 100_000)), "bytes"),
        (an_order(Prompt(tokens=[5, 99_999])), "`99999`, which is no token"),
        (an_order(Prompt(messages=[Message("pirate", "arr")])), "role `pirate`"),
        (an_order(temperature=3.0), "temperature"),
        (an_order(logit_bias={"99999": 1.0}), "logit_bias"),
    ],
)
def test_request_that_cannot_be_answered_is_refused_with_the_reason(order, message):
    """And leaves nothing behind."""
    answering = an_answering()
    refused = answering.generate(order)
    assert isinstance(refused, Refused)
    assert not refused.is_full
    assert message in refused.message
    assert answering.engine.count == 0


def test_full_line_refuses_the_whole_request():
    """Answers of it that were let in already are taken back."""
    answering = an_answering(waiting_max=3)
    refused = answering.generate(an_order(choices=5))
    assert refused.is_full
    assert answering.engine.count == 0
    assert isinstance(answering.generate(an_order(choices=3)), Begun)
    all_said(answering)


def test_prompt_that_is_too_long_for_its_tiers_target_is_told_so():
    """Where the tier refuses what physics does not allow."""
    strict = TierTerms(name="now", ttft_ns=1_000, refuses_unreachable=True)
    refused = an_answering().generate(an_order(terms=strict))
    assert "tier `now` promises the first token within 1us" in refused.message
    assert refused.hint


def test_cancelled_request_is_out_of_the_next_step():
    """With all its answers; others go on, and unknown ones do not matter."""
    answering = an_answering()
    answering.generate(an_order(choices=3, tokens=50))
    answering.generate(an_order(request_id=2, tokens=8))
    answering.step()
    answering.cancel(1)
    answering.cancel(1)
    answering.cancel(99)
    said = all_said(answering)
    assert {each.request_id for each in said} == {2}
    assert len(said) == 7
    assert answering.engine.pool.used_count == 0


def test_ended_answers_of_a_request_survive_its_cancellation():
    """One that has ended is not cancelled again."""
    answering = an_answering()
    answering.generate(an_order(HELLO, HELLO, tokens=5))
    all_said(answering)
    answering.cancel(1)
    assert answering.engine.count == 0


def test_logprobs_are_told_by_the_bytes_of_tokens():
    """So many likeliest as were asked for."""
    answering = an_answering()
    answering.generate(an_order(logprobs=2, tokens=3))
    said = all_said(answering)
    assert [each.logprob.token.decode(errors="replace") for each in said]
    assert all(len(each.logprob.top) == 2 for each in said)
    assert all(each.logprob.top[0][0] == each.logprob.token for each in said)


def test_frames_come_apart_as_they_were_put_together():
    """Whatever pieces bytes come in."""
    orders = [an_order(), Cancel(request_id=3), Stop()]
    raw = b"".join(framed(order) for order in orders)
    for size in (1, 5, 1_000):
        frames, found = Frames(), []
        for at in range(0, len(raw), size):
            found += frames.feed(raw[at : at + size], ORDERS)
        assert orders == found


def test_frame_of_an_absurd_length_is_refused():
    """It would be waited for for ever."""
    with pytest.raises(ValueError, match="a frame of"):
        list(Frames().feed(b"\xff\xff\xff\xff", REPLIES))


def test_rig_agrees_with_itself():
    """The reference of these tests is what one sequence says alone."""
    assert len(alone("hello", tokens=6)) == 6
