"""vLLM's own OpenAI server with headway's scheduler, asked by OpenAI's own client.

What is asserted is the order in which things happen, never how long they take.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import openai
import pytest

pytestmark = pytest.mark.timeout(400)  # a server of three processes starts once
SLOTS = 4
TIERS = {"gold": {"priority": 0, "ttft": "500ms"}, "bronze": {"priority": 5}}
HEADWAY = {"headway": {"tiers": TIERS, "tier": "bronze", "weights": {"many": 1, "few": 1}}}
START_TRIES = 600
"""Looks at a server that starts; each waits for a fifth of a second."""


def a_free_port():
    """A port that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    """The address of a server in processes of its own."""
    port = a_free_port()
    log_path = tmp_path_factory.mktemp("server") / "log"
    source = str(Path(__file__).parents[2] / "src")
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--served-model-name", "tiny"),
        *("--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"),
        *("--max-model-len", "1024", "--max-num-seqs", str(SLOTS), "--block-size", "32"),
        *("--num-gpu-blocks-override", "400", "--kv-cache-memory-bytes", str(64 << 20)),
        *("--gpu-memory-utilization", "0.1", "--scheduling-policy", "priority"),
        *("--scheduler-cls", "headway.generate.vllm.Scheduler"),
        *("--additional-config", json.dumps(HEADWAY)),
    ]
    env = os.environ | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "PYTHONPATH": source}
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        _until_healthy(f"http://127.0.0.1:{port}/health", process, log_path)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _until_healthy(url, process, log_path):
    for _ in range(START_TRIES):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert process.poll() is None, log_path.read_text()[-4000:]
            time.sleep(0.2)
    raise AssertionError(log_path.read_text()[-4000:])


def open_count(server):
    """Requests that run or wait, by vLLM's own metrics."""
    names = ("vllm:num_requests_running{", "vllm:num_requests_waiting{")
    with urllib.request.urlopen(f"{server}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(names))


class Callers:
    """Streams, and in which order each had its first token and its last."""

    def __init__(self, server):
        self.client = openai.AsyncOpenAI(base_url=f"{server}/v1", api_key="none", max_retries=0)
        self.seen = []
        self.has_first = asyncio.Condition()

    async def stream(self, name, tokens, *, headers=None, **body):
        """One answer, to its end."""
        has_begun = False
        answer = await self.client.completions.create(
            model="tiny",
            prompt=f"{name} has this to say: ",
            max_tokens=tokens,
            temperature=0.0,
            stream=True,
            stream_options={"include_usage": True},
            extra_headers=headers,
            extra_body={"ignore_eos": True, **body},
        )
        usage = None
        async for chunk in answer:
            usage = chunk.usage or usage
            if chunk.choices and not has_begun:
                has_begun = True
                async with self.has_first:
                    self.seen.append(f"first {name}")
                    self.has_first.notify_all()
        self.seen.append(f"last {name}")
        assert usage.completion_tokens == tokens

    async def until_begun(self, count):
        """Until so many have had their first token."""
        async with self.has_first:
            await self.has_first.wait_for(lambda: len(self.seen) >= count)

    async def behind_a_flood(self, **call):
        """Somebody calls while more streams than there are slots are open; all that was seen."""
        async with self.client, asyncio.TaskGroup() as group:
            for index in range(3 * SLOTS):
                xargs = {"tenant": "many"}
                group.create_task(self.stream(f"many{index}", 300, vllm_xargs=xargs))
            await self.until_begun(SLOTS)
            await self.stream("late", 8, **call)
        return self.seen


@pytest.mark.parametrize(
    "call",
    [
        {"vllm_xargs": {"tenant": "few"}},
        {"vllm_xargs": {"tier": "gold"}},
        {"priority": -1},
        {"headers": {"X-Vllm-Priority": "-1"}},
    ],
    ids=["tenant", "tier", "priority", "header"],
)
def test_late_caller_is_served_before_a_flood_has_its_turn(server, call):
    """While all slots are taken and twice as many streams wait, it has its whole answer first."""
    seen = asyncio.run(Callers(server).behind_a_flood(**call))
    before = seen[: seen.index("last late")]
    assert not [each for each in before if each.startswith("last")]
    assert len([each for each in before if each.startswith("first many")]) <= SLOTS
    assert len(seen) == 2 * (3 * SLOTS + 1)


def test_what_a_client_says_wrong_costs_it_nothing(server):
    """An unknown tier and a tenant that is no name: served all the same, and chat too."""

    async def chat():
        async with openai.AsyncOpenAI(base_url=f"{server}/v1", api_key="none") as client:
            return await client.chat.completions.create(
                model="tiny",
                messages=[{"role": "user", "content": "Well?"}],
                max_tokens=5,
                extra_body={
                    "ignore_eos": True,
                    "vllm_xargs": {"tier": "copper", "tenant": [1, 2], "ttft_ms": "soon"},
                },
            )

    answer = asyncio.run(chat())
    assert answer.usage.completion_tokens == 5
    assert answer.choices[0].finish_reason == "length"


def test_client_that_leaves_frees_its_place(server):
    """Streams that nobody reads end, those that wait too, and the next caller finds room."""

    async def leave():
        callers = Callers(server)
        async with callers.client:
            tasks = [asyncio.create_task(callers.stream(f"gone{i}", 900)) for i in range(6)]
            await callers.until_begun(SLOTS)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return callers.seen

    async def come():
        callers = Callers(server)
        async with callers.client:
            await callers.stream("next", 4)

    assert not any(each.startswith("last") for each in asyncio.run(leave()))
    for _ in range(START_TRIES):
        if not open_count(server):
            break
        time.sleep(0.05)
    assert open_count(server) == 0
    asyncio.run(come())
