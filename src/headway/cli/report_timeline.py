"""`headway report timeline`: a journal as a timeline that Perfetto opens."""

import argparse
from contextlib import closing
from pathlib import Path

from headway.cli.arguments import UsageError, VerbParser, duration_ns
from headway.cli.output import say
from headway.errors import HeadwayError

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway report timeline run.journal --from 2s --to 5s"


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
    header, records = read_journal(journal)
    notes = {
        "journal": journal.name,
        "policy": header.policy.get("kind"),
        "started_at": header.started_at,
        "headway": header.headway,
    }
    try:
        with closing(records):
            count = write_timeline(records, path, header.params.devices, window=window, notes=notes)
    except OSError as error:
        raise HeadwayError(f"cannot write `{path}`: {error.strerror}") from error
    say(f"timeline: {path} ({count:,} events); open it in https://ui.perfetto.dev")
    return 0
