"""Arguments that several verbs share, so that a flag means the same everywhere.

Knows argparse and units. Long flags only, the value after a space.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, TypeVar

from headway.errors import HeadwayError
from headway.units import parse_duration_ns

__all__ = [
    "POLICY_METAVAR",
    "PREDICTORS",
    "PolicyFlag",
    "UsageError",
    "VerbParser",
    "add_format",
    "add_seed",
    "add_server_flags",
    "count",
    "duration_ns",
    "key_in",
    "policy_flag",
    "policy_flags",
    "positive",
    "server_flags",
]

POLICY_METAVAR: Final = "KIND[:KEY=VALUE,...]"
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

_VALUES: Final[Mapping[str, bool]] = {"true": True, "false": False}

_Number = TypeVar("_Number", int, float)


class PolicyFlag(NamedTuple):
    """A policy as a command line names it."""

    text: str
    """As it was written, `static-cap:low_max=2`."""
    settings: dict[str, object]
    """As the configuration takes it, `{"kind": "static-cap", "low_max": 2}`."""


class UsageError(HeadwayError):
    """The command line was wrong."""

    code = "bad_usage"


def key_in(path: str) -> str:
    """The server's admin key out of its file.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}") from error


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
    parser.add_argument(
        "--policy",
        type=policy_flag,
        metavar=POLICY_METAVAR,
        help="instead of policy, with its defaults but for the settings that are named",
    )
    parser.add_argument(
        "--predictor", choices=PREDICTORS, help="instead of predictor, with its defaults"
    )


def server_flags(args: argparse.Namespace) -> dict[str, object]:
    """What those flags said, as the configuration takes it."""
    return {
        "server.host": args.host,
        "server.port": args.port,
        "policy": None if args.policy is None else args.policy.settings,
        "predictor": args.predictor,
    }


def policy_flag(text: str) -> PolicyFlag:
    """A policy by name, with settings after a colon and commas between them.

    Whether the policy has these settings is for the configuration to say.
    """
    # Here, for else every verb would pay for the kernel's vocabulary.
    from headway.policy import POLICY_PREDICTORS

    kind, colon, rest = text.partition(":")
    if kind not in POLICY_PREDICTORS:
        names = ", ".join(POLICY_PREDICTORS)
        raise argparse.ArgumentTypeError(f"there is no policy `{kind}`, only {names}")
    settings: dict[str, object] = {"kind": kind}
    for part in rest.split(",") if colon else ():
        key, equals, value = part.partition("=")
        if not (key and equals and value) or key in settings:
            raise argparse.ArgumentTypeError(
                f"`{text}`: write each setting once, as `{kind}:key=value,key=value`"
            )
        settings[key] = _scalar(value)
    return PolicyFlag(text, settings)


def policy_flags(text: str) -> list[PolicyFlag]:
    """Several policies with commas between: `fifo,static-cap:low_max=2,class_slots=false,edf`.

    What holds a `=` and no `:` before it belongs to the policy before it.
    """
    texts: list[str] = []
    for part in text.split(","):
        if texts and "=" in part and ":" not in part.partition("=")[0]:
            texts[-1] += f",{part}"
        else:
            texts.append(part)
    return [policy_flag(one) for one in texts]


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


def _scalar(text: str) -> object:
    """Whole numbers, numbers and truths as such, all else as text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return _VALUES.get(text, text)


def _wide(prog: str) -> argparse.HelpFormatter:
    """Keep the example's lines, and one width for all terminals."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=32, width=100)
