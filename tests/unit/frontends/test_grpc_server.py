"""gRPC calls over the listener's connections: messages, failures, streams, and taking back."""

import asyncio
import gzip
from functools import wraps

import pytest
from tests.fakes import FakeEngine
from tests.http2_client import (
    GREETING,
    Client,
    Kind,
    block,
    call_block,
    data,
    frame,
    headers,
    message,
    of,
    window_frame,
)

from headway.errors import RejectedError
from headway.frontends import Regions
from headway.frontends.grpc_server import GrpcServer
from headway.frontends.oip_grpc import OipGrpc
from headway.frontends.oip_messages import HEALTH, INFERENCE
from headway.testing import run_virtual

INFER = f"/{INFERENCE.service}/ModelInfer"
STREAM = f"/{INFERENCE.service}/ModelStreamInfer"
BYTES_MAX = 1 << 20


class Rig:
    """A listener with an engine that echoes, and one client."""

    def __init__(self, **how):
        self.engine = FakeEngine()
        self.service = OipGrpc(self.engine, version="1", regions=Regions(is_allowed=False))
        self.listener = GrpcServer(
            self.service,
            self.engine,
            host="127.0.0.1",
            port=0,
            message_bytes_max=BYTES_MAX,
            **{"keep_alive_s": 60.0, **how},
        )
        self.client = Client(self.listener._connection(), GREETING)

    async def call(self, path, body, *more, stream_id=1):
        """One call of one message: its answer's frames."""
        frames = await self.client.say(headers(stream_id, call_block(path, *more)))
        return frames + await self.client.say(data(stream_id, body, is_last=True))

    def answers(self):
        """Those that there were, by code."""
        return {code: count for code, count in self.listener.answers.items() if count}

    def end_of(self, frames):
        """Status and text of a call that has ended."""
        said = {}
        for one in of(frames, Kind.HEADERS):
            said |= one.headers
        assert sum(one.is_last for one in frames) == 1
        return int(said[b"grpc-status"]), said.get(b"grpc-message", b"").decode(), said


def in_virtual_time(test):
    """Run a test that is a coroutine."""

    @wraps(test)
    def run(*args, **kwargs):
        run_virtual(test(*args, **kwargs))

    return run


def request(model="echo", *, columns=16, **fields):
    """An infer request with one raw input."""
    made = INFERENCE["ModelInferRequest"](model_name=model, **fields)
    made.inputs.add(name="INPUT", datatype="FP32", shape=[1, columns])
    made.raw_input_contents.append(bytes(range(4)) * columns)
    return made.SerializeToString()


def answer_of(frames):
    """The one message of an answer."""
    body = b"".join(one.payload for one in of(frames, Kind.DATA))
    assert body[:1] == b"\0"
    assert int.from_bytes(body[1:5]) == len(body) - 5
    return body[5:]


@in_virtual_time
async def test_infer():
    """The answer is the echo, the status is 0, and it is counted."""
    rig = Rig()
    frames = await rig.call(INFER, message(request(id="7")))
    response = INFERENCE["ModelInferResponse"].FromString(answer_of(frames))
    assert response.id == "7"
    assert response.raw_output_contents[0] == bytes(range(4)) * 16
    assert rig.end_of(frames)[0] == 0
    assert rig.answers() == {"OK": 1}


@in_virtual_time
async def test_infer_says_who_asks_and_until_when():
    """Headers and the call's own deadline reach the engine."""
    rig = Rig()
    more = (("grpc-timeout", "250m"), ("headway-tenant", "acme"), ("headway-priority", "2"))
    await rig.call(INFER, message(request()), *more)
    (call,) = rig.engine.calls
    assert (call.budget_ns, call.budget_source) == (250_000_000, "grpc-timeout")
    assert (call.tenant, call.priority) == ("acme", 2)


@in_virtual_time
async def test_infer_that_is_refused():
    """Code, text and metadata of the error."""
    rig = Rig()
    rig.engine.outcome = RejectedError("full", reason="model_queue_full", retry_after_ns=5_000_000)
    status, text, said = rig.end_of(await rig.call(INFER, message(request())))
    assert (status, text) == (8, "full")
    assert said[b"headway-retry-after-ms"] == b"5"
    assert rig.answers() == {"RESOURCE_EXHAUSTED": 1}


@in_virtual_time
async def test_infer_that_is_taken_back():
    """The engine is told, and nothing is sent."""
    rig = Rig()
    rig.engine.gate = asyncio.Event()
    await rig.call(INFER, message(request()))
    frames = await rig.client.say(frame(Kind.RST_STREAM, 0, 1, b"\0\0\0\x08"))
    rig.engine.gate.set()
    assert frames + await rig.client.hear() == []
    assert rig.answers() == {"CANCELLED": 1}


@in_virtual_time
async def test_large_answer_leaves_in_frames_as_there_is_room():
    """A message of several frames, whole."""
    rig = Rig()
    frames = await rig.call(INFER, message(request(columns=40_000)))
    assert sum(len(one.payload) for one in of(frames, Kind.DATA)) == 65_535
    frames += await rig.client.say(window_frame(0, 1 << 20), window_frame(1, 1 << 20))
    response = INFERENCE["ModelInferResponse"].FromString(answer_of(frames))
    assert response.raw_output_contents[0] == bytes(range(4)) * 40_000
    assert rig.end_of(frames)[0] == 0


@in_virtual_time
async def test_compressed_request():
    """Is understood where its headers say how."""
    rig = Rig()
    packed = gzip.compress(request())
    body = b"\1" + len(packed).to_bytes(4) + packed
    frames = await rig.call(INFER, body, ("grpc-encoding", "gzip"))
    assert rig.end_of(frames)[0] == 0
    frames = await rig.call(INFER, body, ("grpc-encoding", "snappy"), stream_id=3)
    assert rig.end_of(frames)[:2] == (13, "`snappy` is neither gzip nor deflate")


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/no.Service/Method", message(b""), 12, "there is no `/no.Service/Method`"),
        (INFER, b"", 13, "the call's message is not whole"),
        (INFER, message(b"abc")[:6], 13, "the call's message is not whole"),
        (INFER, message(b"") * 2, 13, "a call of one message has two"),
        (INFER, b"\x07\0\0\0\0", 13, "a message begins with 7"),
        (INFER, b"\0\0\x10\0\x01", 8, "a message of 1048577 bytes is larger"),
        (INFER, message(b"\xff"), 3, "the message is no `ModelInferRequest`"),
        (INFER, message(request("none")), 5, "model `none`"),
    ],
)  # fmt: skip
@in_virtual_time
async def test_what_is_wrong_is_said(path, body, status, text):
    """With gRPC's own codes; the connection goes on."""
    rig = Rig()
    found = rig.end_of(await rig.call(path, body))
    assert found[0] == status
    assert found[1].startswith(text)
    assert rig.end_of(await rig.call(INFER, message(request()), stream_id=3))[0] == 0


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (
            block((":method", "GET"), (":authority", "h"), (":scheme", "http"), (":path", INFER)),
            b"405",
        ),
        (
            block(
                (":method", "POST"),
                (":authority", "h"),
                (":scheme", "http"),
                (":path", INFER),
                ("content-type", "text/html"),
            ),
            b"415",
        ),
    ],
)
@in_virtual_time
async def test_what_is_no_call_is_answered_as_http(head, status):
    """A browser or a probe learns that this is no place for it."""
    rig = Rig()
    (answer,) = of(await rig.client.say(headers(1, head, is_last=True)), Kind.HEADERS)
    assert answer.headers[b":status"] == status


@in_virtual_time
async def test_stream_of_requests():
    """Many in, many out, each with its id, cut anywhere; then the status."""
    rig = Rig()
    body = b"".join(message(request(id=str(number))) for number in range(5))
    await rig.client.say(headers(1, call_block(STREAM)))
    frames = []
    for at in range(0, len(body), 33):
        frames += await rig.client.say(data(1, body[at : at + 33]))
    frames += await rig.client.say(data(1, b"", is_last=True))
    sent = b"".join(one.payload for one in of(frames, Kind.DATA))
    ids = []
    while sent:
        size = int.from_bytes(sent[1:5])
        one = INFERENCE["ModelStreamInferResponse"].FromString(sent[5 : 5 + size])
        assert one.infer_response.parameters["triton_final_response"].bool_param
        assert one.infer_response.raw_output_contents[0] == bytes(range(4)) * 16
        ids.append(one.infer_response.id)
        sent = sent[5 + size :]
    assert sorted(ids) == ["0", "1", "2", "3", "4"]
    assert rig.end_of(frames)[0] == 0


@in_virtual_time
async def test_stream_whose_answers_are_not_read_takes_no_more():
    """What is under way is bounded; once the client reads, all are answered."""
    rig = Rig()
    total = 400
    one = message(request(columns=1000))
    frames = await rig.client.say(headers(1, call_block(STREAM)))
    for _ in range(total):
        frames += await rig.client.say(data(1, one))
    frames += await rig.client.say(data(1, b"", is_last=True))
    for _ in range(50):
        frames += await rig.client.hear()
    assert len(rig.engine.calls) < 300
    for _ in range(100):
        frames += await rig.client.say(window_frame(0, 1 << 16), window_frame(1, 1 << 16))
    assert len(rig.engine.calls) == total
    assert rig.end_of(frames)[0] == 0
    answers = sum(len(each.payload) for each in of(frames, Kind.DATA))
    assert answers > total * 4000


@in_virtual_time
async def test_stream_that_is_taken_back_or_has_no_time_left():
    """Its requests are cancelled with it."""
    rig = Rig()
    rig.engine.gate = asyncio.Event()
    await rig.client.say(headers(1, call_block(STREAM)), data(1, message(request())))
    assert rig.listener.streamed() == 1
    await rig.client.say(frame(Kind.RST_STREAM, 0, 1, b"\0\0\0\x08"))
    assert rig.listener.streamed() == 0
    await rig.client.say(headers(3, call_block(STREAM, ("grpc-timeout", "2S"))))
    await asyncio.sleep(3)
    status, text, _ = rig.end_of(await rig.client.hear())
    assert (status, text) == (4, "the call's time is up")
    assert not rig.client.connection.streams


@in_virtual_time
async def test_health_is_watched_until_the_end():
    """A status when it is asked for, another when it changes, and the last at the end."""
    rig = Rig()
    path, ask = f"/{HEALTH.service}/Watch", HEALTH["HealthCheckRequest"]
    frames = await rig.call(path, message(ask(service="").SerializeToString()))
    statuses = [HEALTH["HealthCheckResponse"].FromString(answer_of(frames)).status]
    rig.engine.is_ready = False
    await asyncio.sleep(1)
    frames = await rig.client.hear()
    statuses.append(HEALTH["HealthCheckResponse"].FromString(answer_of(frames)).status)
    assert statuses == [1, 2]
    frames = await rig.call(path, message(b"\xff"), stream_id=3)
    assert rig.end_of(frames)[0] == 3


@in_virtual_time
async def test_more_connections_than_allowed():
    """Are closed as they come, and those that there are go on."""
    rig = Rig(connections_max=2)
    second, third = (Client(rig.listener._connection()) for _ in range(2))
    assert (second.transport.is_aborted, third.transport.is_aborted) == (False, True)
    third.leave()
    assert rig.end_of(await rig.call(INFER, message(request())))[0] == 0
    second.leave()
    assert not Client(rig.listener._connection()).transport.is_aborted


@in_virtual_time
async def test_client_that_says_goodbye_is_still_answered():
    """Java's does so when it is shut down, and waits for the calls under way."""
    rig = Rig()
    rig.engine.gate = asyncio.Event()
    await rig.call(INFER, message(request()))
    await rig.client.say(frame(Kind.GOAWAY, 0, 0, bytes(8)) + window_frame(0, 99))
    rig.engine.gate.set()
    assert rig.end_of(await rig.client.hear())[0] == 0


@in_virtual_time
async def test_message_that_stops_halfway_through():
    """Costs its connection, in a stream as well; a stream between two messages does not."""
    for rest, is_borne in ((b"", True), (message(request())[:50], False)):
        rig = Rig(keep_alive_s=1000.0)
        await rig.client.say(headers(1, call_block(STREAM)))
        await rig.client.say(data(1, message(request()) + rest))
        await asyncio.sleep(60)
        assert rig.client.transport.is_aborted is not is_borne
        rig.client.leave()
