"""Where a verb's Records come from: a journal, or the last steps of a live server.

Knows files and the server's `/admin/records`, which answers with a journal. Refuses to know what is
read out of them.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from headway.cli.arguments import VerbParser, duration_ns, key_in
from headway.errors import ConfigError, HeadwayError
from headway.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Generator

    from headway.core import DeviceParams, Record
    from headway.observe import JournalHeader

__all__ = ["Recorded", "add_source", "recorded"]

_LAST_NS: Final = 60 * NS_PER_S


class Recorded(NamedTuple):
    """A run, or the part of one that there is."""

    name: str
    path: Path
    header: "JournalHeader"

    @property
    def devices(self) -> "tuple[DeviceParams, ...]":
        """Those of the run."""
        return self.header.params.devices

    def read(self) -> "Generator[Record, None, None]":
        """The Records, from the start."""
        from headway.observe import read_journal

        return read_journal(self.path)[1]


def add_source(parser: VerbParser) -> None:
    """`--journal FILE`, or `--url URL` with what it takes to ask a server."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--journal", metavar="FILE", help="journal of a live or simulated run")
    source.add_argument(
        "--url", metavar="URL", help="server whose last steps are asked for, at its admin port"
    )
    parser.add_argument(
        "--last",
        type=duration_ns,
        default=_LAST_NS,
        metavar="TIME",
        help="how far back a server is asked, as far as it remembers (60s)",
    )
    parser.add_argument(
        "--key-file", metavar="FILE", help="file with the server's admin key, where it has one"
    )


@contextmanager
def recorded(args: argparse.Namespace) -> Iterator[Recorded]:
    """The run that the flags of `add_source` name; a server's steps are kept only so long.

    Raises:
        ConfigError: what there is is no journal.
        HeadwayError: the server cannot be asked.
    """
    # Here, for else `--help` would pay for what reads a journal.
    from headway.observe import read_journal

    if args.journal is not None:
        path = Path(args.journal)
        yield Recorded(path.name, path, read_journal(path)[0])
        return
    with TemporaryDirectory(prefix="headway-") as folder:
        path = Path(folder) / "recent.journal"
        _download(args.url, -(-args.last // NS_PER_S), args.key_file, path)
        try:
            header = read_journal(path)[0]
        except ConfigError as error:
            raise HeadwayError(
                f"`{args.url}` did not answer with records",
                hint="is it a headway server of this version?",
            ) from error
        yield Recorded(args.url, path, header)


def _download(url: str, last_s: int, key_file: str | None, path: Path) -> None:
    from headway.doctor import ServerDoor

    key = key_in(key_file) if key_file is not None else ""
    ServerDoor(url, key).download(f"/admin/records?seconds={last_s}", path)
