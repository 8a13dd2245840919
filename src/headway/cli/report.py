"""`headway report`: tables and plots from samples and journals."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headway.cli.arguments import UsageError, VerbParser, add_format
from headway.cli.output import drawing, print_json, print_rich
from headway.errors import ConfigError, HeadwayError

if TYPE_CHECKING:
    from headway.report import Summary
    from headway.workload import Sample

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway report samples.jsonl --plot latency.png"


class Source(NamedTuple):
    """A file and the name of what it is a run of."""

    name: str
    path: Path


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="samples (.jsonl) or journals, compared; files of one NAME, given as NAME=FILE, are "
        "runs of the same",
    )
    parser.add_argument("--plot", metavar="PNG", help="write a plot")
    parser.add_argument("--title", metavar="TEXT", help="of the plot")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Read, sum up, print and draw."""
    # Here, for else `headway report --help` would pay for tables.
    from headway.report import comparison_table, summaries_to_json, summarise, summary_table

    runs: dict[str, list[list[Sample]]] = {}
    for source in _sources(args.files):
        runs.setdefault(source.name, []).append(_samples(source.path))
    summaries = {name: [summarise(run) for run in runs[name]] for name in runs}
    if args.format == "json":
        import json

        print_json(json.loads(summaries_to_json(summaries)))
    elif len(args.files) == 1:
        print_rich(summary_table(_only(summaries)), can_drop_columns=True)
    else:
        print_rich(comparison_table(summaries))
    if args.plot is not None:
        _plot(runs, args)
    return 0


def _only(summaries: "dict[str, list[Summary]]") -> "Summary":
    ((summary,),) = summaries.values()
    return summary


def _sources(texts: list[str]) -> list[Source]:
    """Names are the files' own, as much of their paths as tells them apart."""
    paths = [Path(text) for text in texts]
    stems = [path.stem for path in paths]
    sources = []
    for text, path in zip(texts, paths, strict=True):
        name, is_named, rest = text.partition("=")
        if is_named and not path.exists():
            if not name or not rest:
                raise UsageError(f"`{text}` is not NAME=FILE", hint="such as edf=run.journal")
            sources.append(Source(name, Path(rest)))
        else:
            sources.append(Source(path.stem if stems.count(path.stem) == 1 else text, path))
    return sources


def _samples(path: Path) -> "list[Sample]":
    """One sample a request, whichever kind of file it is."""
    from headway.observe import read_journal
    from headway.report import records_to_samples, samples_from_jsonl

    try:
        with path.open("rb") as file:
            is_journal = b'"headway-journal"' in file.readline()
    except OSError as error:
        raise ConfigError(f"cannot read `{path}`: {error.strerror}", value=str(path)) from error
    if is_journal:
        samples = list(records_to_samples(read_journal(path)[1]))
    else:
        samples = samples_from_jsonl(path)
    if not samples:
        raise HeadwayError(f"`{path}` has not a single request", hint="was the run cut short?")
    return samples


def _plot(runs: "dict[str, list[list[Sample]]]", args: argparse.Namespace) -> None:
    from headway.report import plot_comparison

    counts = {name: sum(len(run) for run in runs[name]) for name in runs}
    named = ", ".join(f"{name} {requests:,}" for name, requests in counts.items())
    with drawing(args.plot):
        plot_comparison(
            runs,
            Path(args.plot),
            title=args.title or "Requests served in time",
            subtitle=f"requests: {named}",
            command=shlex.join(["headway", "report", *args.files, "--plot", args.plot]),
        )
