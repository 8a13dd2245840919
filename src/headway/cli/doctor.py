"""`headway doctor`: what ails a server, a process, a device or a recorded run."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError, VerbParser, add_format, positive
from headway.cli.doctor_words import (
    WallClock,
    add_patient,
    exit_code,
    finding_patient,
    is_alive,
    print_diagnosis,
    say_lost,
)
from headway.cli.output import say
from headway.units import NS_PER_MS, NS_PER_S, format_duration

if TYPE_CHECKING:
    from headway.doctor import Chart

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway doctor --url http://127.0.0.1:8000 --seconds 20"

_EVERY_NS = 250 * NS_PER_MS


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.description = (
        f"{parser.description} Nothing is changed. Exits with 3 where something serious was found."
    )
    add_patient(parser)
    parser.add_argument("--journal", metavar="FILE", help="journal of a live or simulated run")
    parser.add_argument(
        "--trace",
        metavar="FILE",
        action="append",
        default=[],
        help="a profiler's export: SQLite or CSV of Nsight Systems, or a Chrome trace of torch's "
        "profiler; may be repeated",
    )
    parser.add_argument(
        "--smi",
        metavar="FILE",
        action="append",
        default=[],
        help="CSV of nvidia-smi with a column `timestamp`, of `--query-gpu` or "
        "`--query-compute-apps`; may be repeated",
    )
    parser.add_argument(
        "--seconds",
        type=positive(float),
        default=10.0,
        metavar="N",
        help="how long a server, process or device is watched (10)",
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Look, judge, print."""
    if not (is_alive(args) or args.journal or args.trace or args.smi):
        raise UsageError(
            "there is nothing to look at",
            hint="give --url, --pid, --device, --journal, --trace or --smi",
        )
    # Here, for else `--help` would pay for everything that measures.
    from headway.doctor import diagnose

    chart, lost = _chart(args)
    diagnosis = diagnose(chart)
    print_diagnosis(diagnosis, args.format)
    return exit_code(diagnosis, lost)


def _chart(args: argparse.Namespace) -> "tuple[Chart, str]":
    """What was seen, and why it ended early, if it did."""
    from headway.doctor import chart_of, read_recorded, watch

    journal = Path(args.journal) if args.journal else None
    traces, smi = [Path(text) for text in args.trace], [Path(text) for text in args.smi]
    if not is_alive(args):
        return chart_of(None, (), read_recorded(journal=journal, traces=traces, smi=smi)), ""
    for_ns = int(args.seconds * NS_PER_S)
    with finding_patient(args) as patient:
        say(f"watching for {format_duration(for_ns)}")
        readings = watch(patient, WallClock(), for_ns=for_ns, every_ns=_EVERY_NS)
        say_lost(patient)
        # Afterwards: a journal of the very server has what happened meanwhile.
        recorded = read_recorded(
            journal=journal,
            rows_max=patient.door.rows_max() if patient.door else {},
            traces=traces,
            smi=smi,
        )
        return chart_of(patient, readings, recorded), patient.lost
