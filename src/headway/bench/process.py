"""A process of its own that carries out one order: the order on its stdin, news on its stdout.

Knows how to start it and how to stop it. Never what is ordered.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from headway.errors import HeadwayError

__all__ = ["have_carried_out"]

_STOP_TIMEOUT_S: Final = 5.0

News = TypeVar("News")


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
