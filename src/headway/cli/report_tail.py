"""`headway report tail`: what requests at p99 spent their time on that those at p50 did not."""

import argparse
import shlex
from pathlib import Path

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import drawing, print_json, print_rich, say
from headway.errors import HeadwayError

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway report tail run.journal --plot tail.png"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("journal", metavar="JOURNAL", help="journal of a live or simulated run")
    parser.add_argument("--plot", metavar="PNG", help="write a plot")
    parser.add_argument("--title", metavar="TEXT", help="of the plot")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Read twice, compare, print and draw."""
    # Here, for else `--help` would pay for tables.
    import json

    from headway.observe import read_journal
    from headway.report import plot_tail, remedy_lines, split_tail, tail_table, tail_to_json

    path = Path(args.journal)
    header, records = read_journal(path)
    records.close()
    report = split_tail(lambda: read_journal(path)[1], header.params.devices)
    if not report.groups:
        raise HeadwayError(f"`{path}` has no request that was answered or expired")
    if args.format == "json":
        print_json(json.loads(tail_to_json(report)))
    else:
        print_rich(tail_table(report))
        print("\n".join(remedy_lines(report)))
    if report.groups_left_out:
        say(f"{report.groups_left_out} models and tiers more were left out")
    if args.plot is not None:
        words = ["headway", "report", "tail", args.journal, "--plot", args.plot]
        words += ["--title", args.title] if args.title else []
        with drawing(args.plot):
            plot_tail(
                report,
                Path(args.plot),
                title=args.title or "Where the tail comes from",
                command=shlex.join(words),
            )
    return 0
