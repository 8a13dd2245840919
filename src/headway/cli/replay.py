"""`headway replay`: a journal's events once more through the code, which must decide the same.

Or, with `--score`, with predictors listening that were not there when it was recorded.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from difflib import ndiff
from pathlib import Path
from time import thread_time_ns
from typing import TYPE_CHECKING, NamedTuple

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import print_json, print_rich, print_table, say
from headway.units import format_duration

if TYPE_CHECKING:
    from msgspec import Struct

    from headway.observe import Divergence

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway replay run.journal"


class Replay(NamedTuple):
    """How it went."""

    policy: str
    steps: int
    """Steps that were decided as in the journal."""
    divergence: "Divergence | None"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("journal", metavar="JOURNAL", help="journal of a live or simulated run")
    parser.add_argument(
        "--score",
        metavar="NAMES",
        help="instead, predictors with commas between: how right each would have been on this run",
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Replay; 1 when a step was decided otherwise."""
    if args.score is not None:
        return _score(args)
    result = _replay(Path(args.journal))
    if args.format == "json":
        print_json(_plain(args.journal, result))
    else:
        outcome = "the same" if result.divergence is None else "otherwise at the next step"
        columns = ("journal", "policy", "steps", "decided")
        print_table(columns, [(args.journal, result.policy, result.steps, outcome)])
        if result.divergence is not None:
            print("\n".join(_explained(result.divergence)))
    if result.divergence is None:
        return 0
    say(
        f"error: step {result.divergence.record.seq} of `{args.journal}` was decided otherwise\n"
        "hint: replay a journal with the version that wrote it; if it did, this is a bug"
    )
    return 1


def _score(args: argparse.Namespace) -> int:
    """Every predictor from nothing, on the same executions."""
    from msgspec import to_builtins

    from headway.bench import listen_to, score_rows, shipped
    from headway.report import scores_table

    names = [name.strip() for name in args.score.split(",")]
    log = listen_to(Path(args.journal), names, shipped, clock=thread_time_ns)
    rows = to_builtins(score_rows(log))
    if args.format == "json":
        print_json({"journal": args.journal, "scores": rows})
    else:
        count = len(log.executions)
        caption = f"{args.journal}: {count} executions, begun with own profiles"
        print_rich(scores_table(rows, caption=caption), can_drop_columns=True)
    return 0


def _replay(path: Path) -> Replay:
    # Here, for else `headway replay --help` would pay for a server.
    from headway.app import kernel_of
    from headway.observe import read_journal, replay

    header, records = read_journal(path)
    with closing(records):
        steps, divergence = replay(kernel_of(header), records)
    return Replay(str(header.policy.get("kind")), steps, divergence)


def _plain(journal: str, result: Replay) -> dict[str, object]:
    from msgspec import to_builtins

    divergence = result.divergence
    found = None
    if divergence is not None:
        record = divergence.record
        replayed = to_builtins(divergence.replayed)
        found = {**to_builtins(record), "replayed": replayed, "error": divergence.error}
    return {
        "journal": journal,
        "policy": result.policy,
        "steps": result.steps,
        "is_identical": divergence is None,
        "divergence": found,
    }


# --- words ----------------------------------------------------------------------------------------


def _explained(divergence: "Divergence") -> Iterator[str]:
    """The event, and what was decided then and now, line against line."""
    record = divergence.record
    yield ""
    yield f"step {record.seq}, {format_duration(record.now_ns)} after the start"
    yield f"  event  {_words(record.event)}"
    yield "  then (-) and now (+)"
    then, now = _lines(record.commands), _lines(divergence.replayed)
    if divergence.error is not None:
        now = [f"stopped on a bug: {divergence.error}"]
    yield from (f"  {line}".rstrip() for line in ndiff(then, now) if not line.startswith("?"))


def _lines(commands: "Sequence[Struct]") -> list[str]:
    return [_words(command) for command in commands] or ["nothing to do"]


def _words(struct: "Struct") -> str:
    """`Dispatch batch_id 3, model ocr, ...`; what has its default is left out."""
    return ", ".join([type(struct).__name__, *_fields(struct)]).replace(",", "", 1)


def _fields(struct: "Struct") -> Iterator[str]:
    from msgspec import Struct
    from msgspec.structs import fields

    for field in fields(struct):
        value = getattr(struct, field.name)
        if value == field.default:
            continue
        if isinstance(value, Struct):
            yield f"{field.name} ({', '.join(_fields(value))})"
        elif field.name.endswith("_ns") and isinstance(value, int):
            yield f"{field.name.removesuffix('_ns')} {format_duration(value)}"
        elif isinstance(value, tuple | list):
            yield f"{field.name} {' '.join(map(str, value)) or 'none'}"
        else:
            yield f"{field.name} {value}"
