"""`headway load`: plays a workload at a live server and keeps a sample of each request."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError, VerbParser, add_format, count, duration_ns, positive
from headway.cli.output import print_json, print_rich, progress_bar, say
from headway.errors import HeadwayError
from headway.units import format_duration

if TYPE_CHECKING:
    from headway.loadgen import LoadRun, OnProgress, Progress
    from headway.report import Summary
    from headway.workload import Sample, Workload

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway load http://127.0.0.1:8000 --model echo --rate 50 --cv 2 --duration 10s --seed 1"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("url", metavar="URL", help="the server, as http://127.0.0.1:8000")
    parser.add_argument(
        "--workload", metavar="FILE", help="streams of requests, instead of the flags below"
    )
    parser.add_argument(
        "--traces", metavar="FOLDER", help="where the workload's recorded traces are"
    )
    parser.add_argument("--model", metavar="NAME", help="model to ask")
    parser.add_argument(
        "--rate", type=positive(float), metavar="RPS", help="mean requests per second"
    )
    parser.add_argument(
        "--cv",
        type=positive(float),
        metavar="CV",
        help="burstiness: coefficient of variation of the gaps; 1 is Poisson (1)",
    )
    parser.add_argument("--duration", type=duration_ns, metavar="TIME", help="how long (10s)")
    parser.add_argument("--tier", metavar="NAME", help="tier to ask for; without it the model's")
    parser.add_argument(
        "--budget", type=duration_ns, metavar="TIME", help="budget to ask for, below the tier's"
    )
    parser.add_argument("--rows", type=positive(int), metavar="N", help="rows of each request (1)")
    parser.add_argument(
        "--seed", type=count, metavar="N", help="of all chance, instead of the workload's (1)"
    )
    parser.add_argument("--out", metavar="FILE", help="write a sample a request, as JSON lines")
    parser.add_argument(
        "--violations-max",
        type=_ratio,
        metavar="RATIO",
        help="exit with 3 when a larger share of any tier's requests was not served in time",
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Play it; 3 when the target was not met."""
    # Here, for else `headway load --help` would pay for a client.
    from headway.cli.verbs import EXIT_MISSED, EXIT_OK
    from headway.report import samples_to_jsonl, summarise

    workload = _workload(args)
    result = _play(workload, args.url)
    samples = _with_tiers(result.samples)
    if not samples:
        raise HeadwayError(
            "the workload has not a single request", hint="give it more time or a higher rate"
        )
    if args.out is not None:
        try:
            samples_to_jsonl(samples, Path(args.out))
        except OSError as error:
            raise HeadwayError(f"cannot write `{args.out}`: {error.strerror}") from error
    summary = summarise(samples, duration_ns=workload.duration_ns)
    _print(summary, args, workload.seed)
    if result.unsent:
        say(f"{result.unsent} requests were not sent: too many waited for their answers")
    missed = _missed(summary, args.violations_max)
    for line in missed:
        say(f"target not met: {line}")
    return EXIT_MISSED if missed else EXIT_OK


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not between 0 and 1")
    return value


def _workload(args: argparse.Namespace) -> "Workload":
    """From the file or from the flags, never from both."""
    from headway.config import build_from_file
    from headway.workload import workload_from_dict

    flags = {
        "model": args.model,
        "rate": args.rate,
        "cv": args.cv,
        "duration": args.duration,
        "tier": args.tier,
        "budget": args.budget,
        "rows": args.rows,
    }
    if args.workload is None:
        return _workload_of_flags(args)
    given = [name for name, value in flags.items() if value is not None]
    if given:
        message = f"`--{given[0]}` and `--workload` exclude each other"
        raise UsageError(message, hint="write it into the file, or leave the file out")
    traces = Path(args.traces) if args.traces else None
    workload = build_from_file(
        Path(args.workload), lambda data: workload_from_dict(data, traces=traces)
    )
    return workload if args.seed is None else _with_seed(workload, args.seed)


def _with_seed(workload: "Workload", seed: int) -> "Workload":
    from msgspec.structs import replace

    return replace(workload, seed=seed)


def _workload_of_flags(args: argparse.Namespace) -> "Workload":
    from headway.core import ModelName, TierName
    from headway.units import NS_PER_S
    from headway.workload import FixedRows, Gamma, Poisson, Stream, Workload

    if args.model is None or args.rate is None:
        hint = "or --workload FILE; see `headway load --help`"
        raise UsageError("`--model` and `--rate` say what to send", hint=hint)
    cv = 1.0 if args.cv is None else args.cv
    try:
        stream = Stream(
            model=ModelName(args.model),
            tier=TierName(args.tier or ""),
            arrivals=Poisson(args.rate) if cv == 1 else Gamma(args.rate, cv),
            rows=FixedRows(args.rows or 1),
            budget_ns=args.budget,
        )
    except ValueError as error:
        raise UsageError(str(error), hint="see `headway load --help`") from error
    return Workload(
        streams=(stream,),
        duration_ns=args.duration or 10 * NS_PER_S,
        seed=1 if args.seed is None else args.seed,
    )


def _play(workload: "Workload", url: str) -> "LoadRun":
    try:
        from headway.loadgen import run_load
    except ModuleNotFoundError as error:
        if error.name not in {"aiohttp", "yarl"}:
            raise
        raise HeadwayError(
            f"`{error.name}` is not installed, which sends the requests",
            hint="pip install headway[load]",
        ) from error
    say(
        f"{url}: {format_duration(workload.duration_ns)} of {workload.rate_rps:.1f} req/s; "
        f"seed {workload.seed}"
    )
    with progress_bar("requests") as bar:
        task = bar.add_task("sending", total=None, words="")

        def show(progress: "Progress") -> None:
            words = _words(progress)
            bar.update(task, total=progress.planned, completed=progress.done, words=words)
            bar.refresh()

        on_progress: OnProgress | None = None if bar.disable else show
        return run_load(workload, url, on_progress=on_progress)


def _words(progress: "Progress") -> str:
    """How each tier fares, while it runs."""
    tiers = (
        f"{tier or 'default'} {100 * state.violations / max(1, state.done):.1f} %"
        for tier, state in sorted(progress.tiers.items())
    )
    return f"violations {', '.join(tiers)}; {progress.in_flight} in flight"


def _with_tiers(samples: "Sequence[Sample]") -> "list[Sample]":
    """Name the tier of requests that named none, where the server said it in another reply."""
    from msgspec.structs import replace

    from headway.core import TierName

    known: dict[str, TierName] = {s.model: s.tier for s in samples if s.tier}
    return [
        s if s.tier else replace(s, tier=known.get(s.model, TierName("default"))) for s in samples
    ]


def _print(summary: "Summary", args: argparse.Namespace, seed: int) -> None:
    from msgspec import to_builtins

    from headway.report import summary_table

    if args.format == "json":
        print_json({"url": args.url, "seed": seed, **to_builtins(summary)})
    else:
        print_rich(summary_table(summary), can_drop_columns=True)


def _missed(summary: "Summary", violations_max: float | None) -> list[str]:
    if violations_max is None:
        return []
    return [
        f"{100 * group.violation_ratio:.2f} % of tier `{tier}` not served in time, "
        f"{100 * violations_max:.2f} % are allowed"
        for tier, group in summary.tiers.items()
        if group.violation_ratio > violations_max
    ]
