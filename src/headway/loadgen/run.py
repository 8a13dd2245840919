"""A whole run from outside an event loop: connect, prepare, play.

Knows how to make a loop that keeps time. Command lines call this; tests and notebooks that have a
loop of their own call `play`.
"""

import asyncio
import select
import selectors
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from headway.core import ModelName, TierName
from headway.loadgen.bodies import InputMaker, prepare_bodies, random_inputs
from headway.loadgen.player import LoadLimits, LoadRun, OnProgress, play
from headway.loadgen.rest import RestClient
from headway.workload import Workload

__all__ = ["precise_loop", "run_load"]

_FILES_SPARE: Final = 64
"""Open files beside the connections."""


def run_load(
    workload: Workload,
    url: str,
    *,
    makers: Mapping[ModelName, InputMaker] | None = None,
    limits: LoadLimits | None = None,
    tier_budgets_ns: dict[TierName, int] | None = None,
    on_progress: OnProgress | None = None,
    on_start: Callable[[], None] | None = None,
) -> LoadRun:
    """Play a workload at a server and return one sample a request.

    Args:
        workload: what to ask for and when; its seed also makes the inputs.
        url: of the server, such as `http://127.0.0.1:8000`.
        makers: real inputs by model; the others get noise in the shapes that the server declares.
        limits: None takes the defaults.
        tier_budgets_ns: judges requests that have no budget of their own.
        on_progress: see `play`.
        on_start: called once when the requests are prepared, just before the first is due.

    Raises:
        ConfigError: the server does not answer, or does not serve one of the models.
    """
    limits = limits or LoadLimits()
    _allow_files(limits.requests_in_flight_max + _FILES_SPARE)

    async def run() -> LoadRun:
        async with RestClient(url) as client:
            known = dict(makers or {})
            wanted = dict.fromkeys(stream.model for stream in workload.streams)
            unknown = [model for model in wanted if model not in known]
            for model, metadata in (await client.metadata(unknown)).items():
                known[model] = random_inputs(metadata)
            chance = Random(f"{workload.seed}/bodies")
            bodies = prepare_bodies(workload, known, chance=chance)
            if on_start is not None:
                on_start()
            return await play(
                workload,
                bodies,
                client.send,
                limits=limits,
                tier_budgets_ns=tier_budgets_ns,
                on_progress=on_progress,
            )

    with asyncio.Runner(loop_factory=precise_loop) as runner:
        return runner.run(run())


def _allow_files(count: int) -> None:
    """Raise this process's soft limit of open files, as far as the hard one lets it."""
    try:
        import resource
    except ImportError:  # not a POSIX system: there is no such limit to raise
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def precise_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose timers are right to tens of microseconds.

    epoll counts in milliseconds, and asyncio and uvloop round up to its next one: a request would
    leave half a millisecond late on average, which is much of a budget of ten.
    """
    if not hasattr(selectors, "EpollSelector"):
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(_PreciseSelector())


if hasattr(selectors, "EpollSelector"):

    class _PreciseSelector(selectors.EpollSelector):
        """Waits with select(2), which counts in microseconds, for the epoll descriptor itself."""

        def select(self, timeout_s: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout_s is not None and timeout_s > 0:
                select.select([self.fileno()], [], [], timeout_s)
                timeout_s = 0
            return super().select(timeout_s)
