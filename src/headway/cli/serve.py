"""`headway serve`: a server for a configuration, or for one model file as it is."""

import argparse

from headway.cli.arguments import VerbParser, add_server_flags
from headway.errors import HeadwayError

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway serve examples/serve.yaml --port 8000"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "target",
        metavar="FILE",
        help="configuration (.yaml), model (.onnx) or Python class (file.py:Class)",
    )
    add_server_flags(parser)


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - the signature of every verb
    """Not there yet."""
    raise HeadwayError("`headway serve` cannot do its work in this version yet")
