"""`headway load`: plays a workload at a live server and keeps a sample of each request."""

import argparse

from headway.cli.arguments import VerbParser, add_format, add_seed, duration_ns, positive
from headway.errors import HeadwayError

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway load http://127.0.0.1:8000 --model echo --rate 50 --cv 2 --duration 10s --seed 1"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("url", metavar="URL", help="the server, as http://127.0.0.1:8000")
    parser.add_argument(
        "--workload", metavar="FILE", help="streams of requests, instead of the flags below"
    )
    parser.add_argument("--model", metavar="NAME", help="model to ask")
    parser.add_argument(
        "--rate", type=positive(float), metavar="RPS", help="mean requests per second"
    )
    parser.add_argument(
        "--cv",
        type=positive(float),
        default=1.0,
        metavar="CV",
        help="burstiness: coefficient of variation of the gaps; 1 is Poisson (1)",
    )
    parser.add_argument(
        "--duration", type=duration_ns, default="10s", metavar="TIME", help="how long (10s)"
    )
    parser.add_argument("--tier", metavar="NAME", help="tier to ask for; without it the model's")
    parser.add_argument(
        "--rows", type=positive(int), default=1, metavar="N", help="rows of each request (1)"
    )
    add_seed(parser)
    parser.add_argument("--out", metavar="FILE", help="write a sample a request, as JSON lines")
    add_format(parser)


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - the signature of every verb
    """Not there yet."""
    raise HeadwayError("`headway load` cannot do its work in this version yet")
