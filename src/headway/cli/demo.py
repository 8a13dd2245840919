"""`headway demo`: real models, too much load, and three policies side by side, or two on a page."""

import argparse
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import UsageError, VerbParser, add_format, add_seed, positive
from headway.errors import HeadwayError
from headway.units import NS_PER_S

if TYPE_CHECKING:
    from types import FrameType

    from headway.demo import DemoOptions

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway demo --quick --seed 1"

_NEEDED: Final = {
    "onnxruntime": "onnxruntime",
    "PIL": "pillow",
    "aiohttp": "aiohttp",
    "matplotlib": "matplotlib",
}
"""Module -> the package that brings it; all are in the `demo` extra."""


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("--quick", action="store_true", help="one minute, not two")
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
    parser.add_argument(
        "--models", metavar="NAMES", help="only these, with commas between (all of them)"
    )
    parser.add_argument("--plot", metavar="PNG", help="write the plot there, not to the cache")
    parser.add_argument("--json", metavar="FILE", help="also write the results as JSON")
    parser.add_argument(
        "--keep", action="store_true", help="in the end leave a server running until interrupted"
    )
    parser.add_argument(
        "--ui",
        action="store_true",
        help="instead show two policies side by side on a web page, until Ctrl-C",
    )
    parser.add_argument(
        "--against",
        choices=("fifo", "priority"),
        help="with --ui: the policy that `headway` is set beside (fifo)",
    )
    add_seed(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Show everything; 1 when an answer was wrong."""
    _check(args)
    _demand_extra()
    # Here, for `headway demo --help` needs neither models nor a plot.
    from rich.console import Console

    from headway.demo import Screen, hold, run_demo, run_duel, tell_result

    # A file has no width of its own; wide lines are better than cut ones there.
    words, data = (
        Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 120)
        for stderr, stream in ((True, sys.stderr), (False, sys.stdout))
    )
    screen = Screen(words, data)
    options = _options(args)
    with _ending_on_signals():
        if args.ui:
            run_duel(options, screen, against=args.against or "fifo")
            return 0
        result = run_demo(options, screen)
        if args.format == "json":
            screen.print_json(result.to_json())
        else:
            screen.show_turns(result.turns)
        if args.json is not None:
            Path(args.json).write_text(result.to_json() + "\n", encoding="utf-8")
        tell_result(options, result, screen)
        if args.keep:
            hold(options, screen)
    return 0 if result.has_passed else 1


def _check(args: argparse.Namespace) -> None:
    """Refuse flags that have no meaning together."""
    if not args.ui and args.against is not None:
        raise UsageError("`--against` is for the page", hint="give `--ui` too")
    others = {"--plot": args.plot, "--json": args.json, "--keep": args.keep}
    for flag, value in (others | {"--format": args.format != "table"}).items():
        if args.ui and value:
            raise UsageError(f"`{flag}` does not go with `--ui`", hint="leave one of them out")


def _options(args: argparse.Namespace) -> "DemoOptions":
    from headway.config import cache_folder
    from headway.demo import DemoOptions, choose_models

    cache = cache_folder()
    default_seconds = 9 if args.quick else 25
    return DemoOptions(
        command=shlex.join(["headway", *sys.argv[1:]]),
        cache=cache,
        models=choose_models(args.models.split(",") if args.models else None),
        seed=args.seed,
        turn_ns=(args.seconds or default_seconds) * NS_PER_S,
        capacity_ns=(3 if args.quick else 6) * NS_PER_S,
        solo_requests=21 if args.quick else 41,
        rate_factor=args.rate_factor,
        plot=Path(args.plot) if args.plot else cache / "demo" / "comparison.png",
        is_kept=args.keep,
    )


def _demand_extra() -> None:
    """Say at once what is missing, not after the first minute."""
    missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise HeadwayError(
            f"the demo needs {', '.join(f'`{package}`' for package in missing)}",
            hint="pip install 'headway[demo]'",
        )


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """A polite request to end, or a closed terminal, ends the children too, as Ctrl-C does."""

    def interrupt(_number: int, _frame: "FrameType | None") -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
