"""`headway demo`: real models, a bursty load, and two policies side by side."""

import argparse

from headway.cli.arguments import VerbParser, add_seed, positive
from headway.errors import HeadwayError

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway demo --quick --seed 1"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("--quick", action="store_true", help="a minute instead of several")
    parser.add_argument(
        "--seconds", type=positive(int), metavar="S", help="length of each policy's turn"
    )
    parser.add_argument(
        "--rate-factor",
        type=positive(float),
        default=1.0,
        metavar="X",
        help="load as a multiple of the demo's own (1)",
    )
    parser.add_argument("--plot", metavar="PNG", help="write a plot")
    parser.add_argument(
        "--keep", action="store_true", help="leave the server running until interrupted"
    )
    add_seed(parser)


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - the signature of every verb
    """Not there yet."""
    raise HeadwayError("`headway demo` cannot do its work in this version yet")
