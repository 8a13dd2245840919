"""A process of its own that carries out one order: the order on its stdin, news on its stdout.

Knows how to start it, how to stop it, and what it does with its ends. Never what is ordered.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from headway.bench.quiet import precede_others
from headway.errors import HeadwayError
from headway.loadgen import precise_loop

__all__ = ["Tell", "carry_out_ordered", "have_carried_out"]

_STOP_TIMEOUT_S: Final = 5.0

News = TypeVar("News")
Order = TypeVar("Order")
Tell = Callable[[Struct], None]
"""Writes a line of news."""


def have_carried_out(
    module: str,
    order: Struct,
    news: msgspec.json.Decoder[News],
    on_news: Callable[[News], None],
    *,
    what: str,
) -> None:
    """Run a module as a process until it ends; it is ended if this one is interrupted.

    Args:
        module: is run as a script.
        order: what it is given, as JSON.
        news: of one line that it writes.
        on_news: is told each.
        what: it does, for the error.

    Raises:
        HeadwayError: it failed.
    """
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None, "it was asked for"
    assert process.stdout is not None, "it was asked for"
    try:
        with process.stdin, suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(order))
        for line in process.stdout:
            on_news(news.decode(line))
        code = process.wait()
    finally:
        _end(process)
    if code:
        raise HeadwayError(f"{what} ended with code {code}", hint="its last words are above")


def carry_out_ordered(
    orders: msgspec.json.Decoder[Order],
    carry_out: Callable[[Order, Tell], Coroutine[object, object, None]],
) -> int:
    """What such a process does: the order that is on its stdin, before all other programs.

    Returns:
        The exit code: 1 when it failed, with the reason on stderr.
    """
    precede_others()
    order = orders.decode(sys.stdin.buffer.read())
    try:
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            runner.run(carry_out(order, _tell))
    except HeadwayError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _tell(news: Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(news) + b"\n")
    sys.stdout.buffer.flush()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """See to it that nothing of its session is left."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
