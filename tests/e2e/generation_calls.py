"""OpenAI's own client against a server that generates, in a process of its own.

A program, `generation_calls.py URL`, started by `test_server_generators.py`. Writes what it saw as
JSON. The server has the generator `tiny`, and `echo`, which generates nothing.
"""

import asyncio
import json
import sys
from collections.abc import Callable

import openai

MESSAGES = [{"role": "user", "content": "Say something."}]
LONG = {"max_tokens": 200, "extra_body": {"ignore_eos": True}}


def main(url: str) -> None:
    """Call everything; write what came to stdout."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="a key", max_retries=0) as client:
        seen = {
            "models": [model.id for model in client.models.list()],
            "capabilities": client.models.retrieve("tiny").model_dump()["capabilities"],
            "chat": chat(client),
            "completions": completions(client),
            "errors": errors(client),
        }
    seen["async"] = asyncio.run(concurrently(url))
    sys.stdout.write(json.dumps(seen))


def chat(client: openai.OpenAI) -> dict[str, object]:
    """Whole and as a stream, with everything that the client can ask for."""
    create = client.chat.completions.create
    asked = {"model": "tiny", "messages": MESSAGES, "seed": 3, "n": 2, "temperature": 0.7}
    whole = create(**asked, max_completion_tokens=24, service_tier="flex")
    with create(
        **asked,
        max_completion_tokens=24,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"priority": 3},
    ) as stream:
        chunks = list(stream)
    texts, ends = ["", ""], []
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            ends += [choice.finish_reason] if choice.finish_reason else []
    told = create(**asked, max_completion_tokens=3, logprobs=True, top_logprobs=2)
    content = told.choices[0].logprobs.content
    return {
        "roles": [choice.message.role for choice in whole.choices],
        "same": texts == [choice.message.content for choice in whole.choices],
        "differ": texts[0] != texts[1],
        "ends": [sorted(ends), sorted(choice.finish_reason for choice in whole.choices)],
        "usage": [whole.usage.model_dump(exclude_none=True),
                  chunks[-1].usage.model_dump(exclude_none=True)],
        "usage chunks": sum(chunk.usage is not None for chunk in chunks),
        "objects": sorted({chunk.object for chunk in chunks}),
        "ids": len({chunk.id for chunk in chunks}),
        "tier": whole.service_tier,
        "logprobs": [len(content), len(content[0].top_logprobs), content[0].logprob <= 0],
    }  # fmt: skip


def completions(client: openai.OpenAI) -> dict[str, object]:
    """Several prompts, tokens, a text to stop at."""
    create = client.completions.create
    asked = {"model": "tiny", "temperature": 0, "extra_body": {"ignore_eos": True}}
    both = create(**asked, prompt=["the", "and"], max_tokens=12, logprobs=1)
    one = create(**asked, prompt="the", max_tokens=12)
    text = one.choices[0].text
    stop = text[4:6]
    stopped = create(**asked, prompt="the", max_tokens=12, stop=stop)
    with create(**asked, prompt="the", max_tokens=12, stop=stop, stream=True) as stream:
        streamed = "".join(chunk.choices[0].text for chunk in stream)
    tokens = create(**asked, prompt=[5, 6, 7], max_tokens=2)
    return {
        "indices": [choice.index for choice in both.choices],
        "first same": both.choices[0].text == text,
        "logprobs": len(both.choices[0].logprobs.tokens),
        "stopped": stopped.choices[0].text == streamed == text[: text.find(stop)],
        "stop reason": stopped.choices[0].finish_reason,
        "tokens": tokens.usage.prompt_tokens,
    }


def errors(client: openai.OpenAI) -> dict[str, object]:
    """What is raised for what."""
    create = client.chat.completions.create
    asked = {"model": "tiny", "messages": MESSAGES}
    return {
        "no such model": raised(lambda: create(model="none", messages=MESSAGES)),
        "no generator": raised(lambda: create(model="echo", messages=MESSAGES)),
        "tools": raised(lambda: create(**asked, tools=[{"type": "function"}])),
        "unknown": raised(lambda: create(**asked, extra_body={"best_effort": 1})),
        "hot": raised(lambda: create(**asked, temperature=9)),
        "too long": raised(lambda: create(**asked, max_tokens=100_000)),
        "no time": raised(lambda: create(**asked, extra_headers={"headway-budget-ms": "0"})),
        "no time left": raised(
            lambda: list(
                create(
                    **asked, **LONG, n=32, stream=True, extra_headers={"headway-budget-ms": "30"}
                )
            )
        ),
        "no tier": raised(lambda: create(**asked, extra_headers={"headway-tier": "iron"})),
    }


def raised(call: Callable[[], object]) -> list[object]:
    """The class of an error, its status, code and key."""
    try:
        call()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code, error.param]
    except openai.APIError as error:
        return [type(error).__name__, None, error.code, error.param]
    return ["nothing"]


async def concurrently(url: str) -> dict[str, object]:
    """Many at once say what each says."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="a key") as client:

        async def one() -> str:
            answer = await client.completions.create(
                model="tiny", prompt="the", max_tokens=16, temperature=0
            )
            return answer.choices[0].text

        texts = await asyncio.gather(*(one() for _ in range(24)))
    return {"answers": len(texts), "kinds": len(set(texts))}


if __name__ == "__main__":
    main(sys.argv[1])
