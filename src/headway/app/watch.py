"""Files that are read again when they change: certificates, and the tenants of a configuration.

They are looked at every so often, by time and size of what their names lead to: the tools that
renew certificates, and Kubernetes, replace files and links, of which notifications tell too little.
Reading is done in a thread, for a server answers others meanwhile; what was read is used on the
loop, where nothing else can look at what is half changed.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headway.errors import HeadwayError

__all__ = ["FileWatch", "Watched"]

_EVERY_S: Final = 1.0

_log = logging.getLogger("headway")

Look = tuple[tuple[int, int, int] | None, ...]


class Watched(NamedTuple):
    """Some files, and what to do when one of them has changed."""

    paths: Sequence[Path]
    read: Callable[[], Callable[[], None]]
    """Reads them, in a thread, and gives what is then done on the loop. Both may raise: it is
    logged, and what was read before stays."""


class FileWatch:
    """Looks at files from `start` to `stop`.

    Invariants: a change is acted upon once; one that could not be read is tried again only when
    the files change again; whatever one of them raises, all are looked at again.
    """

    def __init__(self, watched: Sequence[Watched]) -> None:
        self._watched = list(watched)
        self._seen = [_look(each.paths) for each in self._watched]
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on. Needs a running loop."""
        if self._watched:
            self._looking = asyncio.get_running_loop().create_task(self._look_on())

    async def stop(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
            self._looking = None

    async def look(self) -> None:
        """Act on what has changed since the last look."""
        for index, each in enumerate(self._watched):
            now = _look(each.paths)
            if now == self._seen[index]:
                continue
            self._seen[index] = now
            try:
                use = await asyncio.to_thread(each.read)
                use()
            except HeadwayError as error:
                _log.error("what changed in %s is not used: %s", each.paths[0], error)
            except Exception as error:  # noqa: BLE001 (a bug in one reading must not end the rest)
                _log.error("what changed in %s is not used", each.paths[0], exc_info=error)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.look()


def _look(paths: Sequence[Path]) -> Look:
    return tuple(_state_of(path) for path in paths)


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
