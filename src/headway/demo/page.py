"""A page that is served while the demo waits for others: an app in a thread with a loop of its own.

Knows threads and a frontend's listener. Never what is on the page.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

from headway.errors import HeadwayError
from headway.frontends import HttpServer, PageApp

__all__ = ["showing"]

_GRACE_S: Final = 0.2


@contextmanager
def showing(app: PageApp, port: int) -> Iterator[None]:
    """Serve an app meanwhile, to this machine alone.

    Raises:
        HeadwayError: the port is taken.
    """
    loop = asyncio.new_event_loop()
    server = HttpServer(app, port=port)
    thread = Thread(target=loop.run_forever, name="page", daemon=True)
    thread.start()
    try:
        try:
            asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        except OSError as error:
            raise HeadwayError(f"the page cannot be shown at port {port}: {error}") from error
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(_GRACE_S), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
