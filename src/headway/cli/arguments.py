"""Arguments that several verbs share, so that a flag means the same everywhere.

Knows argparse and units. Long flags only, the value after a space.
"""

import argparse
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from headway.errors import HeadwayError
from headway.units import parse_duration_ns

__all__ = [
    "POLICIES",
    "PREDICTORS",
    "UsageError",
    "VerbParser",
    "add_format",
    "add_seed",
    "add_server_flags",
    "count",
    "duration_ns",
    "positive",
    "server_flags",
]

POLICIES: Final = ("edf", "fifo", "priority")
PREDICTORS: Final = (
    "boosted",
    "fixed",
    "headway",
    "max10",
    "pairwise",
    "rls",
    "windowed-pcie",
)
"""As the configuration knows them; here, for a command line is parsed without loading them."""
"""As in the configuration; a test compares them."""

_Number = TypeVar("_Number", int, float)


class UsageError(HeadwayError):
    """The command line was wrong."""

    code = "bad_usage"


class VerbParser(argparse.ArgumentParser):
    """Raises what argparse would print, and ends its help with an example."""

    def __init__(self, verb: str, summary: str, example: str) -> None:
        super().__init__(
            prog=f"headway {verb}".strip(),
            description=summary,
            epilog=f"example:\n  {example}",
            formatter_class=_wide,
            add_help=False,
            allow_abbrev=False,
        )
        self.add_argument("--help", action="help", help="show this and exit")

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            UsageError: always.
        """
        raise UsageError(message, hint=f"see `{self.prog} --help`")


def add_format(parser: argparse.ArgumentParser) -> None:
    """`--format table|json`."""
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="how data is printed (table)"
    )


def add_seed(parser: argparse.ArgumentParser) -> None:
    """`--seed N`, on all verbs that draw numbers."""
    parser.add_argument("--seed", type=count, default=1, metavar="N", help="of all chance (1)")


def add_server_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that replace a setting of the configuration."""
    parser.add_argument("--host", metavar="ADDRESS", help="instead of server.host")
    parser.add_argument("--port", type=count, metavar="N", help="instead of server.port")
    parser.add_argument("--policy", choices=POLICIES, help="instead of policy, with its defaults")
    parser.add_argument(
        "--predictor", choices=PREDICTORS, help="instead of predictor, with its defaults"
    )


def server_flags(args: argparse.Namespace) -> dict[str, object]:
    """What those flags said, as the configuration takes it."""
    return {
        "server.host": args.host,
        "server.port": args.port,
        "policy": args.policy,
        "predictor": args.predictor,
    }


def count(text: str) -> int:
    """A whole number that is not negative."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"`{text}` is negative")
    return value


def positive(kind: Callable[[str], _Number]) -> Callable[[str], _Number]:
    """A number above 0."""

    def number(text: str) -> _Number:
        value = kind(text)
        # The negation also refuses what compares with nothing, such as `nan`.
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"`{text}` is not above 0")
        return value

    return number


def duration_ns(text: str) -> int:
    """A length of time above 0, such as `10s`."""
    try:
        value = parse_duration_ns(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if value <= 0:
        raise argparse.ArgumentTypeError(f"`{text}` is no time at all")
    return value


def _wide(prog: str) -> argparse.HelpFormatter:
    """Keep the example's lines, and one width for all terminals."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=32, width=100)
