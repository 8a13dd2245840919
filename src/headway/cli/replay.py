"""`headway replay`: a journal's events once more through the code, which must decide the same."""

import argparse

from headway.cli.arguments import VerbParser, add_format
from headway.errors import HeadwayError

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway replay run.journal"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("journal", metavar="JOURNAL", help="journal of a live or simulated run")
    add_format(parser)


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - the signature of every verb
    """Not there yet."""
    raise HeadwayError("`headway replay` cannot do its work in this version yet")
