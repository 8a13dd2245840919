"""The journal: a header and every kernel step, one JSON line each; and its replay.

Replay feeds the events back into a fresh kernel and demands the same commands, which is how a
failure seen live becomes a test.
"""

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from headway.core import Command, Event, Kernel, KernelParams, Record
from headway.errors import ConfigError
from headway.observe.background import BackgroundWriter
from headway.predict import Recipe

__all__ = ["Divergence", "JournalHeader", "JournalObserver", "read_journal", "replay"]

_FORMAT: Final = "headway-journal"
_VERSION: Final = 1


class JournalHeader(Struct, frozen=True, kw_only=True):
    """What a replay must know; the only place where wall clock time stands."""

    format: str = _FORMAT
    version: int = _VERSION
    headway: str
    started_at: str
    """ISO 8601, UTC: when the engine's clock showed 0."""
    params: KernelParams
    policy: dict[str, object]
    """The policy's section of the configuration, its name under `kind`."""
    predictor: Recipe = Recipe()
    """What the predictor was made from, and what it had learnt before."""


class JournalObserver:
    """Writes a header, then every step it is shown."""

    def __init__(self, path: Path, header: JournalHeader, *, bytes_max: int = 1 << 30) -> None:
        self._writer: BackgroundWriter[Struct] = BackgroundWriter(
            path, msgspec.json.Encoder().encode, bytes_max=bytes_max
        )
        self._writer.put(header)
        self._seq = 0

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Keep one step."""
        self._writer.put(Record(seq=self._seq, now_ns=now_ns, event=event, commands=commands))
        self._seq += 1

    def close(self) -> None:
        """Write what waits."""
        self._writer.close()


class Divergence(Struct, frozen=True, kw_only=True):
    """The first step at which a replay said something else, or raised."""

    record: Record
    replayed: list[Command]
    error: str | None = None
    """What the kernel raised. The last step of a server that stopped on a bug ends like this."""


def read_journal(path: Path) -> tuple[JournalHeader, Generator[Record, None, None]]:
    """The header, and the steps as they are read; close them when stopping early.

    Raises:
        ConfigError: the file cannot be read, is not a journal of this version, or a line of it is
            broken. The steps raise it as they are read; a last line cut short by a crash is left
            out.
    """
    try:
        with path.open("rb") as file:
            first = file.readline()
        header = msgspec.json.decode(first, type=JournalHeader)
    except OSError as error:
        raise ConfigError(
            f"cannot read `{path}`: {error.strerror}",
            value=str(path),
            hint="give the file that `journal.path` or `headway sim --journal` wrote",
        ) from error
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"`{path}` is not a journal: {error}",
            value=str(path),
            hint="give the file that `journal.path` or `headway sim --journal` wrote",
        ) from error
    if header.format != _FORMAT or header.version != _VERSION:
        raise ConfigError(
            f"`{path}` is version `{header.version}` of `{header.format}`",
            value=header.version,
            hint=f"this headway reads version {_VERSION} of {_FORMAT}",
        )
    return header, _records(path)


def _records(path: Path) -> Generator[Record, None, None]:
    decoder = msgspec.json.Decoder(Record)
    with path.open("rb") as lines:
        next(lines)  # the header
        for number, line in enumerate(lines, start=2):
            try:
                yield decoder.decode(line)
            except msgspec.MsgspecError as error:
                if not line.endswith(b"\n"):
                    return
                raise ConfigError(
                    f"line {number} of `{path}` is broken: {error}", value=number
                ) from error


def replay(kernel: Kernel, records: Iterable[Record]) -> tuple[int, Divergence | None]:
    """Feed a fresh kernel the recorded events.

    Returns:
        How many steps agreed, and the first that did not, if any.
    """
    count = 0
    for record in records:
        try:
            commands = kernel.handle(record.event, record.now_ns)
        except Exception as error:  # noqa: BLE001 - any bug of the kernel is what we look for
            return count, Divergence(record=record, replayed=[], error=repr(error))
        if commands != record.commands:
            return count, Divergence(record=record, replayed=commands)
        count += 1
    return count, None
