"""OpenAI's own Python client against a server, in a process of its own: `openai_calls.py URL`.

A program, started by `test_server_openai.py`. Writes what it saw as JSON. The server has the model
`embedder` of the examples, `echo`, which gives no embeddings, and `full`, which lets nobody wait.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable

import openai

TEXTS = ["the quick brown fox", "quick foxes", "zwölf"]


def main(url: str) -> None:
    """Call everything; write what came to stdout."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="a key") as client:
        seen = {
            "models": [model.id for model in client.models.list()],
            "model": client.models.retrieve("embedder").model_dump(),
            "embeddings": embeddings(client),
            "wishes": wishes(client),
            "errors": errors(client),
            "retry": retry(client),
        }
    seen["async"] = asyncio.run(concurrently(url))
    sys.stdout.write(json.dumps(seen))


def embeddings(client: openai.OpenAI) -> dict[str, object]:
    """One text and several, in both encodings and as the client prefers."""
    as_numbers = client.embeddings.create(model="embedder", input=TEXTS, encoding_format="float")
    preferred = client.embeddings.create(model="embedder", input=TEXTS)
    coded = client.embeddings.create(model="embedder", input=TEXTS[0], encoding_format="base64")
    many = client.embeddings.create(model="embedder", input=TEXTS * 600, dimensions=64)
    first = as_numbers.data[0].embedding
    return {
        "length": len(first),
        "norm": sum(number**2 for number in first),
        "indices": [line.index for line in as_numbers.data],
        "same": [line.embedding for line in as_numbers.data]
        == [line.embedding for line in preferred.data],
        "coded": isinstance(coded.data[0].embedding, str),
        "many": len(many.data),
        "many same": many.data[1797].embedding == first,
        "usage": as_numbers.usage.model_dump(),
        "model": as_numbers.model,
    }


def wishes(client: openai.OpenAI) -> dict[str, object]:
    """What OpenAI's users send besides: never an error."""
    raw = client.embeddings.with_raw_response.create(
        model="embedder",
        input="text",
        user="me",
        extra_body={"service_tier": "flex", "priority": 3, "unheard_of": [1]},
        extra_headers={"headway-budget-ms": "4000"},
    )
    return {"status": raw.status_code, "tier": raw.parse().model_dump().get("service_tier")}


def errors(client: openai.OpenAI) -> dict[str, object]:
    """What is raised for what."""
    client = client.with_options(max_retries=0)
    create = client.embeddings.create
    return {
        "no such model": raised(lambda: create(model="none", input="x")),
        "no embedder": raised(lambda: create(model="echo", input="x")),
        "no such length": raised(lambda: create(model="embedder", input="x", dimensions=3)),
        "tokens": raised(lambda: create(model="embedder", input=[1, 2])),
        "no room": raised(lambda: create(model="full", input="x")),
        "no time": raised(
            lambda: create(model="embedder", input="x", extra_headers={"headway-budget-ms": "0"})
        ),
        "no such description": raised(lambda: client.models.retrieve("none")),
        "no chat": raised(lambda: client.chat.completions.create(model="embedder", messages=[])),
    }


def raised(call: Callable[[], object]) -> list[object]:
    """The class, status, code and parameter of the error that a call ends in."""
    try:
        call()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code, error.param]
    return ["nothing", 0, None, None]


def retry(client: openai.OpenAI) -> list[object]:
    """How a refusal ends that is tried once more, and how long the client waited before that."""
    started_at_s = time.monotonic()
    ended = raised(
        lambda: client.with_options(max_retries=1).embeddings.create(model="full", input="x")
    )
    return [*ended, time.monotonic() - started_at_s]


async def concurrently(url: str) -> int:
    """Forty requests at once; how many were answered with one vector."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="a key") as client:
        answers = await asyncio.gather(
            *(client.embeddings.create(model="embedder", input=f"text {at}") for at in range(40))
        )
    return sum(len(answer.data) == 1 for answer in answers)


main(sys.argv[1])
