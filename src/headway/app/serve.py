"""The life of a server as a process: built, started, told to stop, ended in order.

Knows signals and the loop. Refuses to know what a server is made of.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Callable

from headway.app.server import ReadAgain, Server
from headway.config import Config, LoadedConfig, warnings_of
from headway.errors import HeadwayError
from headway.observe import configure_logging
from headway.units import format_duration

__all__ = ["serve"]

_log = logging.getLogger("headway")


def serve(
    loaded: LoadedConfig,
    *,
    read_again: Callable[[], LoadedConfig] | None = None,
    ready: Callable[[Server], None] | None = None,
) -> int:
    """Run a server until SIGTERM or SIGINT.

    Args:
        loaded: what to serve.
        read_again: reads it anew, the same way; asked when its file changes.
        ready: called once every model is warm.

    Returns:
        0 after an orderly end, 1 when the scheduler stopped on a bug.

    Raises:
        HeadwayError: it could not start.
    """
    if not __debug__:
        raise HeadwayError("asserts are switched off", hint="start Python without -O")
    config = loaded.config
    configure_logging(config.log.format, config.log.level)
    for warning in warnings_of(config):
        _log.warning("%s", warning)
    import uvloop  # here, for no other command needs a fast loop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(config, _file_of(loaded, read_again), ready))


def _file_of(
    loaded: LoadedConfig, read_again: Callable[[], LoadedConfig] | None
) -> ReadAgain | None:
    if loaded.path is None or read_again is None:
        return None
    read = read_again
    return ReadAgain(loaded.path, lambda: read().config)


async def _serve(
    config: Config, read_again: ReadAgain | None, ready: Callable[[Server], None] | None
) -> int:
    server = Server.build(config, read_again=read_again)
    stop = _Stop()
    server.engine.crash.add_done_callback(lambda _: stop.asked.set())
    try:
        if await _start(server, stop):
            # What is alive now stays: the collector need not walk it again and again, which with
            # many requests waiting stops the loop for longer than an urgent one has.
            gc.collect()
            gc.freeze()
            if server.doors.admin_url is not None:
                _log.info("management on %s", server.doors.admin_url)
            _log.info("page on %s", server.doors.page_url)
            _log.info("ready on %s", " and ".join(server.urls))
            if ready is not None:
                ready(server)
            await stop.asked.wait()
    except BaseException:
        await server.stop(0)
        raise
    return await _stop(server)


class _Stop:
    """The first SIGTERM or SIGINT asks for an orderly end, the second ends the process at once.

    Invariants: while ``starting`` is set, asking cancels it: a start need not be waited for.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.starting = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: int) -> None:
        if self.asked.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.asked.set()
        if self.starting is not None:
            self.starting.cancel()


async def _start(server: Server, stop: _Stop) -> bool:
    """Start; False when told to stop meanwhile."""
    try:
        await server.start()
    except asyncio.CancelledError:
        if not stop.asked.is_set() or stop.starting is None or stop.starting.uncancel():
            raise  # someone else's
    except OSError as error:
        raise HeadwayError(
            f"cannot listen on `{server.config.server.host}:{server.config.server.port}`: {error}",
            hint="choose another with --port, or stop what listens there",
        ) from error
    stop.starting = None
    return not stop.asked.is_set()


async def _stop(server: Server) -> int:
    """End in order; the exit code."""
    crash = server.engine.crash
    grace_ns = 0 if crash.done() else server.config.server.grace
    if not crash.done():
        _log.info("stopping: admitted requests have %s", format_duration(grace_ns))
    left = await server.stop(grace_ns)
    if left:
        _log.warning("%d requests were not finished in the grace time", left)
    if not crash.done():
        return 0
    _log.critical("the scheduler has a bug", exc_info=crash.exception())
    return 1
