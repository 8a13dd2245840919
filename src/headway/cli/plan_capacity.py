"""`headway plan capacity`: how many devices a workload needs, by formula and by simulation."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import UsageError, VerbParser, add_format, positive
from headway.cli.output import drawing, print_json, print_rich, print_table, say
from headway.cli.plan import add_play_arguments, limits_of, maker_of
from headway.errors import HeadwayError
from headway.units import format_bytes, format_duration

if TYPE_CHECKING:
    from rich.table import Table

    from headway.config import SharingQuestion
    from headway.plan import CapacityAnswer, FleetDevice

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway plan capacity examples/plan/onprem.yaml --product A100-80GB --requests 4000"

_DEVICES_MAX: Final = 128
_NAMED_MAX: Final = 3


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.description = (
        f"{parser.description} The devices of the file only say what one is like: as many as are "
        "tried are taken to be empty and alike. Of a file with an `engine` it says how many "
        "engines its generating model needs at its targets: by Little's law, and played."
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="models and tenants, as for `plan`, or a generating model, as for `sim` (.yaml)",
    )
    parser.add_argument(
        "--product", metavar="NAME", help="which kind of the file's devices (its first)"
    )
    parser.add_argument(
        "--devices-max",
        type=positive(int),
        default=_DEVICES_MAX,
        metavar="N",
        help=f"more are not tried ({_DEVICES_MAX})",
    )
    add_play_arguments(parser)
    parser.add_argument(
        "--rate",
        type=positive(float),
        metavar="X",
        help="requests a second, of a generating model (the file's own)",
    )
    parser.add_argument(
        "--traces", metavar="FOLDER", help="where a generating model's recorded traces are"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the curve (.svg or .png)")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Look with formulas, plan and play one number of devices after another, print."""
    from headway.cli.verbs import EXIT_MISSED, EXIT_OK
    from headway.config import build_from_file, load_sharing
    from headway.plan import capacity
    from headway.sim import generation_from_dict, is_generation

    traces = Path(args.traces) if args.traces else None
    generating = build_from_file(
        Path(args.file),
        lambda data: generation_from_dict(data, traces=traces) if is_generation(data) else None,
    )
    if generating is not None:
        from headway.cli.plan_generating import run_generating

        return run_generating(args, generating)
    for name in ("rate", "traces"):
        if getattr(args, name) is not None:
            hint = "models of such a file name their own rates"
            raise UsageError(f"`--{name}` is for a file with an engine", hint=hint)
    question = load_sharing(Path(args.file))
    like = _device(args, question)
    answer = capacity(
        question.demand,
        question.fleet,
        like,
        maker_of(args.policy),
        limits=limits_of(args),
        devices_max=args.devices_max,
        tell=lambda count: say(f"planning and playing {count} × {like.product}"),
    )
    if args.format == "json":
        import msgspec

        plain = msgspec.to_builtins(answer)
        print_json({"file": args.file, "seed": args.seed, "capacity": plain})
    else:
        print_rich(_models_table(answer))
        _print_points(answer)
        print(f"\n{_sentence(answer)}")
    if args.plot is not None:
        _draw(args, answer)
    return EXIT_OK if answer.by_simulation is not None else EXIT_MISSED


def _device(args: argparse.Namespace, question: "SharingQuestion") -> "FleetDevice":
    devices = question.fleet.devices
    if args.product is None:
        return devices[0]
    for device in devices:
        if device.product == args.product:
            return device
    known = ", ".join(f"`{name}`" for name in dict.fromkeys(d.product for d in devices))
    raise HeadwayError(
        f"`{args.file}` has no device of product `{args.product}`", hint=f"it has {known}"
    )


def _models_table(answer: "CapacityAnswer") -> "Table":
    from rich.table import Table

    table = Table(
        title=f"each model with whole {answer.product} to itself, by formula", title_justify="left"
    )
    table.add_column("model")
    for column in ("rate", "batch", "takes", "devices", "waits", "at once", "which hold", "memory"):
        table.add_column(column, justify="right")
    for model in answer.models:
        table.add_row(
            model.model,
            f"{model.rate_rps:g}/s",
            str(model.batch_rows),
            format_duration(model.batch_ns),
            str(model.servers),
            format_duration(model.wait_mean_ns),
            f"{model.in_system:.2f}",
            format_bytes(model.in_system_bytes),
            format_bytes(model.memory_bytes),
        )
    return table


def _print_points(answer: "CapacityAnswer") -> None:
    print()
    print_table(
        (
            "devices",
            "used",
            "placed",
            "in time, bound",
            "in time, played",
            "worst p99",
            "missed, played",
        ),
        [
            (
                point.devices,
                point.used,
                f"{100 * point.placed_ratio:.1f} %",
                f"{100 * point.bound_attainment_ratio:.2f} %",
                f"{100 * point.simulated_attainment_ratio:.2f} %",
                "–" if point.worst_p99_ratio is None else f"{point.worst_p99_ratio:.2f} × budget",
                _named(point.simulated_missed),
            )
            for point in answer.points
        ],
    )


def _named(names: "tuple[str, ...]") -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _sentence(answer: "CapacityAnswer") -> str:
    product = answer.product
    if answer.by_simulation is None and answer.by_bound is None:
        last = answer.points[-1].devices if answer.points else 0
        return f"up to {last} × {product} are not enough"
    by_bound = "more than were tried" if answer.by_bound is None else str(answer.by_bound)
    if answer.by_simulation is None:
        return f"the bound asks for {by_bound} × {product}; played, they miss objectives"
    at_least = next(point for point in answer.points if point.devices == answer.by_simulation)
    first = answer.points[0].devices == at_least.devices and at_least.devices > answer.least_by_load
    words = "at most " if first else ""
    return (
        f"{words}{answer.by_simulation} × {product} keep every objective when played; the bound "
        f"asks for {by_bound}, and load or memory alone for {answer.least_by_load}"
    )


def _draw(args: argparse.Namespace, answer: "CapacityAnswer") -> None:
    from headway.report import CurveAxis, plot_curves

    points = answer.points
    marks = {}
    if answer.by_bound is not None:
        marks["bound"] = float(answer.by_bound)
    if answer.by_simulation is not None and answer.by_simulation != answer.by_bound:
        marks["simulation"] = float(answer.by_simulation)
    with drawing(args.plot):
        plot_curves(
            {
                "in time, simulated": [
                    (p.devices, 100 * p.simulated_attainment_ratio) for p in points
                ],
                "in time, by the bound": [
                    (p.devices, 100 * p.bound_attainment_ratio) for p in points
                ],
            },
            Path(args.plot),
            x=CurveAxis(f"{answer.product}"),
            y=CurveAxis("requests in time (%)"),
            title=f"{Path(args.file).name}: how many {answer.product}",
            command=f"headway plan capacity {shlex.quote(args.file)}",
            marks=marks,
        )
