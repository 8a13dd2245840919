"""Every way that bytes of a stranger get in, in one table: how to make one wrong, how to try it.

A door takes the `random.Random` of one input, makes the input and puts it to the server. Whatever
comes back is judged here: an answer, or an error that the protocol has a name for and that is the
client's own. Anything else is a `WrongError`.

To add a decoder, write a door and put it into `DOORS`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from fuzzing.corpus import ANSWERS, HTTP, MESSAGES, METHODS, REST, Case
from fuzzing.mutate import Field, fields_of, mutate_bytes, mutate_json, mutate_message
from fuzzing.target import BUG_CODES, Target
from headway.frontends.grpc_errors import Failure, failure_of
from headway.frontends.grpc_service import MethodKind
from headway.frontends.grpc_status import StatusCode
from headway.frontends.oip_messages import INFERENCE
from headway.loadgen import parse_answer
from headway.units import NS_PER_S
from headway.workload import Outcome

__all__ = ["ACCEPTED", "DOORS", "Door", "WrongError", "seeds_of"]

ACCEPTED: Final = "accepted"
LENGTH: Final = b"inference-header-content-length"
STREAM_MESSAGES_MAX: Final = 8

_STATUSES: Final = frozenset({200, 400, 401, 403, 404, 405, 413, 415, 429, 431, 501, 503, 504})
"""Of those that a client may be told; 500 is never the client's."""


class WrongError(Exception):
    """The server did what it must not."""


class Door(NamedTuple):
    """A way in."""

    name: str
    weight: int
    """Its share of all inputs."""
    make: Callable[[Random], Any]
    """An input; the same for the same chance."""
    seeds: Sequence[Any]
    """What inputs are made from: each is accepted as it stands."""
    enter: Callable[[Target, Any], Awaitable[str]]
    """Put an input to the server: `ACCEPTED`, or the code of the error it was refused with."""


# --- HTTP, behind its parser ----------------------------------------------------------------------

_ODD_HEADERS: Final = (
    b"", b"0", b"1", b"-1", b"1e3", b"nan", b"inf", b"1e400", b"0x10", b"9" * 30, b"\xff", b"gzip",
    b"deflate", b"br", b"identity", b"urgent", b"Bearer", b"5, 5", b"4294967296", "\u0662".encode(),
)  # fmt: skip
_HEADER_NAMES: Final = (
    LENGTH, b"content-encoding", b"accept-encoding", b"headway-budget-ms", b"headway-priority",
    b"headway-tier", b"headway-tenant", b"authorization", b"headway-key", b"traceparent",
)  # fmt: skip


def _rest_maker(kind: str) -> Callable[[Random], Case]:
    cases = REST[kind]
    texts = [case.body for case in (*REST["json"], *REST["repository"]) if case.body]

    def make(chance: Random) -> Case:
        case = chance.choice(cases)
        if kind == "wide" or chance.random() < 0.9:
            case = _with_body(chance, case, texts)
        if chance.random() < 0.2:
            pair = (chance.choice(_HEADER_NAMES), chance.choice(_ODD_HEADERS))
            case = case._replace(headers=(*case.headers, pair))
        if chance.random() < 0.05:
            path = mutate_bytes(chance, case.path.encode())[:4000].decode("latin-1")
            case = case._replace(path=path)
        return case

    return make


def _with_body(chance: Random, case: Case, texts: Sequence[bytes]) -> Case:
    """The body made wrong, and the length of its JSON mostly made right again."""
    headers = dict(case.headers)
    length = headers.get(LENGTH)
    if b"content-encoding" in headers or length == b"0":
        return case._replace(body=mutate_bytes(chance, case.body))
    if length is None:
        return case._replace(body=mutate_json(chance, case.body, texts))
    text, binary = case.body[: int(length)], case.body[int(length) :]
    if chance.random() < 0.7:
        text = mutate_json(chance, text, texts)
    else:
        binary = mutate_bytes(chance, binary)
    if chance.random() < 0.9:
        headers[LENGTH] = b"%d" % len(text)
    return case._replace(body=text + binary, headers=tuple(headers.items()))


async def _enter_rest(target: Target, case: Case) -> str:
    """Call the app as the HTTP server does."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": case.body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": case.method,
        "path": case.path,
        "headers": [*case.headers, (b"content-length", b"%d" % len(case.body))],
    }
    await target.app(scope, receive, send)
    if len(sent) != 2:
        raise WrongError(f"{len(sent)} messages for one request")
    start, body = sent
    return _judged(start["status"], dict(start["headers"]), body["body"])


def _judged(status: int, headers: Mapping[bytes, bytes], body: bytes) -> str:
    """What an HTTP answer means."""
    if status not in _STATUSES:
        raise WrongError(f"status {status}: {body[:300]!r}")
    if int(headers[b"content-length"]) != len(body):
        raise WrongError(f"content-length {headers[b'content-length']!r} of {len(body)} bytes")
    kind = headers.get(b"content-type", b"")
    if status == 200 and b"content-encoding" in headers:
        return ACCEPTED
    if status == 200 and kind == b"application/octet-stream":
        body = body[: int(headers[LENGTH])]
    if status == 200 and kind.startswith((b"text/plain", b"text/event-stream")):
        return ACCEPTED
    value = json.loads(body)
    if status == 200:
        return ACCEPTED
    if isinstance(value.get("error"), dict):  # as OpenAI has it
        value = {"error": value["error"]["message"], "code": value["error"]["code"]}
    if not value.keys() >= {"error", "code"} and "ready" not in value:
        raise WrongError(f"status {status} without `error` and `code`: {body[:300]!r}")
    if value.get("code") in BUG_CODES:
        raise WrongError(f"`{value['code']}`: {body[:300]!r}")
    return str(value.get("code", "not_ready"))


# --- HTTP, bytes of a connection ------------------------------------------------------------------

_ODD_LINES: Final = (
    b"content-length: 5", b"content-length: -1", b"content-length: 99999999999999999999",
    b"transfer-encoding: chunked", b"transfer-encoding: gzip, chunked", b"expect: 100-continue",
    b"connection: close", b"connection: upgrade", b"upgrade: websocket", b"host:", b": x", b"x",
    b"x:" + b"y" * 9000, b"x\x00y: z", b" folded", b"content-encoding: gzip", b"\xff: \xff",
    b"inference-header-content-length: 0", b"GET / HTTP/1.1", b"PRI * HTTP/2.0", b"te: trailers",
)  # fmt: skip
_ODD_STARTS: Final = (
    b"GET /v2 HTTP/1.0", b"GET /v2 HTTP/9.9", b"OPTIONS * HTTP/1.1", b"CONNECT x:1 HTTP/1.1",
    b"POST http://x/v2/models/echo/infer HTTP/1.1", b"GET /%zz%00%ff HTTP/1.1", b"GET  / HTTP/1.1",
    b"GET /\xff HTTP/1.1", b"get /v2 http/1.1", b"POST /v2/models//infer HTTP/1.1",
    b"GET /?a#b HTTP/1.1", b"DELETE /v2/models/echo HTTP/1.1", b"GET //[::1 HTTP/1.1",
)  # fmt: skip


class Pieces(NamedTuple):
    """Bytes of a connection, as they arrive."""

    parts: tuple[bytes, ...]


def _make_http(chance: Random) -> Pieces:
    data = chance.choice(HTTP)
    if chance.random() < 0.6:
        head, end, body = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        for _ in range(chance.randint(1, 3)):
            _change_lines(chance, lines)
        data = b"\r\n".join(lines) + end + body
    if chance.random() < 0.5:
        data = mutate_bytes(chance, data)
    cuts = sorted(chance.randint(0, len(data)) for _ in range(chance.choice((0, 0, 1, 3))))
    return Pieces(tuple(data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)))


def _change_lines(chance: Random, lines: list[bytes]) -> None:
    at = chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            lines[0] = chance.choice(_ODD_STARTS)
        case 1:
            lines.insert(at + 1, chance.choice(_ODD_LINES))
        case 2:
            lines[at : at + 1] = [lines[at]] * chance.choice((0, 2, 2, 150))
        case 3:
            lines[at] = mutate_bytes(chance, lines[at])
        case _:
            lines[at] = chance.choice(_ODD_LINES)
    if not lines:
        lines.append(b"")


class _Wire(asyncio.Transport):
    """A connection without a network: keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False

    def write(self, data: Any) -> None:
        if not self.is_closed:
            self.written += data

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def _enter_http(target: Target, pieces: Pieces) -> str:
    """Be a connection: bytes in, responses out, then hang up."""
    protocol = target.http.connection()
    wire = _Wire()
    protocol.connection_made(wire)
    for part in pieces.parts:
        if part and not wire.is_closed:
            protocol.data_received(part)
            await asyncio.sleep(0)
    await target.settle()
    protocol.connection_lost(None)
    if not await target.settle():
        raise WrongError("a request outlives its connection")
    if target.http.state.connections:
        raise WrongError("a connection is remembered that is lost")
    return _judged_wire(bytes(wire.written), any(b"HEAD" in part for part in pieces.parts))


def _judged_wire(written: bytes, may_lack_body: bool) -> str:
    """What was written to a connection: whole responses and nothing else."""
    if not written:
        return "no_answer_due"
    verdict = ACCEPTED
    while written:
        head, end, rest = written.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        if not end or not lines[0].startswith(b"HTTP/1.1 "):
            raise WrongError(f"no response: {written[:200]!r}")
        status = int(lines[0].split()[1])
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:])
        if status == 100:
            written = rest
            continue
        size = int(headers[b"content-length"])
        if may_lack_body and len(rest) < size:
            return "head"
        body, written = rest[:size], rest[size:]
        if may_lack_body:
            continue
        verdict = _judged(status, headers, body)
    return verdict


# --- gRPC -----------------------------------------------------------------------------------------


TRAILERS_BYTES_MAX: Final = 6 << 10
"""Clients take 8 KiB of all trailers; the names of these and the library's own need some of it."""
_SENT_PLAIN: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class _Call:
    """What a gRPC server gives a method beside its message."""

    def __init__(self, metadata: Mapping[bytes, bytes], left_ns: int | None) -> None:
        self.metadata, self._left_ns = metadata, left_ns
        self.written: list[bytes] = []

    def left_ns(self) -> int | None:
        return self._left_ns

    async def write(self, message: bytes) -> None:
        self.written.append(message)


class Called(NamedTuple):
    """A gRPC call."""

    method: str
    messages: tuple[bytes, ...]
    metadata: tuple[tuple[bytes, bytes], ...] = ()
    left_ns: int | None = None


_TREES: Final[Mapping[str, Sequence[Sequence[Field]]]] = {
    name: [fields_of(message) or [] for message in messages]
    for name, messages in {**METHODS, "ModelInfer": MESSAGES}.items()
}
_ALL_TREES: Final = [tree for trees in _TREES.values() for tree in trees]


def _make_call(chance: Random, method: str, count: int = 1) -> Called:
    trees = _TREES["ModelInfer" if method == "ModelStreamInfer" else method]
    messages = tuple(mutate_message(chance, chance.choice(trees), _ALL_TREES) for _ in range(count))
    metadata: tuple[tuple[bytes, bytes], ...] = ()
    if chance.random() < 0.2:
        metadata = ((chance.choice(_HEADER_NAMES), chance.choice(_ODD_HEADERS)),)
    left_ns = chance.choice((None, None, None, 5 * NS_PER_S, 0, 10**9 * NS_PER_S))
    return Called(method, messages, metadata, left_ns)


def _make_infer(chance: Random) -> Called:
    return _make_call(chance, "ModelInfer")


def _make_stream(chance: Random) -> Called:
    return _make_call(chance, "ModelStreamInfer", chance.randint(0, STREAM_MESSAGES_MAX))


def _make_method(chance: Random) -> Called:
    return _make_call(chance, chance.choice(sorted(METHODS)))


async def _enter_call(target: Target, called: Called) -> str:
    """Call a method as what carries it does."""
    call = _Call(dict(called.metadata), called.left_ns)
    method = target.grpc.methods()[called.method]
    if method.kind is MethodKind.STREAM:
        await method.answer(_stream_of(called.messages), call)
        if len(call.written) != len(called.messages):
            raise WrongError(f"{len(call.written)} responses for {len(called.messages)} requests")
        kind = INFERENCE["ModelStreamInferResponse"]
        texts = [kind.FromString(message).error_message for message in call.written]
        if any("bug in headway" in text for text in texts):
            raise WrongError(f"a bug in a stream: {texts}")
        return "INVALID_ARGUMENT" if any(texts) else ACCEPTED
    end: Any = None
    if called.method == "ModelInfer":
        end = await _the_short_way(target, called)
    if end is None:
        try:
            end = await method.answer(called.messages[0], call)
        except Exception as error:  # noqa: BLE001 (as whatever carries a service does)
            end = failure_of(error)
    return _told(end) if isinstance(end, Failure) else ACCEPTED


async def _the_short_way(target: Target, called: Called) -> Any:
    """Infer without a task, as nearly all calls do; None where it has to go the long way."""
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    metadata = dict(called.metadata)
    cancel = target.grpc.submit(called.messages[0], metadata, called.left_ns, told.set_result)
    if cancel is None:
        return None
    end = await told
    if not isinstance(end, Failure):
        INFERENCE["ModelInferResponse"].FromString(b"".join(end))
    return end


def _told(failure: Failure) -> str:
    """What a client is told of a failure, which has to fit, and must be its own."""
    code, text, metadata = failure
    sent = [quote(text, safe=_SENT_PLAIN), *(value for _, value in metadata)]
    if sum(len(value) for value in sent) > TRAILERS_BYTES_MAX:
        raise WrongError(f"an error of {len(text)} characters is too long for gRPC's trailers")
    if code in (StatusCode.INTERNAL, StatusCode.UNKNOWN):
        raise WrongError(f"{code.name}: {text[:300]}")
    return code.name


async def _stream_of(messages: Sequence[bytes]) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


# --- answers, as a client reads them --------------------------------------------------------------


def _make_answer(chance: Random) -> tuple[int, bytes, Mapping[str, str]]:
    status = chance.choice((200, 200, 200, 429, 503, 504, 500, 302, 0))
    odd = chance.choice(_ODD_HEADERS).decode("latin-1")
    return status, mutate_json(chance, chance.choice(ANSWERS), ANSWERS), {"headway-bound-ms": odd}


async def _enter_answer(_: Target, answer: tuple[int, bytes, Mapping[str, str]]) -> str:
    outcome = parse_answer(*answer).outcome
    return ACCEPTED if outcome is Outcome.COMPLETED else str(outcome)


def _whole(data: bytes) -> Pieces:
    return Pieces((data,))


def _rest_door(kind: str, weight: int) -> Door:
    return Door(kind, weight, _rest_maker(kind), REST[kind], _enter_rest)


DOORS: Final[Sequence[Door]] = (
    _rest_door("json", 200),
    _rest_door("binary", 180),
    _rest_door("raw", 30),
    _rest_door("compressed", 50),
    _rest_door("estimate", 50),
    _rest_door("repository", 70),
    _rest_door("openai", 30),
    _rest_door("generate", 30),
    _rest_door("wide", 2),
    Door("http", 118, _make_http, [_whole(data) for data in HTTP], _enter_http),
    Door(
        "grpc_infer",
        160,
        _make_infer,
        [Called("ModelInfer", (message,)) for message in MESSAGES],
        _enter_call,
    ),
    Door(
        "grpc_stream", 20, _make_stream, [Called("ModelStreamInfer", tuple(MESSAGES))], _enter_call
    ),
    Door(
        "grpc_methods",
        40,
        _make_method,
        [Called(name, (message,)) for name, found in METHODS.items() for message in found],
        _enter_call,
    ),
    Door(
        "answers",
        20,
        _make_answer,
        [(200, ANSWERS[0], {}), (429, ANSWERS[1], {})],
        _enter_answer,
    ),
)


def seeds_of(door: Door) -> Sequence[Any]:
    """What a door must accept as it stands; wide ones are there to be refused."""
    return () if door.name in {"wide", "answers"} else door.seeds
