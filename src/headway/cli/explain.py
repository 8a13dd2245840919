"""`headway explain`: one request's story in words."""

import argparse
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import UsageError, VerbParser, add_format, positive
from headway.cli.output import print_json
from headway.cli.recorded import add_source, recorded
from headway.errors import HeadwayError
from headway.units import format_duration

if TYPE_CHECKING:
    from headway.cli.recorded import Recorded
    from headway.report import Story

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway explain 412 --journal run.journal"

_WORST_MAX: Final = 100


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "request",
        nargs="?",
        type=int,
        metavar="REQUEST_ID",
        help="as `headway-request-id` tells a client; below 0 for a call of a pipeline",
    )
    parser.add_argument(
        "--worst",
        type=positive(int),
        metavar="N",
        help="instead, the N requests that took longest for their budgets",
    )
    add_source(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Read, take apart, and tell."""
    if (args.request is None) == (args.worst is None):
        raise UsageError("give a request's id, or `--worst N`", hint="one of the two")
    with recorded(args) as source:
        stories = _stories(args, source)
    if args.format == "json":
        from msgspec import to_builtins

        print_json(to_builtins(stories if args.request is None else stories[0]))
        return 0
    from headway.report import story_lines

    for index, story in enumerate(stories):
        if index:
            print(f"\n{'-' * 80}\n")
        print("\n".join(story_lines(story)))
    return 0


def _stories(args: argparse.Namespace, source: "Recorded") -> "list[Story]":
    # Here, for else `--help` would pay for tables.
    from headway.report import tell, tell_worst

    if args.worst is not None:
        if args.worst > _WORST_MAX:
            raise UsageError(f"`{args.worst}` stories are too many", hint=f"{_WORST_MAX} at most")
        stories = tell_worst(source.read, source.devices, args.worst)
        if not stories:
            raise HeadwayError(f"no request of `{source.name}` was answered or expired")
        return stories
    story = tell(source.read, source.devices, args.request)
    if story is None:
        raise _unknown(args.request, source)
    return [story]


def _unknown(request_id: int, source: "Recorded") -> HeadwayError:
    """It says what there is instead."""
    from headway.core import RequestArrived

    first_at_ns = last_at_ns = None
    ids: list[int] = []
    for record in source.read():
        if isinstance(record.event, RequestArrived):
            first_at_ns = record.now_ns if first_at_ns is None else first_at_ns
            last_at_ns = record.now_ns
            newest = record.event.request.request_id
            ids = [ids[0] if ids else newest, newest]
    if first_at_ns is None or last_at_ns is None or not ids:
        return HeadwayError(f"`{source.name}` tells of no request at all")
    return HeadwayError(
        f"`{source.name}` knows no request `{request_id}`",
        hint=f"it tells of {ids[0]} to {ids[1]}, which came between "
        f"{format_duration(first_at_ns)} and {format_duration(last_at_ns)} after the start",
    )
