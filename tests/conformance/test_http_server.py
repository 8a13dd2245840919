"""The server on loopback: connections, limits, slow clients, hang-ups, and how it stops."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
from tests.fakes import FakeEngine

from headway.frontends import DisconnectWatch, HttpLimits, HttpServer, OipRest

ONE = {"name": "INPUT", "shape": [1, 2], "datatype": "FP32", "data": [1.5, 2]}
BODY = json.dumps({"inputs": [ONE]}).encode()
INFER = (
    b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(BODY)
) + BODY
LIVE = b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n"
GRACE_S = 20.0
"""Longer than any test: what waits for it has failed."""


@contextlib.asynccontextmanager
async def serving(engine: FakeEngine, **options) -> AsyncIterator[HttpServer]:
    """A server on a free port, stopped at the end."""
    server = HttpServer(OipRest(engine, version="1"), port=0, limits=HttpLimits(**options))
    await server.start()
    try:
        yield server
    finally:
        await server.stop(GRACE_S)


class Client:
    """One connection, and answers read from it one by one."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, server):
        return cls(*await asyncio.open_connection("127.0.0.1", server.port))

    def send(self, data):
        self.writer.write(data)

    async def answer(self):
        """Status, headers and body of the next response."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        body = await self.reader.readexactly(int(headers["content-length"]))
        return int(lines[0].split()[1]), headers, body

    async def end(self):
        """Whatever comes until the server closes."""
        return await self.reader.read()

    async def close(self):
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def connected(server) -> AsyncIterator[Client]:
    client = await Client.connect(server)
    try:
        yield client
    finally:
        await client.close()


def test_a_connection_is_kept():
    """One connection carries many requests, with no headers that nobody asked for."""

    async def run():
        async with serving(FakeEngine()) as server, connected(server) as client:
            for _ in range(3):
                client.send(INFER)
                status, headers, body = await client.answer()
                assert status == 200
                assert set(headers) == {"content-type", "content-length"}
                assert json.loads(body)["outputs"][0]["data"] == [1.5, 2.0]

    asyncio.run(run())


def test_pipelined_requests_are_answered_in_order():
    """Requests sent without waiting are answered one after the other."""

    async def run():
        async with serving(FakeEngine()) as server, connected(server) as client:
            client.send(INFER + LIVE + INFER)
            bodies = [json.loads((await client.answer())[2]) for _ in range(3)]
            assert ["outputs" in body for body in bodies] == [True, False, True]

    asyncio.run(run())


def test_head_and_no_body_are_one_answer():
    """HEAD is answered at once although no body follows."""

    async def run():
        async with serving(FakeEngine()) as server, connected(server) as client:
            client.send(b"HEAD /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n")
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")

    asyncio.run(run())


def test_a_chunked_body_is_a_body():
    """A request may come without its length, in chunks."""

    async def run():
        head = INFER[: -len(BODY)].replace(
            b"content-length: %d" % len(BODY), b"transfer-encoding: chunked"
        )
        async with serving(FakeEngine()) as server, connected(server) as client:
            client.send(head)
            for piece in (BODY[:7], BODY[7:]):
                client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            client.send(b"0\r\n\r\n")
            assert (await client.answer())[0] == 200

    asyncio.run(run())


def test_what_follows_a_body_is_no_header():
    """A proxy's header cannot be replaced behind its back, in the trailer of a chunked body."""

    async def run():
        head = INFER[: -len(BODY)].replace(
            b"content-length: %d" % len(BODY),
            b"transfer-encoding: chunked\r\nheadway-tenant: acme",
        )
        data = head + b"%x\r\n%b\r\n0\r\nheadway-tenant: other\r\n\r\n" % (len(BODY), BODY)
        engine = FakeEngine()
        async with serving(engine) as server, connected(server) as client:
            client.send(data)
            assert (await client.answer())[0] == 200
            assert engine.calls[0].tenant == "acme"

    asyncio.run(run())


def test_a_client_may_ask_before_it_sends():
    """`Expect: 100-continue` is answered before the body comes."""

    async def run():
        head = INFER[: -len(BODY)].replace(b"host: x", b"host: x\r\nexpect: 100-continue")
        async with serving(FakeEngine()) as server, connected(server) as client:
            client.send(head)
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
            client.send(BODY)
            assert (await client.answer())[0] == 200

    asyncio.run(run())


def test_a_large_reply_arrives_whole():
    """A body that is not joined with its head arrives like any other."""

    async def run():
        one = {"name": "INPUT", "shape": [50_000], "datatype": "INT32", "data": [7] * 50_000}
        body = json.dumps({"inputs": [one]}).encode()
        head = INFER[: -len(BODY)].replace(b"%d" % len(BODY), b"%d" % len(body))
        async with serving(FakeEngine()) as server, connected(server) as client:
            client.send(head + body)
            assert json.loads((await client.answer())[2])["outputs"][0]["data"] == [7] * 50_000

    asyncio.run(run())


def test_a_body_over_the_limit_ends_the_connection():
    """A body that is too large is answered and the connection closed."""

    async def run():
        app = OipRest(FakeEngine(), version="1", body_bytes_max=10)
        server = HttpServer(app, port=0)
        await server.start()
        async with connected(server) as client:
            client.send(INFER)
            assert (await client.answer())[0] == 413
            assert await client.end() == b""
        await server.stop(GRACE_S)

    asyncio.run(run())


def test_a_head_without_end_is_cut_off():
    """A head that goes on and on is answered with 431 and the end."""

    async def run():
        async with (
            serving(FakeEngine(), head_bytes_max=1000) as server,
            connected(server) as client,
        ):
            client.send(b"GET / HTTP/1.1\r\n")
            for at in range(200):
                client.send(b"x-%d: %b\r\n" % (at, b"y" * 90))
            status, _, body = await client.answer()
            assert (status, "error" in json.loads(body)) == (431, True)

    asyncio.run(run())


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n", INFER[:-3]])
def test_a_client_that_stops_midway_is_let_go(start):
    """Whoever connects and says nothing, or half of a request, is not waited for."""

    async def run():
        options = {"stall_s": 0.01, "keep_alive_s": 0.01}
        async with serving(FakeEngine(), **options) as server, connected(server) as client:
            client.send(start)
            with contextlib.suppress(ConnectionError):
                assert await client.end() == b""

    asyncio.run(run())


def test_a_waiting_request_is_no_stalled_one():
    """A client that has sent all and waits for a slow answer gets it."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        async with (
            serving(engine, stall_s=0.01) as server,
            connected(server) as slow,
            connected(server) as stalled,
        ):
            slow.send(INFER)
            await engine.started.wait()
            stalled.send(INFER[:-3])
            with contextlib.suppress(ConnectionError):
                assert await stalled.end() == b""
            engine.gate.set()
            assert (await slow.answer())[0] == 200

    asyncio.run(run())


def test_a_client_that_does_not_read_is_let_go():
    """An answer that nobody takes is not kept for ever."""

    async def run():
        count = 2_000_000
        one = {"name": "INPUT", "shape": [count], "datatype": "BOOL", "data": [1] * count}
        body = json.dumps({"inputs": [one]}).encode()
        head = INFER[: -len(BODY)].replace(b"%d" % len(BODY), b"%d" % len(body))
        options = {"stall_s": 0.01, "keep_alive_s": 0.5}
        async with serving(FakeEngine(), **options) as server, connected(server) as client:
            client.send(LIVE)
            await client.answer()
            client.writer.transport.pause_reading()
            client.send(head + body)
            await server.idle.wait()
            assert not server.state.connections

    asyncio.run(run())


def test_a_client_that_does_not_read_is_let_go_with_requests_behind():
    """Sending more requests does not keep a connection whose answers nobody takes."""

    async def run():
        count = 2_000_000
        one = {"name": "INPUT", "shape": [count], "datatype": "BOOL", "data": [1] * count}
        body = json.dumps({"inputs": [one]}).encode()
        head = INFER[: -len(BODY)].replace(b"%d" % len(BODY), b"%d" % len(body))
        async with (
            serving(FakeEngine(), stall_s=0.01, keep_alive_s=60) as server,
            connected(server) as client,
        ):
            client.writer.transport.pause_reading()
            client.send(head + body + INFER + INFER)
            await client.writer.drain()
            await server.idle.wait()
            assert not server.state.connections

    asyncio.run(run())


def test_a_client_that_reads_slowly_gets_its_whole_answer():
    """Whoever takes bytes between two looks is waited for."""

    async def run():
        count = 4_000_000
        one = {"name": "INPUT", "shape": [count], "datatype": "BOOL", "data": [1] * count}
        body = json.dumps({"inputs": [one]}).encode()
        head = INFER[: -len(BODY)].replace(b"%d" % len(BODY), b"%d" % len(body))
        options = {"stall_s": 0.2, "keep_alive_s": 0.01}
        async with serving(FakeEngine(), **options) as server, connected(server) as client:
            client.send(head + body)
            answer = await client.reader.readuntil(b"\r\n\r\n")
            left = int(answer.partition(b"content-length: ")[2].split()[0])
            while left:
                await asyncio.sleep(0.02)
                left -= len(await client.reader.read(1 << 20))

    asyncio.run(run())


def test_a_length_written_with_zeros_is_no_short_one():
    """A long body that says its length with leading zeros is read and answered like any other."""

    async def run():
        body = BODY + b" " * 900_000
        head = INFER[: -len(BODY)].replace(b"%d" % len(BODY), b"%030d" % len(body))
        async with serving(FakeEngine()) as server, connected(server) as client:
            client.send(head + body)
            assert (await client.answer())[0] == 200

    asyncio.run(run())


def test_pipelined_requests_are_no_long_head():
    """What comes with the start of a head is not counted to it."""

    async def run():
        count = 400
        async with (
            serving(FakeEngine(), head_bytes_max=1000) as server,
            connected(server) as client,
        ):
            client.send(INFER * count + INFER[:20])
            for _ in range(count):
                assert (await client.answer())[0] == 200
            client.send(INFER[20:])
            assert (await client.answer())[0] == 200

    asyncio.run(run())


@pytest.mark.parametrize("at", [0, 30, INFER.index(BODY), len(INFER) - 3])
def test_a_wish_for_another_protocol_is_ignored(at):
    """As by Java's client: the request is answered, body and all, and so are those behind it."""

    async def run():
        wish = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAA\r\n"
        request = INFER.replace(b"host: x\r\n", b"host: x\r\n" + wish)
        async with serving(FakeEngine()) as server, connected(server) as client:
            client.send(request[: at + len(wish)])
            await asyncio.sleep(0.01)
            client.send(request[at + len(wish) :] + request * 1500 + LIVE)
            for _ in range(1502):
                assert (await client.answer())[0] == 200

    asyncio.run(run())


def test_a_tunnel_is_refused():
    """CONNECT is no request that is answered here."""

    async def run():
        async with serving(FakeEngine()) as server, connected(server) as client:
            client.send(b"CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\n")
            assert (await client.answer())[0] == 400
            assert await client.end() == b""

    asyncio.run(run())


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01 hello\r\n\r\n",
        b"POST /v2/models/echo/infer HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nno length\r\n",
    ],
    ids=["head", "body"],
)
def test_garbage_is_not_answered_in_another_requests_place(garbage):
    """Behind a request that is still being computed, what cannot be read ends the connection."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        async with serving(engine) as server, connected(server) as client:
            client.send(INFER)
            await engine.started.wait()
            client.send(garbage)
            assert await client.end() == b""
            await engine.cancelled.wait()

    asyncio.run(run())


def test_a_client_that_leaves_with_requests_behind_is_noticed():
    """It is the request under way that is cancelled, not the last one read."""

    async def run():
        head = INFER[: -len(BODY)].replace(
            b"content-length: %d" % len(BODY), b"transfer-encoding: chunked"
        )
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
        engine = FakeEngine(gate=asyncio.Event())
        async with serving(engine) as server:
            async with connected(server) as client:
                client.send(head + body + LIVE)
                await engine.started.wait()
                await asyncio.sleep(0.1)  # two ticks of the watch, which goes on reading
            async with asyncio.timeout(5):
                await engine.cancelled.wait()

    asyncio.run(run())


def test_a_client_that_leaves_is_noticed():
    """A hang-up while the engine works cancels the request, and the server goes on."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        async with serving(engine) as server:
            async with connected(server) as client:
                client.send(INFER)
                await engine.started.wait()
            await engine.cancelled.wait()
            async with connected(server) as client:
                client.send(LIVE)
                assert (await client.answer())[0] == 200

    asyncio.run(run())


def test_what_is_no_http_is_refused():
    """Garbage is answered with 400 and the end."""

    async def run():
        async with serving(FakeEngine()) as server, connected(server) as client:
            client.send(b"\x16\x03\x01 hello\r\n\r\n")
            status, _, body = await client.answer()
            assert (status, json.loads(body)["code"]) == (400, "invalid_http")

    asyncio.run(run())


def test_a_stop_answers_what_is_under_way():
    """Stopping closes idle connections, answers running requests, and takes no new ones."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        server = HttpServer(OipRest(engine, version="1"), port=0)
        await server.start()
        port = server.port
        async with (
            connected(server) as idle,
            connected(server) as busy,
            asyncio.TaskGroup() as group,
        ):
            idle.send(LIVE)
            await idle.answer()
            busy.send(INFER)
            await engine.started.wait()
            stopping = group.create_task(server.stop(GRACE_S))
            assert await idle.end() == b""
            assert not stopping.done()
            with pytest.raises(OSError, match="Connect call failed"):
                await asyncio.open_connection("127.0.0.1", port)
            engine.gate.set()
            status, headers, _ = await busy.answer()
            assert (status, headers["connection"]) == (200, "close")
            assert await busy.end() == b""

    asyncio.run(run())


def test_a_stop_waits_for_a_request_that_has_begun_to_arrive():
    """A request whose first bytes were there before the stop is answered."""

    async def run():
        engine = FakeEngine()
        server = HttpServer(OipRest(engine, version="1"), port=0)
        await server.start()
        async with (
            connected(server) as half,
            connected(server) as idle,
            asyncio.TaskGroup() as group,
        ):
            half.send(INFER[:20])
            idle.send(LIVE)
            await idle.answer()  # by now the server has read both
            group.create_task(server.stop(GRACE_S))
            assert await idle.end() == b""
            half.send(INFER[20:])
            status, headers, _ = await half.answer()
            assert (status, headers["connection"]) == (200, "close")

    asyncio.run(run())


def test_a_stop_ends_when_its_grace_does(caplog):
    """What is not answered within the grace is cut and cancelled, with no error in the log."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        server = HttpServer(OipRest(engine, version="1"), port=0)
        await server.start()
        async with connected(server) as client:
            client.send(INFER)
            await engine.started.wait()
            await server.stop(0.01)
            assert engine.cancelled.is_set()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_port_is_known_only_while_it_listens():
    """Asking for the port of a server that has not started is an error."""

    async def run():
        server = HttpServer(OipRest(FakeEngine(), version="1"), port=0)
        with pytest.raises(RuntimeError, match="start it first"):
            _ = server.port
        await server.stop(GRACE_S)

    asyncio.run(run())


class Wire(asyncio.Transport):
    """A connection without a network: keeps what is written, and whether it is read from."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.is_paused = False

    def write(self, data):
        self.written += data

    def close(self):
        pass

    def is_closing(self):
        return False

    def get_write_buffer_size(self):
        return 0

    def pause_reading(self):
        self.is_paused = True

    def resume_reading(self):
        self.is_paused = False


CHUNKED = (
    b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
)
"""Takes the way through ASGI, on which a watcher listens for the client's leaving."""


async def turns_of_the_loop():
    """Long enough for everything that is due at once, watchers of a tick of 0 included."""
    for _ in range(200):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def wired(engine):
    """A server, one connection of it, and what carries that."""
    app = OipRest(engine, version="1", watch=DisconnectWatch(tick_s=0))
    server = HttpServer(app, port=0)
    await server.start()
    protocol, wire = server.connection(), Wire()
    protocol.connection_made(wire)
    try:
        yield protocol, wire
    finally:
        protocol.connection_lost(None)
        await server.stop(GRACE_S)


LARGE = INFER.replace(BODY, BODY + b" " * 40_000).replace(
    b"content-length: %d" % len(BODY), b"content-length: %d" % (len(BODY) + 40_000)
)
AHEAD = {"many": [INFER] * 20, "large": [LARGE] * 8}


@pytest.mark.parametrize("first", [CHUNKED, INFER], ids=["asgi", "direct"])
@pytest.mark.parametrize("ahead", AHEAD.values(), ids=AHEAD)
def test_little_is_read_of_what_is_sent_ahead(first, ahead):
    """Whoever sends on and on behind a slow request fills the system's buffers, not ours."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        async with wired(engine) as (protocol, wire):
            protocol.data_received(first + b"".join(ahead))
            await turns_of_the_loop()
            assert wire.is_paused
            engine.gate.set()
            await turns_of_the_loop()
            assert wire.written.count(b"HTTP/1.1 200") == 1 + len(ahead)
            assert not wire.is_paused

    asyncio.run(run())


def test_reading_goes_on_for_a_body_whose_request_has_begun():
    """Of requests that were sent ahead the last, half of it there, is read on when it begins."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        async with wired(engine) as (protocol, wire):
            protocol.data_received(CHUNKED + INFER * 20 + INFER[:-5])
            await turns_of_the_loop()
            assert wire.is_paused
            engine.gate.set()
            await turns_of_the_loop()
            assert not wire.is_paused
            protocol.data_received(INFER[-5:])
            await turns_of_the_loop()
            assert wire.written.count(b"HTTP/1.1 200") == 22

    asyncio.run(run())


def test_requests_that_waited_are_forgotten_with_their_connection():
    """A lost connection lives on until the collector finds it; what was sent ahead must not."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        async with wired(engine) as (protocol, _):
            protocol.data_received(CHUNKED + INFER)
            await turns_of_the_loop()
            assert protocol.pipeline
            protocol.connection_lost(None)
            assert not protocol.pipeline
            protocol.connection_made(Wire())  # for the end of the context

    asyncio.run(run())


@pytest.mark.parametrize("piece", [b"a: b\r\n" * 100, b"x" * 600], ids=["fields", "one field"])
def test_a_trailer_without_end_is_cut_off(piece):
    """It may be as long as a head."""

    async def run():
        async with wired(FakeEngine()) as (protocol, wire):
            protocol.data_received(CHUNKED.removesuffix(b"\r\n"))
            for _ in range(109):
                protocol.data_received(piece)
            assert wire.written == b""
            protocol.data_received(piece)
            assert wire.written.startswith(b"HTTP/1.1 431 ")

    asyncio.run(run())


def test_a_long_chunked_body_is_no_long_trailer():
    """What is counted begins anew with each piece of a body, however small."""

    async def run():
        async with wired(FakeEngine()) as (protocol, wire):
            protocol.data_received(CHUNKED.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
            for _ in range(100):
                protocol.data_received(b"%x\r\n" % 1000)
                protocol.data_received(b" " * 1000)
                protocol.data_received(b"\r\n")
            protocol.data_received(CHUNKED.partition(b"\r\n\r\n")[2])
            await turns_of_the_loop()
            assert wire.written.startswith(b"HTTP/1.1 200 ")

    asyncio.run(run())
