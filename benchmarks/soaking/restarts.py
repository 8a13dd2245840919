"""A server that ends and comes back under clients that retry: who is told what, and who gets what.

Each client wants one answer after another and tries until it has it. The first server's models are
slow, so that requests wait when it is told to end, some of them longer than its grace.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import harness

from soaking.stamped import StampedServer, answer_of, configuration, request
from soaking.wire import HttpPool

__all__ = ["restarted"]

CLIENTS = 24
SERVICE_MS = 50.0
GRACE = "500ms"
RETRY_S, TRIES_MAX = 0.05, 1000
LOADED_S = 1.5
"""How long clients ask before and after each end."""
TOLD = "told at the end"
"""What became of a request that had been taken, and waited past the grace: it was answered 503."""


class _Clients:
    """Those that retry."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._wants = True
        self.wanted = self.got = self.wrong = 0
        self.tries: Counter[str] = Counter()
        """How tries ended that were not answered 200."""

    def stop(self) -> None:
        """Want no more; what is wanted is still got."""
        self._wants = False

    async def want(self, client: int) -> None:
        """One after another, each until it is had."""
        number = client << 12
        pool = HttpPool(self._port)
        while self._wants:
            number += 1
            self.wanted += 1
            await self._have(pool, number)
        self.wrong += pool.extra
        await pool.close()

    async def _have(self, pool: HttpPool, number: int) -> None:
        """Try until it is had, or it is plain that it will not be."""
        for _ in range(TRIES_MAX):
            if await self._try(pool, number):
                return
            await asyncio.sleep(RETRY_S)

    async def _try(self, pool: HttpPool, number: int) -> bool:
        try:
            async with asyncio.timeout(20):
                response = await pool.ask(request(number))
        except TimeoutError:
            self.tries["no answer"] += 1
            return False
        except OSError as error:
            how = "refused" if isinstance(error, ConnectionRefusedError) else "cut off"
            self.tries[how] += 1
            return False
        if response.status != 200:
            error = json.loads(response.body)
            how = TOLD if "has shut down" in error["error"] else error["code"]
            self.tries[how] += 1
            return False
        self.got += 1
        self.wrong += not answer_of(response.body).is_right(number)
        return True


async def restarted(home: Path, number: signal.Signals, times: int) -> harness.Row:
    """End a server so many times by a signal, and start it again, under load all the while.

    Raises:
        LoadFailedError: it did not start.
    """
    port = harness.free_port()
    path = home / f"restart-{number.name}.yaml"
    path.write_text(configuration(port, "stamped", service_ms=SERVICE_MS, grace=GRACE))
    server = StampedServer(path, port)
    clients = _Clients(port)
    codes: list[Any] = []
    try:
        await asyncio.to_thread(server.wait_ready)
        async with asyncio.TaskGroup() as group:
            for client in range(CLIENTS):
                group.create_task(clients.want(client))
            for _ in range(times):
                await asyncio.sleep(LOADED_S)
                server.tell(number)
                codes.append(await asyncio.to_thread(server.wait_ended))
                server.kill()
                server = StampedServer(path, port)
                await asyncio.to_thread(server.wait_ready)
            await asyncio.sleep(LOADED_S)
            clients.stop()
    finally:
        server.kill()
    tries = clients.tries
    is_orderly = number is signal.SIGTERM
    print(f"{number.name}: exit codes {codes}, tries {dict(tries)}", file=sys.stderr, flush=True)
    return {
        "part": number.name,
        "requests": clients.wanted,
        "failed": clients.wanted - clients.got,
        "wrong": clients.wrong,
        "restarts": times,
        "retries": tries.total(),
        "told_at_the_end": tries[TOLD],
        "cut_off": tries["cut off"],
        "no_answer": tries["no answer"],
        # An orderly end drops nobody: what waits beyond the grace is answered.
        "holds": clients.wanted == clients.got
        and not clients.wrong
        and not tries["no answer"]
        and (
            not is_orderly or (set(codes) == {0} and not tries["cut off"] and tries[TOLD] >= times)
        ),
    }
