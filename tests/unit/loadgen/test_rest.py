"""The client against a small server in the same process, which answers when the test says."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from headway.errors import ConfigError
from headway.loadgen import Body, RestClient, encode_body, play, precise_loop, tensors_of
from headway.units import NS_PER_MS
from headway.workload import Arrival, Outcome, Recorded, Stream, Workload

METADATA = {"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]}
REPLY = {"outputs": [], "parameters": {"queue_us": 3, "service_us": 4, "batch_rows": 1}}
ARRIVAL = Arrival(0, 0, "m", "live", "acme", 1, 5 * NS_PER_MS, None)


@asynccontextmanager
async def a_server(infer):
    """Serves one model `m`; `infer(request)` answers its requests."""

    async def metadata(request):
        if request.match_info["model"] == "m":
            return web.json_response(METADATA)
        return web.json_response({"error": "no such model"}, status=404)

    app = web.Application(client_max_size=1 << 23)
    app.router.add_get("/v2/models/{model}", metadata)
    app.router.add_post("/v2/models/{model}/infer", infer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def run(main):
    """Run on the loop that the product uses."""
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        return runner.run(main)


def test_a_request_arrives_whole_and_its_reply_is_read():
    """Path, headers and body are the protocol's; a binary reply's JSON is found."""
    seen = {}

    async def infer(request):
        seen.update(path=request.path, headers=request.headers, body=await request.read())
        text = json.dumps(REPLY).encode()
        headers = {
            "Inference-Header-Content-Length": str(len(text)),
            "Headway-Expected-Ms": "1.500",
            "Headway-Bound-Ms": "2.250",
        }
        return web.Response(body=text + b"\xff\0", headers=headers)

    async def main():
        async with a_server(infer) as url, RestClient(url + "/") as client:
            return await client.send(ARRIVAL, Body(b"{}tensor", 2))

    answer = run(main())
    assert (answer.outcome, answer.queue_delay_ns, answer.batch_rows) == ("completed", 3_000, 1)
    assert (answer.expected_ns, answer.bound_ns) == (1_500_000, 2_250_000)
    assert seen["path"] == "/v2/models/m/infer"
    assert seen["body"] == b"{}tensor"
    assert seen["headers"]["Inference-Header-Content-Length"] == "2"
    assert seen["headers"]["headway-budget-ms"] == "5"


def test_a_large_body_is_sent_without_a_warning():
    """A picture of more than a mebibyte is an ordinary request."""
    sizes = []

    async def infer(request):
        sizes.append(len(await request.read()))
        return web.json_response({"error": "full", "code": "rejected"}, status=429)

    async def main():
        async with a_server(infer) as url, RestClient(url) as client:
            return await client.send(ARRIVAL, Body(b"x" * (2 << 20), 2))

    assert run(main()) == (Outcome.REJECTED, 429, *[None] * 7)
    assert sizes == [2 << 20]


def test_a_lost_connection_is_a_failure():
    """A server that hangs up, or is not there, fails the request and not the run."""

    async def hang_up(request):
        request.transport.abort()
        return web.Response()

    async def main():
        async with a_server(hang_up) as url, RestClient(url) as client:
            hung_up = await client.send(ARRIVAL, Body(b"{}", 2))
        async with RestClient(url) as client:
            return hung_up, await client.send(ARRIVAL, Body(b"{}", 2))

    assert [answer.outcome for answer in run(main())] == [Outcome.FAILED] * 2


def test_metadata_is_asked_for():
    """Inputs of a model come from the server; an unknown model and a missing server are named."""

    async def main():
        async with a_server(unreachable) as url, RestClient(url) as client:
            known = await client.metadata(["m"])
            with pytest.raises(ConfigError, match="no such model"):
                await client.metadata(["other"])
        async with RestClient(url) as client:
            with pytest.raises(ConfigError, match="does not say"):
                await client.metadata(["m"])
        return known

    assert run(main())["m"].inputs[0].shape == (-1, 4)


async def unreachable(request):
    """Never called."""
    raise AssertionError


def test_a_stalled_server_stalls_no_sending():
    """Over real connections too, all requests are under way before the first is answered."""
    received, release = [], asyncio.Event()

    async def infer(request):
        await request.read()
        received.append(request.headers["headway-tier"])
        if len(received) == 20:
            release.set()
        await release.wait()
        return web.json_response(REPLY)

    stream = Stream(model="m", tier="live", arrivals=Recorded((NS_PER_MS,), 1_000.0))
    workload = Workload(streams=(stream,), duration_ns=20 * NS_PER_MS + 1)

    class Bodies:
        def body(self, arrival):
            return encode_body(tensors_of({}))

    async def main():
        async with a_server(infer) as url, RestClient(url) as client:
            return await play(workload, Bodies(), client.send)

    result = run(main())
    assert [sample.outcome for sample in result.samples] == [Outcome.COMPLETED] * 20
    for sample in result.samples:
        assert sample.latency_ns >= 20 * NS_PER_MS - sample.intended_at_ns
        assert sample.service_ns == 4_000
