"""A generator as the server sees it: a worker process, and the answers that it is writing.

The worker is started, heard, killed when it hangs, and started again when it is lost; answers that
were in it end with an error, as what they had said cannot be unsaid. Each answer has a deadline, at
which it ends, and is cancelled in the worker when nobody reads it any more.

Knows a loop, a process and messages. Refuses to know HTTP and tenants.
"""

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final, Protocol, cast

from msgspec import DecodeError, Struct
from msgspec.structs import replace

from headway.core import ModelName
from headway.decoder.wire import (
    REPLIES,
    Begun,
    Cancel,
    Failed,
    Figures,
    Frames,
    Generate,
    Ready,
    Refused,
    Reply,
    Said,
    Start,
    Stop,
    framed,
)
from headway.errors import (
    DeadlineExceededError,
    HeadwayError,
    InvalidRequestError,
    LoadError,
    RejectedError,
    RequestCancelledError,
    UnavailableError,
    WorkerLostError,
)
from headway.executors import WorkerProcess
from headway.units import NS_PER_S, format_duration

__all__ = ["Generation", "GenerationListener", "Generator", "GeneratorParams", "StepListener"]

_log = logging.getLogger("headway.generator")
_STOP_GRACE_S: Final = 2.0
_RETRY_AFTER_NS: Final = NS_PER_S
"""Told to whom finds the line full: about as long as an answer takes to end somewhere."""


class GeneratorParams(Struct, frozen=True, kw_only=True):
    """How a generator is run."""

    name: ModelName
    start: Start
    restart_delay_ns_min: int
    restart_delay_ns_max: int
    step_ns_max: int
    """A worker with answers to write that says nothing for so long hangs."""
    load_ns_max: int


class GenerationListener(Protocol):
    """Is told what becomes of one request, whether anybody reads it or not."""

    def begun(self, begun: Begun) -> None:
        """It was let in."""

    def said(self, said: Said) -> None:
        """One more token has come."""

    def ended(self, error: HeadwayError | None) -> None:
        """Nothing more will; with the reason, where not all has been said."""


class StepListener(Protocol):
    """Is told how a generator fares."""

    def stepped(self, generator: str, step: Figures) -> None:
        """A step was run, or the state has changed without one."""

    def lost(self, generator: str) -> None:
        """Its worker has died."""


class Generation:
    """One request under way: its answers' tokens, as they come.

    Invariants: it ends once, and its listener hears of it; after that nothing is added.
    """

    def __init__(
        self,
        order: Generate,
        listener: GenerationListener,
        let_go: Callable[["Generation"], None],
    ) -> None:
        self.order = order
        self._listener = listener
        self.begun: Begun | None = None
        self.left = self.choices
        """Answers that have not ended."""
        self.timer: asyncio.TimerHandle | None = None
        self._let_go = let_go
        self._said: deque[Said] = deque()
        self._error: HeadwayError | None = None
        self._news = asyncio.Event()
        self.is_over = False

    @property
    def prompt_tokens(self) -> int:
        """Of all its prompts; 0 before it was let in."""
        return 0 if self.begun is None else self.begun.prompt_tokens

    @property
    def choices(self) -> int:
        """Answers, of all its prompts."""
        return len(self.order.prompts) * self.order.choices

    async def wait_begun(self) -> Begun:
        """Until it was let in.

        Raises:
            HeadwayError: why it was not.
        """
        while self.begun is None and self._error is None:
            self._news.clear()
            await self._news.wait()
        if self._error is not None:
            raise self._error
        assert self.begun is not None
        return self.begun

    async def said(self) -> AsyncGenerator[list[Said], None]:
        """All that has come since the last look, until all answers have ended.

        Whoever stops reading before has it cancelled.

        Raises:
            HeadwayError: why it ended before.
        """
        try:
            while True:
                if self._said:
                    batch = list(self._said)
                    self._said.clear()
                    yield batch
                elif self._error is not None:
                    raise self._error
                elif self.is_over:
                    return
                else:
                    self._news.clear()
                    await self._news.wait()
        finally:
            self.close()

    def close(self) -> None:
        """Nobody reads it any more; does nothing where it has ended."""
        if not self.is_over:
            self.fail(RequestCancelledError("nobody reads the answer any more"))
            self._let_go(self)

    def add(self, said: Said) -> None:
        """One more token."""
        self._said.append(said)
        self._listener.said(said)
        if said.finish is not None:
            self.left -= 1
            if self.left == 0:
                self._end()
        self._news.set()

    def begin(self, begun: Begun) -> None:
        """It was let in."""
        self.begun = begun
        self._listener.begun(begun)
        self._news.set()

    def fail(self, error: HeadwayError) -> None:
        """It ends here."""
        if not self.is_over:
            self._error = error
            self._end(error)
            self._news.set()

    def _end(self, error: HeadwayError | None = None) -> None:
        self.is_over = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._listener.ended(error)


class Generator:
    """One model's worker, from its start to its end.

    Args:
        params: how it is run.
        listener: is told of its steps.

    Invariants: a request is in ``_open`` until it ends; a worker that is lost takes all with it.
    """

    def __init__(self, params: GeneratorParams, listener: StepListener | None = None) -> None:
        self.params = params
        self.ready: Ready | None = None
        """What the worker said when it was; None while it is not."""
        self.starts = 0
        self._listener = listener
        self._link: _Link | None = None
        self._open: dict[int, Generation] = {}
        self._next_id = 1
        self._delay_ns = params.restart_delay_ns_min
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._first: asyncio.Future[None] | None = None
        self._launching: asyncio.Task[None] | None = None
        self._exited = asyncio.Event()
        self._exited.set()
        self._quiet = asyncio.Event()
        """No request is under way."""
        self._quiet.set()

    @property
    def name(self) -> ModelName:
        """Of the model."""
        return self.params.name

    @property
    def open_count(self) -> int:
        """Requests under way."""
        return len(self._open)

    @property
    def pid(self) -> int | None:
        """The worker's process id; None while there is none."""
        return None if self._link is None else self._link.process.pid

    async def start(self) -> None:
        """Until the model is loaded.

        Raises:
            LoadError: it cannot be.
        """
        self._first = asyncio.get_running_loop().create_future()
        await self._launch()
        await self._first

    async def stop(self, grace_ns: int) -> int:
        """Let what is under way end, and stop; returns how many requests were not finished."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._launching is not None:
            await self._launching
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_ns / NS_PER_S):
                await self._quiet.wait()
        left = len(self._open)
        self._fail_all(UnavailableError("the server is shutting down"))
        if self._link is not None:
            self._link.send(framed(Stop()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_GRACE_S):
                    await self._exited.wait()
        if self._link is not None:
            self._link.process.kill("it did not stop when asked to")
        await self._exited.wait()
        return left

    def open(
        self, order: Generate, budget_ns: int, limit: str, listener: GenerationListener
    ) -> Generation:
        """Ask for answers; whoever does must read them or `close`.

        Args:
            order: what is asked; its number is given here.
            budget_ns: until the last token, from now on.
            limit: the setting that the budget came from.
            listener: is told what becomes of it.

        Raises:
            InvalidRequestError: it is too long to be told to a worker.
            UnavailableError: the model is not loaded now.
        """
        if self._link is None or self.ready is None or self._is_stopping:
            raise UnavailableError(
                f"model `{self.name}` is not ready", hint="try again in a moment"
            )
        order = replace(order, request_id=self._next_id)
        message = framed(order)
        self._next_id += 1
        generation = Generation(order, listener, self._let_go)
        self._open[order.request_id] = generation
        self._quiet.clear()
        loop = asyncio.get_running_loop()
        generation.timer = loop.call_later(
            max(0, budget_ns) / NS_PER_S, self._expire, generation, limit
        )
        self._link.send(message)
        return generation

    # -- what the worker says ----------------------------------------------------------------------

    def hear(self, reply: Reply) -> None:
        """A message of the worker."""
        if isinstance(reply, Ready):
            self.ready = reply
            self._delay_ns = self.params.restart_delay_ns_min
            _log.info("model `%s` is ready to generate", self.name)
            if self._first is not None and not self._first.done():
                self._first.set_result(None)
        elif isinstance(reply, Failed):
            self._load_failed(reply.message)
        elif isinstance(reply, Begun):
            generation = self._open.get(reply.request_id)
            if generation is not None:
                generation.begin(reply)
        elif isinstance(reply, Refused):
            generation = self._removed(reply.request_id)
            if generation is not None:
                generation.fail(self._refusal(reply))
        else:
            self._tell(reply.said)
            if self._listener is not None:
                self._listener.stepped(self.name, reply.figures)

    def ended(self, message: str) -> None:
        """The process is gone."""
        self._link, self.ready = None, None
        self._exited.set()
        self._fail_all(WorkerLostError(message))
        if self._is_stopping:
            return
        if self._listener is not None:
            self._listener.lost(self.name)
        if self._first is not None and not self._first.done():
            self._load_failed(message)
            return
        delay_ns, self._delay_ns = (
            self._delay_ns,
            min(2 * self._delay_ns, self.params.restart_delay_ns_max),
        )
        _log.error("%s; started again in %s", message, format_duration(delay_ns))
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay_ns / NS_PER_S, self._relaunch)

    def _tell(self, said: list[Said]) -> None:
        for each in said:
            generation = self._open.get(each.request_id)
            if generation is None:
                continue
            generation.add(each)
            if generation.is_over:
                self._removed(each.request_id)

    def _removed(self, request_id: int) -> Generation | None:
        """One request fewer."""
        generation = self._open.pop(request_id, None)
        if not self._open:
            self._quiet.set()
        return generation

    def _refusal(self, reply: Refused) -> HeadwayError:
        if reply.is_full:
            return RejectedError(
                f"`{self.name}`: {reply.message}",
                reason="generator_full",
                retry_after_ns=_RETRY_AFTER_NS,
                hint=f"try again in {format_duration(_RETRY_AFTER_NS)}",
            )
        return InvalidRequestError(reply.message, hint=reply.hint)

    def _expire(self, generation: Generation, limit: str) -> None:
        generation.timer = None
        stage = "running" if generation.begun is not None else "queued"
        generation.fail(
            DeadlineExceededError(
                f"the answer was not complete within its budget, set by `{limit}`",
                limit=limit,
                stage=stage,
            )
        )
        self._let_go(generation)

    def _let_go(self, generation: Generation) -> None:
        request_id = generation.order.request_id
        if self._removed(request_id) is not None and self._link is not None:
            self._link.send(framed(Cancel(request_id=request_id)))

    def _fail_all(self, error: HeadwayError) -> None:
        found, self._open = self._open, {}
        self._quiet.set()
        for generation in found.values():
            generation.fail(error)

    # -- the process -------------------------------------------------------------------------------

    def _relaunch(self) -> None:
        self._timer = None
        self._launching = asyncio.get_running_loop().create_task(self._launch())

    async def _launch(self) -> None:
        self._exited.clear()
        self.starts += 1
        try:
            self._link = await _Link.open(self)
        except OSError as error:
            self.ended(f"the worker of generator `{self.name}` cannot be started: {error}")
            return
        self._link.send(framed(self.params.start))

    def _load_failed(self, message: str) -> None:
        error = LoadError(f"model `{self.name}` cannot be loaded: {message}")
        if self._first is not None and not self._first.done():
            self._is_stopping = True
            self._first.set_exception(error)
        else:
            _log.error("%s", error)
        if self._link is not None:
            self._link.process.kill("its model could not be loaded")


class _Link(asyncio.Protocol):
    """The socket to a worker, its process, and the watch over both."""

    def __init__(self, owner: Generator) -> None:
        self._owner = owner
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._heard_at_s = self._loop.time()
        self._watch: asyncio.TimerHandle | None = None
        self.process: WorkerProcess

    @classmethod
    async def open(cls, owner: Generator) -> "_Link":
        """Start a worker."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        link = cls(owner)
        with theirs:
            label = f"generator {owner.name}"
            try:
                link.process = WorkerProcess(
                    label, theirs.fileno(), (), loop, link._ended, "headway.decoder.worker"
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        await loop.create_unix_connection(lambda: link, sock=ours)
        link._look()
        return link

    def send(self, message: bytes) -> None:
        """Tell the worker; one that is gone is about to be noticed."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(message)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._heard_at_s = self._loop.time()
        try:
            for reply in self._frames.feed(data, REPLIES):
                self._owner.hear(reply)
        except (DecodeError, ValueError) as error:
            self.process.kill(f"it sent a message that cannot be read: {error}")

    def _look(self) -> None:
        """End a worker that hangs: while it loads, or with answers to write."""
        params = self._owner.params
        limit_ns = params.load_ns_max if self._owner.ready is None else params.step_ns_max
        if self._owner.ready is not None and not self._owner.open_count:
            self._heard_at_s = self._loop.time()
        if self._loop.time() - self._heard_at_s > limit_ns / NS_PER_S:
            self.process.kill(f"it said nothing for {format_duration(limit_ns)}")
            return
        self._watch = self._loop.call_later(limit_ns / NS_PER_S / 4, self._look)

    def _ended(self, message: str) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._owner.ended(message)
