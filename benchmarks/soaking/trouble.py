"""All that goes wrong around a server: each kind a task, each counted.

- Worker processes are killed, and models reloaded, one deed at a time, so that a reload that fails
  is the server's fault and not the kill's.
- The wall clock steps: an hour ahead, years back, and home again.
- Slow senders trickle a head or a body, a byte at a time; mute ones open gRPC's port and say
  nothing that it knows; others ask for much and do not read it. Each is to be cut off.

The first and the last part of a run see everything but kills, so that they can be compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Final

import harness

from soaking.asks import FICKLE, Ask, http_request
from soaking.subject import Subject

__all__ = ["Trouble"]

SLOW_SENDERS, SILENT_READERS, MUTE = 6, 1, 2
TRICKLE_S: Final = 0.5
CUT_WITHIN_S: Final = 25.0
"""Two looks at a slow connection, ten seconds apart, and some."""
STEPS_S: Final = (3600, -7200, 86_400 * 400, -86_400 * 4000, 1, 0)
RELOADS: Final = ((0.05, "tripled"), (0.25, "turned"), (0.45, "identity"))
"""When in a part each model is reloaded."""
BIG_ASKS: Final = 600


class Trouble:
    """Makes trouble until told to stop.

    Args:
        subject: whom.
        part_s: the length of a part: how often each kind of deed is done.
        parts: how many there are.
        seed: of all chance.
    """

    def __init__(self, subject: Subject, part_s: float, parts: int, seed: int) -> None:
        self._subject = subject
        self._part_s, self._parts = part_s, parts
        self._chance = Random(f"{seed}/trouble")
        self.done: Counter[str] = Counter()
        """Deeds by kind, and what should not have come of them."""
        self.slowest_cut_s = 0.0

    async def make(self, until_s: float) -> None:
        """All kinds at once, until an instant of the monotonic clock."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(until_s - time.monotonic()), asyncio.TaskGroup() as group:
                group.create_task(self._operate(time.monotonic()))
                for number in range(SLOW_SENDERS):
                    how = self._trickle_head if number % 2 else self._trickle_body
                    group.create_task(self._again("cut_slow", how))
                for _ in range(SILENT_READERS):
                    group.create_task(
                        self._again("cut_silent", self._read_nothing, self._part_s / 6)
                    )
                for _ in range(MUTE):
                    group.create_task(self._be_mute())

    async def _operate(self, began_s: float) -> None:
        """In every part the same deeds at the same times, for parts to be compared."""
        deeds: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            *((at, partial(self._reload, model)) for at, model in RELOADS),
            (0.65, self._step),
            (0.8, self._kill),
        ]
        for part in range(self._parts):
            for at, deed in deeds:
                due_s = began_s + (part + at) * self._part_s
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                now = int((time.monotonic() - began_s) / self._part_s)
                if deed != self._kill or 0 < now < self._parts - 1:
                    await deed()

    async def _step(self) -> None:
        self._subject.clock.step_to(STEPS_S[self.done["steps"] % len(STEPS_S)])
        self.done["steps"] += 1

    async def _kill(self) -> None:
        workers = self._subject.workers()
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._chance.choice(workers), signal.SIGKILL)
            self.done["kills"] += 1
        give_up_at_s = time.monotonic() + 15
        while time.monotonic() < give_up_at_s:
            await asyncio.sleep(0.1)
            with contextlib.suppress(OSError):
                if (await asyncio.to_thread(self._ready)) == 200:
                    return
        self.done["not_ready_after_kill"] += 1

    def _ready(self) -> int:
        return harness.Http(self._subject.port).get("/v2/health/ready")[0]

    async def _reload(self, model: str) -> None:
        status, body = await asyncio.to_thread(
            harness.Http(self._subject.port, timeout_s=60).post,
            f"/v2/repository/models/{model}/load",
            b"{}",
        )
        self.done["reloads"] += 1
        if status != 200:
            self.done["reloads_failed"] += 1
            self.done[f"reload {status}: {json.loads(body).get('error', '')[:200]}"] += 1

    async def _again(
        self, name: str, how: Callable[[], Awaitable[None]], pause_s: float = 0.0
    ) -> None:
        """Over and over, each time until the server has had enough."""
        while True:
            began_s = time.monotonic()
            try:
                async with asyncio.timeout(CUT_WITHIN_S + 10):
                    await how()
            except TimeoutError:
                self.done[f"{name}_never"] += 1
            except OSError:
                pass  # cut off while it wrote, which is one way to be
            took_s = time.monotonic() - began_s
            self.done[name] += 1
            self.slowest_cut_s = max(self.slowest_cut_s, took_s)
            await asyncio.sleep(pause_s)

    async def _trickle_head(self) -> None:
        await self._trickle(
            b"POST /v2/models/tripled/infer HTTP/1.1\r\nhost: x\r\nx-slow: " + b"y" * 300
        )

    async def _trickle_body(self) -> None:
        head = b"POST /v2/models/tripled/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\n"
        await self._trickle(b" " * 300, head)

    async def _trickle(self, text: bytes, first: bytes = b"") -> None:
        """A byte at a time, until the connection is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._subject.port)
        try:
            writer.write(first)
            for byte in text:
                writer.write(bytes([byte]))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TRICKLE_S):
                        if not await reader.read(4096):
                            return
        finally:
            writer.transport.abort()

    async def _read_nothing(self) -> None:
        """Ask for much, read none of it, and see when the connection is cut."""
        body = http_request(
            Ask(self._chance.randrange(1 << 20), "identity", FICKLE, 4, 2048, "binary")
        )
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", self._subject.port))
            sending = asyncio.ensure_future(loop.sock_sendall(client, body * BIG_ASKS))
            try:
                while client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    if sending.done() and sending.exception() is not None:
                        return
                    await asyncio.sleep(0.25)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _be_mute(self) -> None:
        """On gRPC's port, a connection that says next to nothing."""
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self._subject.grpc_port)
                writer.write(b"PRI * HT")
                await asyncio.sleep(self._part_s / 3)
                writer.transport.abort()
                self.done["mute"] += 1
