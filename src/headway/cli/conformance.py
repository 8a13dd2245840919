"""`headway conformance`: what clients of the protocol rely on, asked of any server."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from headway.conformance import Result

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway conformance http://127.0.0.1:8000 --grpc 127.0.0.1:8001"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "url",
        metavar="URL",
        help="a server, ours or another; examples/conformance.yaml has the models that are asked",
    )
    parser.add_argument("--grpc", metavar="ADDRESS", help="its gRPC interface, host:port")
    parser.add_argument(
        "--reload", action="store_true", help="also unload a model and load it again"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results as JSON")
    parser.add_argument(
        "--all", action="store_true", help="show every case, not only those that did not pass"
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Ask everything; 1 when a case failed."""
    # Here, for else `--help` would pay for the cases.
    from msgspec.json import encode, format  # noqa: A004 (its own name for it)

    from headway.conformance import Outcome, run_cases

    results = run_cases(args.url, args.grpc, can_load=args.reload)
    document = {"server": args.url, "cases": [result._asdict() for result in results]}
    if args.json is not None:
        Path(args.json).write_bytes(format(encode(document)) + b"\n")
    if args.format == "json":
        print_json(document)
    else:
        _show(results, is_all=args.all)
    failed = sum(result.outcome is Outcome.FAILED for result in results)
    return 1 if failed else 0


def _show(results: "Sequence[Result]", *, is_all: bool) -> None:
    """What did not pass, then each area's numbers."""
    shown = [result for result in results if is_all or result.outcome != "passed"]
    if shown:
        rows = [(each.area, each.name, each.outcome.value, each.why) for each in shown]
        print_table(("area", "case", "outcome", "why"), rows)
        print()
    areas = list(dict.fromkeys(result.area for result in results))
    counts = {
        area: Counter(result.outcome.value for result in results if result.area == area)
        for area in areas
    }
    total = Counter(result.outcome.value for result in results)
    columns = ("passed", "failed", "skipped")
    print_table(
        ("area", *columns),
        [
            (area, *(count[name] for name in columns))
            for area, count in [*counts.items(), ("all", total)]
        ],
    )
    say(f"{total['passed']} of {total['passed'] + total['failed']} cases passed")
