"""`headway timeline`: a journal as a timeline that Perfetto opens."""

import argparse
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError, VerbParser, duration_ns
from headway.cli.output import say
from headway.errors import HeadwayError
from headway.units import format_duration

if TYPE_CHECKING:
    from headway.core import Record

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway timeline run.journal --from 2s --to 5s"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("journal", metavar="JOURNAL", help="journal of a live or simulated run")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="where it is written, compressed if it ends in .gz (beside the journal, as "
        ".timeline.json)",
    )
    parser.add_argument(
        "--from",
        dest="start",
        type=duration_ns,
        metavar="TIME",
        help="draw from then on, counted from the start of the run",
    )
    parser.add_argument(
        "--to", dest="stop", type=duration_ns, metavar="TIME", help="draw until then"
    )


def run(args: argparse.Namespace) -> int:
    """Read, draw, and say where it can be looked at."""
    # Here, for else `--help` would pay for what reads a journal.
    from headway.observe import read_journal
    from headway.report import Window, write_timeline

    window = Window(args.start or 0, args.stop)
    if args.stop is not None and args.stop <= window.from_ns:
        raise UsageError("`--to` is not after `--from`", hint="both count from the run's start")
    journal = Path(args.journal)
    path = Path(args.out) if args.out else journal.with_suffix(".timeline.json")
    if _is_same(path, journal):
        raise UsageError(f"`{path}` is the journal itself", hint="give another name to `--out`")
    header, records = read_journal(journal)
    notes = {
        "journal": journal.name,
        "policy": header.policy.get("kind"),
        "started_at": header.started_at,
        "headway": header.headway,
    }
    try:
        with closing(records):
            seen = _Seen(records)
            count = write_timeline(seen, path, header.params.devices, window=window, notes=notes)
    except OSError as error:
        raise HeadwayError(f"cannot write `{path}`: {error.strerror}") from error
    say(f"timeline: {path} ({count:,} events); open it in https://ui.perfetto.dev")
    if seen.first_ns is not None and not window.overlaps(seen.first_ns, seen.last_ns):
        begins, ends = format_duration(seen.first_ns), format_duration(seen.last_ns)
        where = f"ends at {ends}" if seen.last_ns < window.from_ns else f"begins at {begins}"
        say(f"nothing is drawn then: `{journal.name}` {where} after the start of its run")
    return 0


class _Seen:
    """Records as they are read, and the instants between which they were."""

    def __init__(self, records: "Iterable[Record]") -> None:
        self._records = records
        self.first_ns: int | None = None
        self.last_ns = 0

    def __iter__(self) -> "Iterator[Record]":
        for record in self._records:
            if self.first_ns is None:
                self.first_ns = record.now_ns
            self.last_ns = record.now_ns
            yield record


def _is_same(path: Path, journal: Path) -> bool:
    """By whatever name or link: writing there would destroy what is read."""
    return path.exists() and journal.exists() and path.samefile(journal)
