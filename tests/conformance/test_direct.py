"""The short way of an infer request answers as the ASGI way does."""

import asyncio
import json

import pytest
from tests.fakes import FakeEngine, a_reply
from tests.predictors import a_forecast

from headway.core import UNKNOWN, Datatype, Forecast, Tensor
from headway.errors import DeadlineExceededError, RejectedError
from headway.frontends import HttpServer, OipRest
from headway.runtime import ExpiredError

ECHO = "/v2/models/echo/infer"
BODY = {"inputs": [{"name": "INPUT", "shape": [1, 2], "datatype": "FP32", "data": [1.5, 2.5]}]}


class _AsgiOnly:
    """The same app without its short way."""

    def __init__(self, app: OipRest) -> None:
        self._app = app

    async def __call__(self, scope, receive, send) -> None:
        await self._app(scope, receive, send)


def _request(path: str = ECHO, body: object = BODY, headers: str = "") -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (
        f"POST {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {len(text)}\r\n\r\n".encode()
        + text
    )


async def _exchange(port: int, data: bytes, *, answers: int = 1) -> list[tuple[int, dict, bytes]]:
    """Send bytes on one connection and read so many responses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    found = []
    for _ in range(answers):
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        found.append((int(lines[0].split()[1]), headers, body))
    writer.close()
    await writer.wait_closed()
    return found


async def _both(engine: FakeEngine, data: bytes) -> list[tuple[int, dict, bytes]]:
    """The answers of both ways to the same bytes."""
    found = []
    app = OipRest(engine, version="0")
    for each in (app, _AsgiOnly(app)):
        server = HttpServer(each, port=0)
        await server.start()
        try:
            found += await _exchange(server.port, data)
        finally:
            await server.stop(1.0)
    return found


BINARY = (
    b'{"inputs":[{"name":"INPUT","shape":[1,2],"datatype":"FP32",'
    b'"parameters":{"binary_data_size":8}}],"parameters":{"binary_data_output":true}}'
)


LARGE = bytes(range(256)) * 1000


def _in_binary(datatype: str, shape: list[int], data: bytes, **more: object) -> bytes:
    """A request whose one tensor is bytes behind the JSON, and so is the answer's."""
    tensor = {"name": "INPUT", "shape": shape, "datatype": datatype}
    tensor["parameters"] = {"binary_data_size": len(data)}
    head = {"inputs": [tensor], "parameters": {"binary_data_output": True}, **more}
    text = json.dumps(head).encode()
    return _request(body=text + data, headers=f"inference-header-content-length: {len(text)}\r\n")


@pytest.mark.parametrize("foreseen", [UNKNOWN, a_forecast(12_345_678, 98_765_432)])
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (_request(), 200),
        (_request(body={**BODY, "id": "seven"}), 200),
        (_request(body=b"{"), 400),
        (_request(path="/v2/models/none/infer"), 404),
        (_request(path="/v2/models/echo/versions/9/infer"), 404),
        (_request(headers="headway-priority: high\r\n"), 400),
        (_request(headers="connection: close\r\n"), 200),
        (
            _request(
                body=BINARY + b"\0\0\x80?\0\0\0@",
                headers=f"inference-header-content-length: {len(BINARY)}\r\n",
            ),
            200,
        ),
        (_in_binary("UINT8", [1, 256_000], LARGE), 200),
        (_in_binary("UINT8", [1, 255_000], LARGE), 400),
        (_in_binary("UINT8", [1, 256_000], LARGE, id="x" * 5000), 400),
        (_in_binary("BYTES", [2, 1], b"\x40\x9c\0\0" + LARGE[:40_000] + b"\1\0\0\0a"), 200),
        (_in_binary("BYTES", [12_801, 1], b"\1\0\0\0a" * 12_801), 200),
        (_in_binary("BYTES", [12_800, 1], b"\1\0\0\0a" * 12_801), 400),
    ],
)
def test_both_ways_answer_alike(data: bytes, status: int, foreseen: Forecast) -> None:
    """The same request gets the same status, headers and body whichever way it takes."""

    async def run() -> None:
        direct, asgi = await _both(FakeEngine(foreseen=foreseen), data)
        assert direct == asgi
        assert direct[0] == status
        is_told = status == 200 and foreseen != UNKNOWN
        assert direct[1].get("headway-expected-ms") == ("12.346" if is_told else None)
        assert direct[1].get("headway-bound-ms") == ("98.765" if is_told else None)

    asyncio.run(run())


@pytest.mark.parametrize("is_kept_alive", [True, False])
def test_both_ways_say_how_late_an_answer_is(*, is_kept_alive: bool) -> None:
    """A header, and the reply's own parameter; an answer in time has neither."""
    connection = "" if is_kept_alive else "connection: close\r\n"

    async def run() -> None:
        for late_ns, header in ((12_345_678, "12.346"), (0, None)):
            engine = FakeEngine(late_ns=late_ns)
            direct, asgi = await _both(engine, _request(headers=connection))
            assert direct == asgi
            assert direct[0] == 200
            assert direct[1].get("headway-late-ms") == header
            assert ("late_ms" in json.loads(direct[2])["parameters"]) is (header is not None)

    asyncio.run(run())


@pytest.mark.parametrize("connection", ["", "connection: close\r\n"])
@pytest.mark.parametrize("foreseen", [UNKNOWN, a_forecast(12_345_678)])
@pytest.mark.parametrize("late_ns", [0, 1_000_000])
@pytest.mark.parametrize("request_id", [0, 412, -7])
def test_both_ways_say_which_request_it_was(
    request_id: int, late_ns: int, foreseen: Forecast, connection: str
) -> None:
    """By what records know it, with every other header or none; a call that was none has no id."""

    async def run() -> None:
        engine = FakeEngine(request_id=request_id, late_ns=late_ns, foreseen=foreseen)
        direct, asgi = await _both(engine, _request(headers=connection))
        assert direct == asgi
        assert direct[0] == 200
        expected = str(request_id) if request_id else None
        assert direct[1].get("headway-request-id") == expected

    asyncio.run(run())


def test_both_ways_say_which_request_failed() -> None:
    """An error that ended a request has its id, too."""
    error = RejectedError("full", reason="model_queue_full", retry_after_ns=2_500_000_000)
    error.request_id = 412

    async def run() -> None:
        direct, asgi = await _both(FakeEngine(outcome=error), _request())
        assert direct == asgi
        assert (direct[0], direct[1]["headway-request-id"]) == (429, "412")

    asyncio.run(run())


def _expired() -> ExpiredError:
    error = ExpiredError("late", limit="tier", stage="running")
    error.foreseen = a_forecast(2_000_000)
    return error


@pytest.mark.parametrize(
    "error",
    [
        _expired(),
        RejectedError("full", reason="model_queue_full", retry_after_ns=2_500_000_000),
        DeadlineExceededError("late", limit="tier", stage="waiting"),
        RuntimeError("a bug"),
    ],
)
def test_both_ways_answer_errors_alike(error: Exception) -> None:
    """What the engine raises has one status and one body, whichever way the request took."""

    async def run() -> None:
        direct, asgi = await _both(FakeEngine(outcome=error), _request())
        assert direct == asgi

    asyncio.run(run())


def test_pipelined_requests_are_answered_in_order_on_mixed_ways() -> None:
    """Requests sent at once, short and long way mixed, get their answers in the order sent."""
    long_body = {
        "inputs": [
            {"name": "INPUT", "shape": [1, 20000], "datatype": "FP32", "data": [0.5] * 20000}
        ]
    }
    data = b"".join(
        _request(body={**(long_body if i % 3 == 1 else BODY), "id": str(i)}) for i in range(9)
    )

    async def run() -> None:
        server = HttpServer(OipRest(FakeEngine(), version="0"), port=0)
        await server.start()
        try:
            answers = await _exchange(server.port, data, answers=9)
        finally:
            await server.stop(1.0)
        assert [json.loads(body)["id"] for _, _, body in answers] == [str(i) for i in range(9)]

    asyncio.run(run())


def test_a_client_that_leaves_cancels_its_request_at_once() -> None:
    """On the short way the connection's end itself is the cancellation."""

    async def run() -> None:
        engine = FakeEngine(gate=asyncio.Event())
        server = HttpServer(OipRest(engine, version="0"), port=0)
        await server.start()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(_request())
            async with asyncio.timeout(10):
                await engine.started.wait()
                writer.close()
                await engine.cancelled.wait()
        finally:
            await server.stop(1.0)

    asyncio.run(run())


def test_a_body_in_pieces_is_put_together() -> None:
    """The short way waits for the whole body, however it arrives."""

    async def run() -> None:
        engine = FakeEngine(outcome=a_reply(Tensor("OUTPUT", Datatype.FP32, (1, 1), b"\0\0\x80?")))
        server = HttpServer(OipRest(engine, version="0"), port=0)
        await server.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            data = _request()
            for at in range(0, len(data), 7):
                writer.write(data[at : at + 7])
                await writer.drain()
                await asyncio.sleep(0)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            assert len(engine.calls) == 1
            writer.close()
        finally:
            await server.stop(1.0)

    asyncio.run(run())


def test_large_tensors_in_pieces_on_one_connection() -> None:
    """Each comes back whole, whatever stands behind it and however it arrives."""
    ways: list[bool] = []

    class Watched(OipRest):
        def direct(self, scope):
            call = super().direct(scope)
            ways.append(call is not None)
            return call

    sent = [bytes((number,)) * 200_000 for number in range(3)]
    data = b"".join(_in_binary("UINT8", [1, 200_000], each) + _request() for each in sent)

    async def run() -> None:
        server = HttpServer(Watched(FakeEngine(), version="0"), port=0)
        await server.start()
        try:
            answers = await _exchange(server.port, data, answers=6)
        finally:
            await server.stop(1.0)
        for each, (status, headers, body) in zip(sent, answers[::2], strict=True):
            assert status == 200
            assert body[int(headers["inference-header-content-length"]) :] == each
        assert all(ways)

    asyncio.run(run())


def test_a_client_that_leaves_while_its_large_body_is_decoded() -> None:
    """Nothing is submitted for it."""

    async def run() -> None:
        engine = FakeEngine()
        app = OipRest(engine, version="0")
        data = _in_binary("BYTES", [20_000, 1], b"\1\0\0\0a" * 20_000)
        head, _, body = data.partition(b"\r\n\r\n")
        pairs = [tuple(line.split(b": ")) for line in head.split(b"\r\n")[1:]]
        call = app.direct({"method": "POST", "path": ECHO, "headers": pairs})
        assert call is not None
        call.run(bytearray(body), lambda _: pytest.fail("nobody is there"))
        call.cancel()
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(0)
        assert (app.answers[499], engine.calls) == (1, [])

    asyncio.run(run())
