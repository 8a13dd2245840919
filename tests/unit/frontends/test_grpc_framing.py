"""gRPC as bytes: messages in pieces, the time of a call, the text of an error."""

import gzip
import zlib

import pytest
from tests.http2_client import message

from headway.frontends.grpc_framing import (
    TEXT_BYTES_MAX,
    MessageError,
    MessageReader,
    TooLargeError,
    inflate,
    timeout_ns,
    trailers,
)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6, 7, 100])
def test_messages_in_pieces(step):
    """Cut anywhere, they come out as they went in, and say what they took of the body."""
    bodies = [b"", b"one", bytes(range(20)), b""]
    whole = b"".join(message(body) for body in bodies)
    reader, found = MessageReader(100), []
    for at in range(0, len(whole), step):
        found += reader.feed(whole[at : at + step])
    assert [bytes(one.data) for one in found] == bodies
    assert sum(one.body_bytes for one in found) == len(whole)
    assert reader.is_between


def test_message_under_way_is_known():
    """A body that ends within a message can be told from one that does not."""
    reader = MessageReader(100)
    assert reader.feed(message(b"abc")[:7]) == []
    assert not reader.is_between


def test_large_message_is_refused_by_its_prefix():
    """Before a byte of it has come."""
    with pytest.raises(TooLargeError, match="101 bytes is larger than the 100"):
        MessageReader(100).feed(b"\0\0\0\0\x65")
    reader = MessageReader(100)
    reader.feed(b"\0\0\0")
    with pytest.raises(TooLargeError):
        reader.feed(b"\0\x65")


def test_prefix_of_another_kind_is_refused():
    """A flag is 0 or 1."""
    with pytest.raises(MessageError, match="begins with 2"):
        MessageReader(100).feed(b"\x02\0\0\0\0")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (b"5S", 5_000_000_000),
        (b"2H", 7_200_000_000_000),
        (b"1M", 60_000_000_000),
        (b"250m", 250_000_000),
        (b"9u", 9_000),
        (b"99999999n", 99_999_999),
        (b"0m", 0),
        (b"100000000n", None),
        (b"", None),
        (b"5", None),
        (b"S", None),
        (b"-5S", None),
        (b"5 S", None),
        (b"5x", None),
    ],
)
def test_time_that_a_call_has(value, wanted):
    """In each unit; what cannot be understood grants none."""
    assert timeout_ns(value) == wanted


def test_trailers_of_a_failure():
    """The code, the text quoted as gRPC has it, and whatever else is said."""
    said = trailers(5, "no `é` at 100 %\n", [("headway-code", "x"), ("long", "v" * 300)])
    assert dict(said) == {
        b"grpc-status": b"5",
        b"grpc-message": b"no `%C3%A9` at 100 %25%0A",
        b"headway-code": b"x",
        b"long": b"v" * 300,
    }


def test_long_text_is_cut_between_characters_of_its_quoting():
    """Never within `%XX`, and headers stay bounded."""
    text = dict(trailers(13, "é" * TEXT_BYTES_MAX))[b"grpc-message"]
    assert TEXT_BYTES_MAX - 3 < len(text) <= TEXT_BYTES_MAX
    assert len(text) % 3 == 0


def test_compressed_messages():
    """Both codings, never to more than allowed, and nothing that is neither."""
    assert inflate(gzip.compress(b"text"), b"gzip", 4) == b"text"
    assert inflate(zlib.compress(b"text"), b"deflate", 4) == b"text"
    with pytest.raises(TooLargeError):
        inflate(zlib.compress(b"text"), b"deflate", 3)
    for data, coding in (
        (b"text", b"gzip"),
        (zlib.compress(b"text") + b"x", b"deflate"),
        (zlib.compress(b"text")[:-1], b"deflate"),
        (b"text", b"snappy"),
        (b"text", b""),
    ):
        with pytest.raises(MessageError):
            inflate(data, coding, 100)
