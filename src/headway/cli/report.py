"""`headway report`: tables and plots from samples and journals."""

import argparse

from headway.cli.arguments import VerbParser, add_format
from headway.errors import HeadwayError

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway report samples.jsonl --plot latency.png"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="samples (.jsonl) or journals, compared"
    )
    parser.add_argument("--plot", metavar="PNG", help="write a plot")
    add_format(parser)


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - the signature of every verb
    """Not there yet."""
    raise HeadwayError("`headway report` cannot do its work in this version yet")
