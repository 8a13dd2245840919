"""OpenAI's completions as they are asked for, and as they are answered."""

import json

import pytest

from headway.core import ModelName, TenantId
from headway.decoder import Said, TokenLogprob
from headway.errors import DeadlineExceededError
from headway.frontends.generating import ServedGenerator
from headway.frontends.openai_answers import GenerationAnswer, error_event
from headway.frontends.openai_errors import ParameterError
from headway.frontends.openai_generation import (
    GenerationForm,
    choices_of,
    decode_chat,
    decode_completion,
    form_of,
    generation_call,
    order_of,
)
from headway.generate import TierTerms

MESSAGES = [{"role": "user", "content": "hi"}]
TERMS = TierTerms(name="standard", priority=3)
SERVED = ServedGenerator(
    generator=None, tier="standard", terms={}, budgets_ns={}, answer_tokens_max=100
)


def chat(**keys):
    return decode_chat(json.dumps({"model": "m", "messages": MESSAGES, **keys}).encode())


def completion(**keys):
    return decode_completion(json.dumps({"model": "m", "prompt": "hi", **keys}).encode())


def order(wanted):
    return order_of(wanted, SERVED, TenantId("t"), TERMS, 5)


def asked(kind, keys):
    wanted = kind(**keys)
    form_of(wanted)
    return order(wanted)


def events_of(raw):
    lines = [line.removeprefix(b"data: ") for line in raw.split(b"\n\n") if line]
    return [line if line == b"[DONE]" else json.loads(line) for line in lines]


def test_chat_becomes_an_order():
    """Every wish that changes the answer is in it."""
    found = order(
        chat(
            max_tokens=7,
            max_completion_tokens=5,
            temperature=0.5,
            top_p=0.9,
            n=2,
            stop=["a", "b"],
            seed=9,
            presence_penalty=0.1,
            frequency_penalty=0.2,
            logit_bias={"3": -1},
            logprobs=True,
            top_logprobs=4,
        )
    )
    assert (found.tokens_max, found.choices, found.answer_tokens_max) == (5, 2, 100)
    assert (found.tag, found.terms, found.age_ns) == ("t", TERMS, 5)
    wishes = found.wishes
    assert (wishes.temperature, wishes.top_p, wishes.seed) == (0.5, 0.9, 9)
    assert (wishes.presence_penalty, wishes.frequency_penalty) == (0.1, 0.2)
    assert (wishes.stops, wishes.logit_bias, wishes.logprobs) == (("a", "b"), {"3": -1.0}, 4)
    assert [each.content for each in found.prompts[0].messages] == ["hi"]


def test_message_in_parts_and_by_a_developer_is_one():
    """Text parts are joined; `developer` is what was `system`."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "developer", "content": parts}]
    found = order(chat(messages=messages)).prompts[0].messages[0]
    assert (found.role, found.content) == ("system", "ab")


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("x", 1), (["x", "y"], 2), ([1, 2, 3], 1), ([[1, 2], [3]], 2), (["x", [3]], 2)],
)
def test_prompts_of_a_completion(prompt, count):
    """Texts and tokens, one or several."""
    wanted = completion(prompt=prompt, n=2)
    assert len(order(wanted).prompts) == count
    assert choices_of(wanted) == 2 * count
    assert order(wanted).tokens_max == 16


@pytest.mark.parametrize(
    ("keys", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"prediction": {}}, "prediction"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": ""}, "stop"),
        ({"top_k": 3}, "top_k"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
    ],
)
def test_what_is_not_done_is_refused_by_its_key(keys, param):
    """Whoever asks for it learns that no answer would heed it."""
    with pytest.raises(ParameterError) as caught:
        asked(chat, keys)
    assert param == caught.value.param


@pytest.mark.parametrize(
    ("keys", "param"),
    [
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"logprobs": 6}, "logprobs"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [{}]}, "prompt"),
        ({"prompt": ["a"] * 100, "n": 2}, "n"),
        ({"prompt": None}, "prompt"),
    ],
)
def test_completions_refuse_what_is_not_done(keys, param):
    """By its key, too."""
    with pytest.raises(ParameterError) as caught:
        asked(completion, keys)
    assert param == caught.value.param


def test_keys_that_change_nothing_are_accepted():
    """As OpenAI's users send them, and nulls as if they were not there."""
    wanted = chat(
        user="me",
        metadata={"a": "b"},
        store=False,
        safety_identifier="x",
        parallel_tool_calls=True,
        tools=[],
        tool_choice="none",
        response_format={"type": "text"},
        modalities=["text"],
        stop=None,
        temperature=None,
        n=None,
    )
    assert order(wanted).wishes.temperature == 1.0
    assert order(completion(echo=False, best_of=2, n=2)).choices == 2


def test_call_has_tier_and_priority():
    """A service tier stands for a tier, a header wins, and priority is headway's own scale."""
    wanted = chat(service_tier="flex", priority=4)
    form = form_of(wanted)
    terms = {"tiers": {"flex": "bulk"}, "arrived_at_ns": 1}
    call = generation_call(wanted, form, **terms, headers={})
    assert (call.model, call.tier, call.priority) == ("m", "bulk", 4)
    call = generation_call(wanted, form, **terms, headers={b"headway-tier": b"gold"})
    assert call.tier == "gold"
    assert form.tier == "flex"


def a_form(**changes):
    given = {
        "model": "m",
        "is_chat": True,
        "is_stream": True,
        "has_usage": True,
        "has_logprobs": False,
        "tier": None,
    }
    return GenerationForm(**given | changes)


SAID = [
    Said(request_id=1, choice=0, text="He"),
    Said(request_id=1, choice=1, text=""),
    Said(request_id=1, choice=0, text="llo", finish="length"),
    Said(request_id=1, choice=1, text="Yo", is_end=True, finish="stop"),
]


@pytest.mark.parametrize("is_chat", [True, False])
def test_stream_says_what_the_whole_says(is_chat):
    """Text joined is the same, each answer ends once, and usage is equal both ways."""
    whole = GenerationAnswer(a_form(is_chat=is_chat), "id", 3, 10, 2)
    whole.add(SAID)
    body = json.loads(whole.whole())
    stream = GenerationAnswer(a_form(is_chat=is_chat), "id", 3, 10, 2)
    raw = stream.first() + stream.events(SAID[:2]) + stream.events(SAID[2:]) + stream.last()
    *events, usage, done = events_of(raw)
    assert done == b"[DONE]"
    assert usage["choices"] == []
    assert usage["usage"] == body["usage"]
    assert body["usage"] == {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    assert all(event["usage"] is None for event in events)
    texts, ends = ["", ""], [[], []]
    for event in events:
        (choice,) = event["choices"]
        shown = choice["delta"].get("content", "") if is_chat else choice["text"]
        texts[choice["index"]] += shown
        if choice["finish_reason"]:
            ends[choice["index"]].append(choice["finish_reason"])
    told = [each["message"]["content"] if is_chat else each["text"] for each in body["choices"]]
    assert texts == told == ["Hello", "Yo"]
    assert ends == [["length"], ["stop"]]
    assert [each["finish_reason"] for each in body["choices"]] == ["length", "stop"]


def test_stream_without_usage_has_no_such_key():
    """Nor an event for it; a chat begins with the role."""
    stream = GenerationAnswer(a_form(has_usage=False), "id", 3, 10, 1)
    events = events_of(stream.first() + stream.events(SAID[:1]) + stream.last())
    assert "usage" not in events[0]
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len(events) == 3


def test_logprobs_in_both_forms():
    """Tokens as text and bytes, the likeliest beside them, and where each begins."""
    said = [
        Said(request_id=1, choice=0, text="a", logprob=TokenLogprob(b"a", -0.5, [(b"a", -0.5)])),
        Said(
            request_id=1,
            choice=0,
            text="b",
            finish="length",
            logprob=TokenLogprob(b"\xf0", -1.5, [(b"c", -1.0)]),
        ),
    ]
    answer = GenerationAnswer(a_form(has_logprobs=True), "id", 3, 1, 1)
    answer.add(said)
    content = json.loads(answer.whole())["choices"][0]["logprobs"]["content"]
    assert content[0] == {
        "token": "a",
        "logprob": -0.5,
        "bytes": [97],
        "top_logprobs": [{"token": "a", "logprob": -0.5, "bytes": [97]}],
    }
    assert content[1]["bytes"] == [0xF0]
    answer = GenerationAnswer(a_form(is_chat=False, has_logprobs=True), "id", 3, 1, 1)
    answer.add(said)
    found = json.loads(answer.whole())["choices"][0]["logprobs"]
    assert found["tokens"] == ["a", "\ufffd"]
    assert found["text_offset"] == [0, 1]
    assert found["top_logprobs"] == [{"a": -0.5}, {"c": -1.0}]
    assert found["token_logprobs"] == [-0.5, -1.5]


def test_error_in_a_stream_has_openais_form():
    """One event, with what it was."""
    error = DeadlineExceededError("too late", limit="tiers.gold.budget", stage="running")
    (event,) = events_of(error_event(error))
    assert event["error"]["code"] == "deadline_exceeded"
    assert event["error"]["limit"] == "tiers.gold.budget"
    assert event["error"]["type"] == "server_error"


def test_names_are_those_of_the_core():
    """A model's name is what is asked for."""
    assert ModelName(chat().model) == "m"


@pytest.mark.parametrize(
    ("keys", "param"),
    [
        ({"seed": 1 << 64}, "seed"),
        ({"seed": -(1 << 64)}, "seed"),
        ({"max_tokens": 1 << 64}, "max_tokens"),
        ({"prompt": [1 << 70]}, "prompt"),
        ({"prompt": [[1, -(1 << 70)]]}, "prompt"),
        ({"prompt": [1] * ((1 << 18) + 1)}, "prompt"),
        ({"prompt": [[1] * (1 << 17)] * 3}, "prompt"),
        ({"logit_bias": {str(index): 1 for index in range(1_001)}}, "logit_bias"),
    ],
)
def test_what_no_worker_can_be_told_is_refused_by_its_key(keys, param):
    """Numbers beyond 64 bits, and so much that to look through it would keep others waiting."""
    with pytest.raises(ParameterError) as caught:
        order(completion(**keys))
    assert caught.value.param == param


def test_conversation_of_countless_messages_is_refused():
    """Before they are looked through."""
    with pytest.raises(ParameterError, match="16385") as caught:
        chat(messages=MESSAGES * ((1 << 14) + 1))
    assert caught.value.param == "messages"
