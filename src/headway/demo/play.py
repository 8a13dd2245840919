"""Starts the load generator's process, passes its news on, and ends it.

Knows processes and messages. Never how a request looks.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import IO, Final

import msgspec

from headway.demo.orders import NEWS, Finished, Order, Playing, Started
from headway.errors import HeadwayError

__all__ = ["OnNews", "carry_out"]

OnNews = Callable[[Started | Playing], None]

_PLAYER: Final = "headway.demo.player"
_STOP_TIMEOUT_S: Final = 5.0
_WORDS_CHARS_MAX: Final = 600


def carry_out(order: Order, on_news: OnNews | None = None) -> Finished:
    """Have an order carried out and wait for it.

    Raises:
        HeadwayError: the process failed.
    """
    with tempfile.TemporaryFile() as words:
        player = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", _PLAYER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            process_group=0,  # a Ctrl-C is for the demo, which then ends this process
        )
        assert player.stdin is not None
        assert player.stdout is not None
        try:
            with player.stdin as orders:
                orders.write(msgspec.json.encode(order))
            finished = _follow(player.stdout, on_news)
            exit_code = player.wait(_STOP_TIMEOUT_S)
        finally:
            player.kill()
            player.wait()
            player.stdout.close()
        if exit_code != 0 or finished is None:
            words.seek(0)
            said = words.read().decode(errors="replace").strip()[-_WORDS_CHARS_MAX:]
            raise HeadwayError(f"the load generator failed: {said or 'no word'}")
        return finished


def _follow(lines: IO[bytes], on_news: OnNews | None) -> Finished | None:
    """Read until the end of the process; its last word, if it came to it."""
    finished = None
    for line in lines:
        news = NEWS.decode(line)
        if isinstance(news, Finished):
            finished = news
        elif on_news is not None:
            on_news(news)
    return finished
