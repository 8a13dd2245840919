"""gRPC calls on HTTP/2 streams: a message in, or many; an answer, or many; and an end.

A call that is answered at once costs no task: `UnaryExchange` hands its message on and is answered
by whoever has it. Methods that wait get a task each (`Tasks`).

Knows streams and methods. Refuses to know what is in a message.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headway.core import Buffer
from headway.frontends.client_call import HEADER_NAMES
from headway.frontends.grpc_errors import Failure, failure_of
from headway.frontends.grpc_framing import (
    HEAD,
    OK,
    Message,
    MessageError,
    MessageReader,
    inflate,
    message_prefix,
    timeout_ns,
    trailers,
)
from headway.frontends.grpc_service import Method, MethodKind
from headway.frontends.grpc_status import StatusCode
from headway.frontends.http2_stream import Headers, Stream
from headway.units import NS_PER_S

__all__ = ["Calls", "Start", "StreamExchange", "Tasks", "UnaryExchange", "run_method", "start_of"]

_THREAD_BYTES_MIN: Final = 64 << 10
"""From here on zlib works in a thread."""


class Start(NamedTuple):
    """How a call begins."""

    path: str
    metadata: Mapping[bytes, bytes]
    """Those that a request's headers may be."""
    left_ns: int | None
    coding: bytes
    """Of its compressed messages."""


def start_of(headers: Headers) -> Start | int:
    """What the headers of a request say, or the HTTP status for what is no call."""
    found = dict(headers)
    if found.get(b":method") != b"POST":
        return 405
    if not found.get(b"content-type", b"").startswith(b"application/grpc"):
        return 415
    left = found.get(b"grpc-timeout")
    return Start(
        found.get(b":path", b"").decode("latin-1"),
        {name: found[name] for name in found.keys() & HEADER_NAMES},
        None if left is None else timeout_ns(left),
        found.get(b"grpc-encoding", b""),
    )


async def _inflated(message: Message, coding: bytes, bytes_max: int) -> bytes:
    """What was compressed."""
    if len(message.data) < _THREAD_BYTES_MIN:
        return inflate(message.data, coding, bytes_max)
    return await asyncio.to_thread(inflate, message.data, coding, bytes_max)


def _failed(code: StatusCode, text: str) -> Failure:
    return Failure(code, text, ())


def _failure_of(error: Exception) -> Failure:
    """Of what a body or a method raised."""
    if isinstance(error, MessageError):
        return _failed(error.code, str(error))
    return failure_of(error)


class UnaryExchange:
    """A call of one message, answered by one or by a failure.

    Args:
        stream: of the call.
        start: of the call.
        begin: is handed the call and its message; it, or whoever it tells, answers.
        calls: what all calls share.

    Invariants: `cancel` is called at most once, and only before an answer.
    """

    __slots__ = (
        "_begin",
        "_calls",
        "_is_over",
        "_message",
        "_reader",
        "cancel",
        "start",
        "stream",
    )

    def __init__(self, stream: Stream, start: Start, begin: "Begin", calls: "Calls") -> None:
        self.stream = stream
        self.start = start
        self._begin = begin
        self._calls = calls
        self._reader = MessageReader(calls.bytes_max)
        self._message: Message | None = None
        self._is_over = False
        self.cancel: Callable[[], object] | None = None
        """Takes back what was begun."""

    @property
    def is_owed(self) -> bool:
        """See `Exchange.is_owed`: the call's only message is sent at once."""
        return True

    def on_data(self, data: bytes) -> None:
        """See `Exchange.on_data`."""
        if self._is_over:
            return
        self.stream.credit(len(data))
        try:
            for message in self._reader.feed(data):
                if self._message is not None:
                    raise MessageError("a call of one message has two")
                self._message = message
        except MessageError as error:
            self.fail(_failure_of(error))

    def on_end(self) -> None:
        """See `Exchange.on_end`."""
        if self._is_over:
            return
        message, self._message = self._message, None
        if message is None or not self._reader.is_between:
            self.fail(_failed(StatusCode.INTERNAL, "the call's message is not whole"))
        elif message.is_compressed:
            self.cancel = self._calls.tasks.start(self._inflate_and_begin(message)).cancel
        else:
            self._begin(self, message.data)

    async def _inflate_and_begin(self, message: Message) -> None:
        try:
            data = await _inflated(message, self.start.coding, self._calls.bytes_max)
        except MessageError as error:
            self.fail(_failure_of(error))
        else:
            self.cancel = None
            self._begin(self, data)

    def on_gone(self) -> None:
        """See `Exchange.on_gone`."""
        if not self._is_over:
            self._is_over = True
            self._calls.ended(StatusCode.CANCELLED.name)
            if self.cancel is not None:
                self.cancel()

    def on_room(self) -> None:
        """See `Exchange.on_room`."""

    def respond(self, parts: Sequence[Buffer]) -> None:
        """Answer, unless nobody waits any more."""
        if self._is_over:
            return
        size = sum([len(part) for part in parts])
        bytes_max = self._calls.bytes_max
        if size > bytes_max:
            text = f"an answer of {size} bytes is larger than the {bytes_max} allowed"
            self.fail(_failed(StatusCode.RESOURCE_EXHAUSTED, text))
            return
        self._is_over = True
        self._calls.ended(StatusCode.OK.name)
        self.stream.respond(HEAD, [message_prefix(size), *parts], OK)

    def fail(self, failure: Failure) -> None:
        """End without an answer, unless nobody waits any more."""
        if not self._is_over:
            self._is_over = True
            self._calls.ended(failure.code.name)
            self.stream.finish((*HEAD, *trailers(*failure)))


Begin = Callable[[UnaryExchange, bytes | bytearray], None]


class Tasks:
    """The tasks of calls that wait.

    Invariants: each is held until it has ended; none outlives `stop`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """Cancel what is left, and wait for its end."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


class Calls(NamedTuple):
    """What all calls of a listener share."""

    bytes_max: int
    """Of a message, either way."""
    tasks: Tasks
    ended: Callable[[str], None]
    """Is told the status code of each end."""


class _Call:
    """What a method may ask of its call; see `grpc_service.Call`."""

    def __init__(
        self, start: Start, write: Callable[[bytes], Coroutine[Any, Any, None]] | None = None
    ) -> None:
        self.metadata = start.metadata
        self._left_ns = start.left_ns
        self._loop = asyncio.get_running_loop()
        self._began_at_s = self._loop.time()
        self._write = write

    def left_ns(self) -> int | None:
        """Until the deadline."""
        if self._left_ns is None:
            return None
        gone_s = self._loop.time() - self._began_at_s
        return max(0, int(self._left_ns - gone_s * NS_PER_S))

    async def write(self, message: bytes) -> None:
        """Send a message of several."""
        assert self._write is not None, "a unary method writes nothing"
        await self._write(message)


def run_method(
    call: UnaryExchange, message: bytes | bytearray, *, method: Method, tasks: Tasks
) -> None:
    """Have a method that may wait answer a call of one message."""

    async def answer() -> None:
        try:
            async with asyncio.timeout(_seconds(call.start.left_ns)):
                response = await method.answer(bytes(message), _Call(call.start))
        except TimeoutError:
            call.fail(_failed(StatusCode.DEADLINE_EXCEEDED, "the call's time is up"))
        except Exception as error:  # noqa: BLE001 (nothing may go unanswered)
            call.fail(_failure_of(error))
        else:
            call.respond([response])

    call.cancel = tasks.start(answer()).cancel


def _seconds(left_ns: int | None) -> float | None:
    return None if left_ns is None else left_ns / NS_PER_S


class StreamExchange:
    """A call that is answered by many messages, and may bring many.

    Invariants: what has arrived and was not taken is bounded by the stream's window.
    """

    def __init__(self, stream: Stream, start: Start, method: Method, calls: Calls) -> None:
        self._stream = stream
        self._start = start
        self._method = method
        self._calls = calls
        self._reader = MessageReader(calls.bytes_max)
        self._messages: deque[tuple[Message, int]] = deque()
        """Not taken yet, and how much of each is to be credited when it is."""
        self._ahead_bytes = self._partial_bytes = 0
        """Of the message that is coming in: credited already, and not yet."""
        self._is_heard = self._has_head = self._is_over = False
        self._something = asyncio.Event()
        """A message has come, or there are no more."""
        self._room = asyncio.Event()
        self._task = calls.tasks.start(self._run())

    @property
    def is_owed(self) -> bool:
        """See `Exchange.is_owed`: between messages a client may wait, and while we have it wait."""
        return not (self._reader.is_between or self._messages)

    def on_data(self, data: bytes) -> None:
        """See `Exchange.on_data`."""
        if self._is_over:
            return
        self._partial_bytes += len(data)
        try:
            for message in self._reader.feed(data):
                owed_bytes = message.body_bytes - self._ahead_bytes
                self._ahead_bytes = 0
                self._partial_bytes -= owed_bytes
                self._messages.append((message, owed_bytes))
        except MessageError as error:
            self._end(_failure_of(error))
            self._task.cancel()
        self._credit_partial()
        self._something.set()

    def on_end(self) -> None:
        """See `Exchange.on_end`."""
        self._is_heard = True
        self._something.set()

    def on_gone(self) -> None:
        """See `Exchange.on_gone`."""
        if not self._is_over:
            self._is_over = True
            self._calls.ended(StatusCode.CANCELLED.name)
            self._task.cancel()

    def on_room(self) -> None:
        """See `Exchange.on_room`."""
        self._room.set()

    async def _requests(self) -> AsyncGenerator[bytes]:
        while True:
            while self._messages:
                message, owed_bytes = self._messages.popleft()
                self._stream.credit(owed_bytes)
                self._credit_partial()
                if message.is_compressed:
                    yield await _inflated(message, self._start.coding, self._calls.bytes_max)
                else:
                    yield bytes(message.data)
            if self._is_heard:
                return
            self._something.clear()
            await self._something.wait()

    def _credit_partial(self) -> None:
        """A message may be larger than the window, if those before it have been taken."""
        if not self._messages:
            self._stream.credit(self._partial_bytes)
            self._ahead_bytes += self._partial_bytes
            self._partial_bytes = 0

    async def _run(self) -> None:
        call = _Call(self._start, self._write)
        requests = self._requests()
        try:
            async with asyncio.timeout(_seconds(self._start.left_ns)):
                given: Any = requests
                if self._method.kind is MethodKind.WATCH:
                    given = await anext(requests, None)
                    if given is None:
                        raise MessageError("the call has no message")
                await self._method.answer(given, call)
        except TimeoutError:
            self._end(_failed(StatusCode.DEADLINE_EXCEEDED, "the call's time is up"))
        except Exception as error:  # noqa: BLE001 (nothing may go unanswered)
            self._end(_failure_of(error))
        else:
            self._end(None)
        finally:
            await requests.aclose()

    async def _write(self, message: bytes) -> None:
        stream = self._stream
        if not self._has_head:
            self._has_head = True
            stream.send_head(HEAD)
        stream.send([message_prefix(len(message)), message])
        while stream.waiting and not self._is_over:
            self._room.clear()
            await self._room.wait()

    def _end(self, failure: Failure | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._calls.ended(StatusCode.OK.name if failure is None else failure.code.name)
        tail = OK if failure is None else trailers(*failure)
        self._stream.finish(tail if self._has_head else (*HEAD, *tail))
