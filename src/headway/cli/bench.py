"""`headway bench`: experiments with real models on this machine."""

import argparse
from typing import Final

from headway.cli.arguments import UsageError, VerbParser, add_format, positive
from headway.cli.bench_policies import add_policies_flags, run_policies
from headway.cli.bench_prediction import add_prediction_flags, run_prediction

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway bench policies --quick --policies priority,lane-edf,headway"

_PREDICTION_ONLY: Final = ("utilisation", "configs", "predictors", "shifts")
_POLICIES_ONLY: Final = ("mixes", "policies", "niced", "duration", "loads", "against")


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "what",
        choices=("prediction", "policies"),
        help="prediction: of execution and response times; policies: deadlines met and work done",
    )
    parser.add_argument("--quick", action="store_true", help="the smallest, within a minute")
    parser.add_argument("--seeds", type=positive(int), metavar="N", help="of all chance, from 1")
    parser.add_argument("--plots", metavar="DIR", help="write pictures there")
    parser.add_argument(
        "--keep",
        metavar="DIR",
        help="leave the recordings there; policies: runs that it has are not played again",
    )
    add_prediction_flags(parser.add_argument_group("for prediction"))
    add_policies_flags(parser.add_argument_group("for policies"))
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Hold the experiment that was asked for."""
    if args.what == "policies":
        _refuse(args, _PREDICTION_ONLY)
        return run_policies(args)
    _refuse(args, _POLICIES_ONLY)
    return run_prediction(args)


def _refuse(args: argparse.Namespace, names: tuple[str, ...]) -> None:
    """A flag that would do nothing was a mistake."""
    for name in names:
        if getattr(args, name):
            raise UsageError(f"`--{name}` says nothing about `bench {args.what}`")
