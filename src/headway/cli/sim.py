"""`headway sim`: the scheduler in virtual time, on a described machine and load."""

import argparse

from headway.cli.arguments import POLICIES, VerbParser, add_format, add_seed
from headway.errors import HeadwayError

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway sim examples/scenario.yaml --policy fifo --policy edf --seed 1"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("scenario", metavar="SCENARIO", help="machine, models and load (.yaml)")
    parser.add_argument(
        "--policy",
        action="append",
        choices=POLICIES,
        help="policy to run; give it again to compare several",
    )
    add_seed(parser)
    parser.add_argument("--journal", metavar="FILE", help="write the journal of the run")
    add_format(parser)


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - the signature of every verb
    """Not there yet."""
    raise HeadwayError("`headway sim` cannot do its work in this version yet")
