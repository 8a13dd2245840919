"""Laws of an HTTP/2 connection: it does not matter how bytes are cut, and no bytes are too odd."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from tests.http2_client import (
    END_HEADERS,
    GREETING,
    PADDED,
    Client,
    Keeper,
    Kind,
    call_block,
    data,
    frame,
    headers,
    window_frame,
)

from headway.frontends.http2 import Http2Connection, Limits
from headway.testing import run_virtual

STREAMS = st.sampled_from([1, 3, 5])
HEAD = call_block("/x")


def padded(stream_id, body, padding, *, is_last):
    """Data with padding behind it."""
    payload = bytes((padding,)) + body + bytes(padding)
    return frame(Kind.DATA, PADDED | int(is_last), stream_id, payload)


FRAMES = st.one_of(
    st.builds(headers, STREAMS, st.just(HEAD), is_last=st.booleans()),
    st.builds(data, STREAMS, st.binary(max_size=20), is_last=st.booleans()),
    st.builds(padded, STREAMS, st.binary(max_size=9), st.integers(0, 9), is_last=st.booleans()),
    st.builds(
        lambda stream_id, at: (
            frame(Kind.HEADERS, 0, stream_id, HEAD[:at])
            + frame(Kind.CONTINUATION, END_HEADERS, stream_id, HEAD[at:])
        ),
        STREAMS,
        st.integers(0, 9),
    ),
    st.builds(window_frame, st.sampled_from([0, 1, 3]), st.integers(0, 99)),
    st.builds(lambda body: frame(Kind.PING, 0, 0, body), st.binary(min_size=8, max_size=8)),
    st.builds(lambda stream_id: frame(Kind.RST_STREAM, 0, stream_id, bytes(4)), STREAMS),
    st.builds(frame, st.integers(0, 12), st.integers(0, 255), STREAMS, st.binary(max_size=12)),
)


class Exchange:
    """Keeps what it got."""

    is_owed = True

    def __init__(self, stream, opened):
        self.stream, self.body, self.end = stream, b"", None
        opened.append(self)

    def on_data(self, data):
        """A piece."""
        self.body += data
        self.stream.credit(len(data))

    def on_end(self):
        """The end."""
        self.end = "whole"

    def on_gone(self):
        """Gone."""
        assert self.end != "gone", "that is told once"
        self.end = "gone"

    def on_room(self):
        """Room."""


def played(pieces):
    """What comes of these bytes: bodies by stream, what was sent, and whether it ended.

    Requests are answered when all bytes have come, those that were not taken back.
    """

    async def play():
        opened, keeper = [], Keeper()
        connection = Http2Connection(lambda stream, _: Exchange(stream, opened), Limits(), keeper)
        client = Client(connection, b"")
        for piece in pieces:
            if not client.transport.is_over:
                connection.data_received(piece)
        story = {one.stream.stream_id: one.body for one in opened if one.end == "whole"}
        for one in opened:
            one.stream.respond(((b":status", b"200"),), [one.body], ((b"t", b"1"),))
        frames = await client.hear()
        client.leave()
        assert keeper.gone == [connection]
        assert not connection.streams
        return story, frames, client.transport.is_over

    return run_virtual(play())


def goodbye_of(frames):
    """Why the connection was ended, if it was."""
    return [one.payload for one in frames if one.kind == Kind.GOAWAY]


@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(0, 400), max_size=6))
def test_it_does_not_matter_how_bytes_are_cut(frames, cuts):
    """Whole, in pieces, or byte by byte: the same is told, and the same is sent.

    Of a connection that breaks the protocol the same becomes; how much of what came before was
    begun depends on what came at once with it.
    """
    whole = GREETING + b"".join(frames)
    edges = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [whole[a:b] for a, b in itertools.pairwise(edges)]
    story, sent, is_over = played([whole])
    for cut in (pieces, [whole[at : at + 1] for at in range(len(whole))]):
        found = played(cut)
        if is_over:
            assert (found[2], goodbye_of(found[1])) == (True, goodbye_of(sent))
        else:
            assert (found[0], found[2]) == (story, False)
            assert sorted(found[1], key=repr) == sorted(sent, key=repr)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_borne(body, is_greeted):
    """Nothing is raised, whatever a client sends."""
    played([(GREETING if is_greeted else b"") + body])


@given(st.lists(FRAMES, max_size=8), st.integers(0, 400), st.binary(max_size=9), st.integers(0, 9))
def test_damaged_frames_are_borne(frames, at, other, removed):
    """Nearly right ones get further than any bytes do."""
    whole = b"".join(frames)
    at = min(at, len(whole))
    played([GREETING + whole[:at] + other + whole[at + removed :]])
