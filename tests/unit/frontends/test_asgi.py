"""Bodies: in pieces, too large, cut off, compressed."""

import asyncio
import gzip
import zlib

import pytest
from tests.asgi_client import Exchange

from headway.errors import InvalidRequestError, RequestCancelledError
from headway.frontends import HttpError
from headway.frontends.asgi import compress, decompress, read_body

LARGE = bytes(range(256)) * 1024


def read(pieces, *, bytes_max=10, declared=None, hung_up=False):
    async def run():
        exchange = Exchange(pieces)
        if hung_up:
            exchange.hung_up.set()
        return await read_body(exchange.receive, bytes_max, declared)

    return asyncio.run(run())


@pytest.mark.parametrize("pieces", [[b"hello"], [b"he", b"llo"], [b"hello", b""], [b"", b"hello"]])
def test_a_body_is_whole_however_it_came(pieces):
    """Pieces are joined; one piece is the ordinary case."""
    assert read(pieces) == b"hello"


@pytest.mark.parametrize("pieces", [[b"12345678901"], [b"123456", b"78901"]])
def test_a_body_over_the_limit_is_refused(pieces):
    """A body of one byte too many is refused, whether or not its length was declared."""
    with pytest.raises(HttpError) as caught:
        read(pieces)
    assert caught.value.status == 413


def test_a_declared_length_over_the_limit_is_refused_unread():
    """Nothing is read of a body that says it is too large."""

    async def run():
        exchange = Exchange([b"1"])
        with pytest.raises(HttpError) as caught:
            await read_body(exchange.receive, 10, b"9" * 1000)
        assert caught.value.status == 413
        assert exchange.receive_count == 0

    asyncio.run(run())


def test_a_client_that_leaves_midway_is_gone():
    """A hang-up before the end of the body is a cancellation."""

    async def run():
        exchange = Exchange([])
        exchange.hung_up.set()
        with pytest.raises(RequestCancelledError):
            await read_body(exchange.receive, 10, None)

    asyncio.run(run())


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
@pytest.mark.parametrize("body", [b"", b"hello", LARGE])
def test_compression_is_undone(coding, body):
    """What is compressed here or by a client comes back, small or large."""
    packed = gzip.compress(body) if coding == b"gzip" else zlib.compress(body)
    assert body == asyncio.run(decompress(packed, coding, len(LARGE)))
    ours = asyncio.run(compress(body, coding))
    assert body == (gzip.decompress(ours) if coding == b"gzip" else zlib.decompress(ours))


def test_identity_changes_nothing():
    """No coding, or the one called identity, leaves the body alone."""
    assert asyncio.run(decompress(b"x", b"", 10)) == b"x"
    assert asyncio.run(decompress(b"x", b" Identity", 10)) == b"x"


def test_a_bomb_is_not_unpacked():
    """A small body that would unpack to more than the limit is refused."""
    with pytest.raises(HttpError) as caught:
        asyncio.run(decompress(zlib.compress(bytes(10**6)), b"deflate", 1000))
    assert caught.value.status == 413


@pytest.mark.parametrize(
    "body", [b"", b"hello", zlib.compress(b"hello")[:-1], zlib.compress(b"hello") + b"more"]
)
def test_what_is_not_one_whole_stream_is_refused(body):
    """Broken, cut off and continued streams are errors of the client."""
    with pytest.raises(InvalidRequestError):
        asyncio.run(decompress(body, b"deflate", 1000))


def test_an_unknown_coding_is_refused():
    """What cannot be undone is said to be so."""
    with pytest.raises(HttpError) as caught:
        asyncio.run(decompress(b"x", b"br", 1000))
    assert caught.value.status == 415
