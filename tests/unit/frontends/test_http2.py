"""One HTTP/2 connection: what it answers, what it bounds, and how it ends."""

import asyncio
from functools import wraps

import pytest
from h2.errors import ErrorCodes
from tests.http2_client import (
    ACK,
    END_HEADERS,
    GREETING,
    PADDED,
    PREFACE,
    Client,
    Keeper,
    Kind,
    block,
    call_block,
    data,
    frame,
    headers,
    of,
    settings_frame,
    settings_of,
    window_frame,
)

from headway.frontends.http2 import Http2Connection, Limits
from headway.testing import run_virtual

HEAD = call_block("/x")
STATUS = ((b":status", b"200"),)
TAIL = ((b"t", b"1"),)


class Recorder:
    """Answers nothing by itself, and keeps what it was told."""

    is_owed = True

    def __init__(self, stream, received):
        self.stream = stream
        self.headers = received
        self.body = bytearray()
        self.told = []

    def on_data(self, data):
        """A piece."""
        self.body += data

    def on_end(self):
        """The end."""
        self.told.append("end")

    def on_gone(self):
        """Gone."""
        self.told.append("gone")

    def on_room(self):
        """Room."""
        self.told.append("room")


class Rig:
    """A connection, its client, and the exchanges that were opened."""

    def __init__(self, greeting=GREETING, **limits):
        self.exchanges = []
        self.keeper = Keeper()

        def open_exchange(stream, received):
            self.exchanges.append(Recorder(stream, received))
            return self.exchanges[-1]

        connection = Http2Connection(open_exchange, Limits(**limits), self.keeper)
        self.client = Client(connection, greeting)


def in_virtual_time(test):
    """Run a test that is a coroutine."""

    @wraps(test)
    def run(*args, **kwargs):
        run_virtual(test(*args, **kwargs))

    return run


def goodbye_of(frames):
    """The code of the goodbye among them."""
    (one,) = of(frames, Kind.GOAWAY)
    return ErrorCodes(int.from_bytes(one.payload[4:8]))


@in_virtual_time
async def test_greeting():
    """Settings come first, the client's are confirmed, and the connection's window is widened."""
    rig = Rig()
    settings, window, ack = await rig.client.hear()
    assert (settings.kind, settings.flags) == (Kind.SETTINGS, 0)
    assert settings_of(settings.payload)[3] == 1024
    assert (window.kind, window.stream_id) == (Kind.WINDOW_UPDATE, 0)
    assert (ack.kind, ack.flags) == (Kind.SETTINGS, ACK)


@in_virtual_time
async def test_request_and_answer():
    """Headers, data in pieces, an end; headers, data, trailers; and the stream is forgotten."""
    rig = Rig()
    await rig.client.say(headers(1, HEAD), data(1, b"ab"), data(1, b"c", is_last=True))
    (exchange,) = rig.exchanges
    assert dict(exchange.headers)[b":path"] == b"/x"
    assert (exchange.body, exchange.told) == (b"abc", ["end"])
    exchange.stream.respond(STATUS, [b"de", b"f"], TAIL)
    head, body, tail = await rig.client.hear()
    assert head.headers == {b":status": b"200"}
    assert body.payload == b"def"
    assert tail.is_last
    assert tail.headers == {b"t": b"1"}
    assert not rig.client.connection.streams


@in_virtual_time
async def test_answer_before_the_request_has_ended():
    """The rest is not wanted: the stream is reset without an error, late data are ignored."""
    rig = Rig()
    await rig.client.say(headers(1, HEAD))
    rig.exchanges[0].stream.finish(STATUS)
    frames = await rig.client.hear()
    assert [one.kind for one in frames[-2:]] == [Kind.HEADERS, Kind.RST_STREAM]
    assert int.from_bytes(frames[-1].payload) == ErrorCodes.NO_ERROR
    frames = await rig.client.say(data(1, b"late", is_last=True))
    assert [one.kind for one in frames] == [Kind.RST_STREAM]
    assert rig.exchanges[0].body == b""
    assert not rig.client.transport.is_over


@in_virtual_time
async def test_headers_in_pieces_with_padding_and_priority():
    """A block may be cut, padded, and come with a priority that nobody heeds."""
    rig = Rig()
    padded = b"\x02" + bytes(5) + HEAD[:10] + b"\0\0"
    await rig.client.say(
        frame(Kind.HEADERS, PADDED | 0x20, 1, padded),
        frame(Kind.CONTINUATION, 0, 1, HEAD[10:20]),
        frame(Kind.CONTINUATION, END_HEADERS, 1, HEAD[20:]),
        frame(Kind.DATA, PADDED | 1, 1, b"\x03abc\0\0\0"),
    )
    assert dict(rig.exchanges[0].headers)[b":path"] == b"/x"
    assert (rig.exchanges[0].body, rig.exchanges[0].told) == (b"abc", ["end"])


@in_virtual_time
async def test_frames_nobody_knows_are_ignored():
    """Priorities, a client's goodbye, extensions; what follows is served."""
    rig = Rig()
    await rig.client.say(
        frame(Kind.PRIORITY, 0, 1, bytes(5)),
        frame(0x7F, 0xFF, 9, b"what"),
        frame(Kind.GOAWAY, 0, 0, bytes(8)),
        headers(1, HEAD, is_last=True),
    )
    assert rig.exchanges[0].told == ["end"]


@in_virtual_time
async def test_ping_is_answered_with_its_own_bytes():
    """And an answer to ours is not."""
    rig = Rig()
    await rig.client.hear()
    (pong,) = await rig.client.say(frame(Kind.PING, 0, 0, b"12345678"))
    assert (pong.kind, pong.flags, pong.payload) == (Kind.PING, ACK, b"12345678")
    assert await rig.client.say(frame(Kind.PING, ACK, 0, bytes(8))) == []


@in_virtual_time
async def test_answer_waits_for_room():
    """No more is sent than the stream's window and the connection's, whichever is smaller."""
    rig = Rig(PREFACE + settings_frame(initial_window_size=10))
    await rig.client.say(headers(1, HEAD, is_last=True))
    stream = rig.exchanges[0].stream
    stream.respond(STATUS, [b"x" * 25], TAIL)
    frames = await rig.client.hear()
    assert sum(len(one.payload) for one in of(frames, Kind.DATA)) == 10
    assert not any(one.is_last for one in frames)
    frames = await rig.client.say(window_frame(1, 5))
    assert [len(one.payload) for one in frames] == [5]
    frames = await rig.client.say(settings_frame(initial_window_size=15))
    assert [len(one.payload) for one in of(frames, Kind.DATA)] == [5]
    frames = await rig.client.say(window_frame(1, 100))
    assert [len(one.payload) for one in of(frames, Kind.DATA)] == [5]
    assert frames[-1].is_last


@in_virtual_time
async def test_connections_window_holds_all_streams():
    """65,535 bytes in all, until the client makes room."""
    rig = Rig(PREFACE + settings_frame(initial_window_size=1 << 20))
    sent = 0
    for stream_id in (1, 3):
        await rig.client.say(headers(stream_id, HEAD, is_last=True))
        stream = rig.exchanges[-1].stream
        stream.respond(STATUS, [bytes(50_000)], TAIL)
        sent += sum(len(one.payload) for one in of(await rig.client.hear(), Kind.DATA))
    assert sent == 65_535
    frames = await rig.client.say(window_frame(0, 1 << 20))
    assert sum(len(one.payload) for one in of(frames, Kind.DATA)) == 100_000 - 65_535
    assert all(len(one.payload) <= 1 << 14 for one in of(frames, Kind.DATA))


@in_virtual_time
async def test_who_writes_is_told_of_room():
    """Once all that waited was sent."""
    rig = Rig(PREFACE + settings_frame(initial_window_size=1))
    await rig.client.say(headers(1, HEAD))
    exchange = rig.exchanges[0]
    exchange.stream.send_head(STATUS)
    exchange.stream.send([b"abc"])
    assert (bool(exchange.stream.waiting), exchange.told) == (True, [])
    await rig.client.say(window_frame(1, 2))
    assert (bool(exchange.stream.waiting), exchange.told) == (False, ["room"])


@in_virtual_time
async def test_who_does_not_read_is_not_heard():
    """While much is unread nothing more is read or sent; then it goes on."""
    rig = Rig()
    await rig.client.say(headers(1, HEAD, is_last=True))
    rig.client.connection.pause_writing()
    assert rig.client.transport.is_reading_paused
    rig.exchanges[0].stream.finish(STATUS)
    assert of(await rig.client.hear(), Kind.HEADERS) == []
    rig.client.connection.resume_writing()
    assert not rig.client.transport.is_reading_paused
    assert [one.is_last for one in await rig.client.hear()] == [True]


def room_made(frames):
    """Bytes that the client may send more, by stream."""
    steps = {}
    for one in of(frames, Kind.WINDOW_UPDATE):
        steps[one.stream_id] = steps.get(one.stream_id, 0) + int.from_bytes(one.payload)
    return steps


@in_virtual_time
async def test_room_is_made_for_a_long_request():
    """As its exchange uses it up, in large steps."""
    rig = Rig()
    await rig.client.say(headers(1, HEAD))
    exchange = rig.exchanges[0]
    frames = []
    for _ in range(64):
        frames += await rig.client.say(data(1, bytes(1 << 20)))
        exchange.stream.credit(1 << 20)
        frames += await rig.client.hear()
    assert room_made(frames) == {0: 64 << 20, 1: 64 << 20}
    assert len(of(frames, Kind.WINDOW_UPDATE)) == 2 + 32


@in_virtual_time
async def test_room_that_a_stream_held_is_given_back_at_its_end():
    """Taken back or answered before it was read: the connection's other streams lose nothing."""
    rig = Rig()
    await rig.client.hear()
    frames = []
    for stream_id in range(1, 67, 2):
        frames += await rig.client.say(headers(stream_id, HEAD), data(stream_id, bytes(2 << 20)))
        if stream_id % 4 == 1:
            frames += await rig.client.say(frame(Kind.RST_STREAM, 0, stream_id, bytes(4)))
        else:
            rig.exchanges[-1].stream.finish(STATUS)
            frames += await rig.client.say(data(stream_id, bytes(1 << 20)))
    assert room_made(frames)[0] >= 64 << 20
    assert not rig.client.transport.is_over


@in_virtual_time
async def test_client_that_sends_more_than_its_room():
    """Has broken the protocol; every exchange is told."""
    rig = Rig()
    await rig.client.say(headers(1, HEAD))
    frames = await rig.client.say(data(1, bytes((4 << 20) + 1)))
    assert goodbye_of(frames) is ErrorCodes.FLOW_CONTROL_ERROR
    assert rig.exchanges[0].told == ["gone"]
    assert rig.client.transport.is_over


@in_virtual_time
async def test_request_that_is_taken_back():
    """Its exchange is told once; what it says later goes nowhere."""
    rig = Rig()
    await rig.client.say(headers(1, HEAD, is_last=True))
    await rig.client.say(frame(Kind.RST_STREAM, 0, 1, bytes(4)))
    await rig.client.say(frame(Kind.RST_STREAM, 0, 1, bytes(4)), window_frame(1, 5))
    exchange = rig.exchanges[0]
    assert exchange.told == ["end", "gone"]
    assert not exchange.stream.is_open


@in_virtual_time
async def test_client_that_hangs_up():
    """Every exchange is told, and so is the server."""
    rig = Rig()
    await rig.client.say(headers(1, HEAD, is_last=True), headers(3, HEAD))
    rig.client.leave()
    assert [one.told for one in rig.exchanges] == [["end", "gone"], ["gone"]]
    assert rig.keeper.gone == rig.keeper.there == [rig.client.connection]


@in_virtual_time
async def test_more_streams_than_allowed():
    """Break the protocol: how many there may be was said in the first frame."""
    rig = Rig(streams_max=2)
    frames = await rig.client.say(*(headers(number, HEAD) for number in (1, 3, 5)))
    assert goodbye_of(frames) is ErrorCodes.PROTOCOL_ERROR
    assert [one.told for one in rig.exchanges] == [["gone"], ["gone"]]


def idle(kind, number):
    """A frame that asks for no answer, or a stream that is taken back as soon as it is opened."""
    match kind:
        case Kind.RST_STREAM:
            stream_id = 2 * number + 1
            return headers(stream_id, HEAD) + frame(kind, 0, stream_id, bytes(4))
        case Kind.DATA:
            return data(1, b"")
        case Kind.PRIORITY:
            return frame(kind, 0, 2 * number + 3, bytes(5))
        case Kind.PING:
            return frame(kind, 0, 0, bytes(8))
        case _:
            return frame(kind, 0, 0)


@pytest.mark.parametrize(
    "kind", [Kind.RST_STREAM, Kind.DATA, Kind.PRIORITY, Kind.PING, Kind.SETTINGS, 0x7F]
)
@in_virtual_time
async def test_flood_of_what_asks_for_nothing(kind):
    """Costs a connection, in the end."""
    rig = Rig()
    await rig.client.say(*([] if kind == Kind.RST_STREAM else [headers(1, HEAD)]))
    for number in range(9_999):
        rig.client.connection.data_received(idle(kind, number))
    assert not rig.client.transport.is_over
    rig.client.connection.data_received(idle(kind, 9_999))
    if not rig.client.transport.is_over:
        rig.client.connection.data_received(idle(kind, 10_000))
    assert goodbye_of(await rig.client.hear()) is ErrorCodes.ENHANCE_YOUR_CALM
    assert rig.client.transport.is_over


@in_virtual_time
async def test_pings_of_a_quiet_client_are_no_flood():
    """They are counted between two looks only."""
    rig = Rig(keep_alive_s=10.0)
    for _ in range(30):
        await asyncio.sleep(5)
        for number in range(1000):
            rig.client.connection.data_received(idle(Kind.PING, number))
        await rig.client.hear()
    assert not rig.client.transport.is_over


@in_virtual_time
async def test_stream_opened_and_taken_back_at_once_is_never_opened():
    """And one that was asked before it is answered as ever."""
    rig = Rig()
    await rig.client.say(
        headers(1, HEAD, is_last=True)
        + headers(3, HEAD, is_last=True)
        + frame(Kind.RST_STREAM, 0, 3, bytes(4))
    )
    (exchange,) = rig.exchanges
    exchange.stream.finish(STATUS)
    assert [one.stream_id for one in of(await rig.client.hear(), Kind.HEADERS)] == [1]


@in_virtual_time
async def test_refusal_in_the_middle_of_what_came_at_once():
    """h2 knows the stream's end already: nothing is reset, and the connection goes on."""
    rig = Rig()
    await rig.client.hear()
    rig.client.connection.data_received(headers(1, HEAD))
    exchange = rig.exchanges[0]
    exchange.on_data = lambda data: exchange.stream.finish(STATUS)
    frames = await rig.client.say(data(1, b"ab") + data(1, b"cd", is_last=True))
    assert [(one.kind, one.is_last) for one in frames] == [(Kind.HEADERS, True)]
    assert exchange.told == []


@in_virtual_time
async def test_orderly_end():
    """A goodbye, no new streams, and the end when the last answer has gone."""
    rig = Rig()
    await rig.client.say(headers(1, HEAD, is_last=True))
    rig.client.connection.shutdown()
    frames = await rig.client.say(headers(3, HEAD, is_last=True))
    assert goodbye_of(frames) is ErrorCodes.NO_ERROR
    assert [int.from_bytes(one.payload) for one in of(frames, Kind.RST_STREAM)] == [7]
    assert not rig.client.transport.is_over
    rig.exchanges[0].stream.finish(STATUS)
    assert (await rig.client.hear())[-1].is_last
    assert rig.client.transport.is_over


@in_virtual_time
async def test_silent_client_is_asked_and_then_let_go():
    """One that answers stays, one that does not is gone after as long again."""
    rig = Rig(keep_alive_s=10.0)
    await rig.client.hear()
    await asyncio.sleep(20.5)
    (ping,) = await rig.client.hear()
    assert ping.kind == Kind.PING
    await rig.client.say(frame(Kind.PING, ACK, 0, ping.payload))
    await asyncio.sleep(20)
    assert not rig.client.transport.is_over
    await asyncio.sleep(10)
    assert rig.client.transport.is_aborted


@in_virtual_time
async def test_client_that_never_says_what_it_speaks():
    """Is gone after the first look, whatever it trickles."""
    rig = Rig(greeting=PREFACE[:5], keep_alive_s=10.0)
    await asyncio.sleep(20.5)
    assert rig.client.transport.is_aborted


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([headers(2, HEAD)], ErrorCodes.PROTOCOL_ERROR),
        ([headers(0, HEAD)], ErrorCodes.PROTOCOL_ERROR),
        ([data(1, b"x")], ErrorCodes.PROTOCOL_ERROR),
        ([data(0, b"x")], ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, b"\x80")], ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, block((":method", "POST")))], ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, HEAD + block((":path", "/y")))], ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, HEAD + block(("Upper", "x")))], ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, HEAD + block(("x", "a\r\nb: c")))], ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, HEAD + block(("connection", "close")))], ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, HEAD), headers(1, HEAD)], ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, HEAD), window_frame(1, 0)], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.HEADERS, 0, 1, HEAD), data(1, b"")], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.CONTINUATION, 4, 1, HEAD)], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.HEADERS, 0, 1, b"")] + [frame(9, 0, 1)] * 64, ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, HEAD + block(("x", "y" * 99)) * 500)], ErrorCodes.ENHANCE_YOUR_CALM),
        ([frame(Kind.HEADERS, PADDED, 1, b"\x09abc")], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.HEADERS, PADDED, 1, b"")], ErrorCodes.FRAME_SIZE_ERROR),
        ([frame(Kind.PING, 0, 0, bytes(7))], ErrorCodes.FRAME_SIZE_ERROR),
        ([frame(Kind.SETTINGS, 0, 0, bytes(5))], ErrorCodes.FRAME_SIZE_ERROR),
        ([frame(Kind.SETTINGS, 0, 1)], ErrorCodes.PROTOCOL_ERROR),
        ([settings_frame(initial_window_size=2**31)], ErrorCodes.FLOW_CONTROL_ERROR),
        ([settings_frame(max_frame_size=5)], ErrorCodes.PROTOCOL_ERROR),
        ([settings_frame(enable_push=2)], ErrorCodes.PROTOCOL_ERROR),
        ([window_frame(0, 0)], ErrorCodes.PROTOCOL_ERROR),
        ([window_frame(0, 2**31 - 1)], ErrorCodes.FLOW_CONTROL_ERROR),
        ([window_frame(5, 1)], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.WINDOW_UPDATE, 0, 0, bytes(3))], ErrorCodes.FRAME_SIZE_ERROR),
        ([frame(Kind.RST_STREAM, 0, 1, bytes(4))], ErrorCodes.PROTOCOL_ERROR),
        ([headers(1, HEAD), frame(Kind.RST_STREAM, 0, 1, bytes(3))], ErrorCodes.FRAME_SIZE_ERROR),
        ([frame(Kind.PUSH_PROMISE, 0, 1, bytes(4))], ErrorCodes.PROTOCOL_ERROR),
        ([frame(Kind.PING, 0, 0, bytes(70_000))], ErrorCodes.FRAME_SIZE_ERROR),
        ([headers(1, HEAD), frame(0, 0, 1, bytes((1 << 14) + 1))], ErrorCodes.FRAME_SIZE_ERROR),
    ],
)  # fmt: skip
@in_virtual_time
async def test_what_breaks_the_protocol_ends_the_connection(frames, code):
    """With a goodbye that says why."""
    rig = Rig()
    assert goodbye_of(await rig.client.say(*frames)) is code
    assert rig.client.transport.is_over
    assert all(one.told == ["gone"] for one in rig.exchanges)


@in_virtual_time
async def test_another_protocol():
    """Is not answered in this one."""
    rig = Rig(greeting=b"")
    frames = await rig.client.say(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert [one.kind for one in frames] == [Kind.SETTINGS, Kind.WINDOW_UPDATE]
    assert rig.client.transport.is_over


@in_virtual_time
async def test_window_without_a_bound_ends_the_stream():
    """Its exchange is told; the connection goes on."""
    rig = Rig()
    frames = await rig.client.say(headers(1, HEAD), window_frame(1, 2**31 - 1))
    assert len(of(frames, Kind.RST_STREAM)) == 1
    assert rig.exchanges[0].told == ["gone"]
    assert not rig.client.transport.is_over


# --- the pace -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trickle", "is_borne"), [(0, False), (20, False), (200, True)])
@in_virtual_time
async def test_client_that_sends_slowly(trickle, is_borne):
    """Of a request that has begun, so much must come in ten seconds."""
    rig = Rig()
    await rig.client.say(headers(1, HEAD))
    for _ in range(60):
        await asyncio.sleep(1)
        if trickle and not rig.client.transport.is_over:
            rig.client.connection.data_received(data(1, bytes(trickle)))
    assert rig.client.transport.is_aborted is not is_borne


@in_virtual_time
async def test_client_that_owes_nothing_may_take_its_time():
    """A stream between two messages stays for as long as its client is there."""
    rig = Rig(keep_alive_s=1000.0)
    await rig.client.say(headers(1, HEAD))
    rig.exchanges[0].is_owed = False
    await asyncio.sleep(900)
    assert not rig.client.transport.is_over


@pytest.mark.parametrize(("step", "is_borne"), [(0, False), (20, False), (200, True)])
@in_virtual_time
async def test_client_that_makes_room_slowly(step, is_borne):
    """For an answer that is whole: so much must be taken in ten seconds."""
    rig = Rig(PREFACE + settings_frame(initial_window_size=10))
    await rig.client.say(headers(1, HEAD, is_last=True))
    rig.exchanges[0].stream.respond(STATUS, [bytes(50_000)], TAIL)
    for _ in range(60):
        await asyncio.sleep(1)
        if step and not rig.client.transport.is_over:
            rig.client.connection.data_received(window_frame(1, step))
    assert rig.client.transport.is_aborted is not is_borne


@in_virtual_time
async def test_stream_of_answers_waits_for_who_reads_them():
    """More is to come of it, and its writer waits, too: that is how a reader holds it back."""
    rig = Rig(PREFACE + settings_frame(initial_window_size=10), keep_alive_s=1000.0)
    await rig.client.say(headers(1, HEAD, is_last=True))
    stream = rig.exchanges[0].stream
    stream.send_head(STATUS)
    stream.send([bytes(50)])
    await asyncio.sleep(900)
    assert not rig.client.transport.is_over


@in_virtual_time
async def test_client_that_reads_nothing_at_all():
    """Is cut off, whatever it was sent, and however its connection was to end."""
    for give_up in (lambda rig: None, lambda rig: rig.client.connection.data_received(bytes(99))):
        rig = Rig()
        rig.client.transport.unread_bytes = 5000
        rig.client.connection.pause_writing()
        give_up(rig)
        await asyncio.sleep(25)
        assert rig.client.transport.is_aborted
        rig.client.leave()


@in_virtual_time
async def test_large_answers_take_turns():
    """Whoever was interrupted goes last when there is room again."""
    rig = Rig(PREFACE + settings_frame(initial_window_size=1 << 20))
    await rig.client.say(window_frame(0, 1 << 24))
    connection = rig.client.connection
    connection.pause_writing()
    for stream_id in (1, 3):
        await rig.client.say(headers(stream_id, HEAD, is_last=True))
        rig.exchanges[-1].stream.respond(STATUS, [bytes(200_000)], TAIL)
    await rig.client.hear()
    write = rig.client.transport.write

    def write_and_pause(data):
        write(data)
        if len(data) > 1 << 15:
            connection.pause_writing()

    rig.client.transport.write = write_and_pause
    turns = []
    for _ in range(4):
        connection.resume_writing()
        turns.append({one.stream_id for one in of(await rig.client.hear(), Kind.DATA)})
    assert turns == [{1}, {3}, {1}, {3}]
