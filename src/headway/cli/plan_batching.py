"""`headway plan batching`: time, throughput and the rate that keeps the deadline, by batch size."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import drawing, print_json, print_table, say
from headway.errors import HeadwayError
from headway.units import format_bytes, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.config import SharingQuestion
    from headway.plan import BatchPoint, Cut, ModelDemand

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway plan batching examples/plan/onprem.yaml --model embedder --slice 2g.20gb"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument("file", metavar="FILE", help="models and devices, as for `plan` (.yaml)")
    parser.add_argument("--model", required=True, metavar="NAME", help="of the file")
    parser.add_argument("--product", metavar="NAME", help="of the file's devices (its first)")
    parser.add_argument("--slice", metavar="PROFILE", help="a MIG profile (the whole device)")
    parser.add_argument("--plot", metavar="FILE", help="draw the curve (.svg or .png)")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Read, reckon and print."""
    from headway.config import load_sharing
    from headway.plan import batching_curve

    question = load_sharing(Path(args.file))
    model, cut = _model(args, question), _cut(args, question)
    points = batching_curve(model, cut, question.fleet.speeds)
    if not points:
        products = ", ".join(f"`{product}`" for product in {t.product for t in model.times})
        raise HeadwayError(
            f"nothing is known of `{model.name}` on `{cut.product}`",
            hint=f"it was measured on {products}; add a measurement, or speeds of the fleet",
        )
    say(
        f"{model.name} in {cut}: {model.rate_rps:g} requests/s within "
        f"{format_duration(model.budget_ns)}"
    )
    if args.format == "json":
        import msgspec

        rows = [msgspec.to_builtins(point) for point in points]
        print_json({"model": model.name, "slice": str(cut), "rows": rows})
    else:
        _print_points(points)
    if args.plot is not None:
        _draw(args, model, points)
    return 0


def _model(args: argparse.Namespace, question: "SharingQuestion") -> "ModelDemand":
    for model in question.demand.models:
        if model.name == args.model:
            return model
    known = ", ".join(f"`{model.name}`" for model in question.demand.models)
    raise HeadwayError(f"`{args.file}` has no model `{args.model}`", hint=f"it has {known}")


def _cut(args: argparse.Namespace, question: "SharingQuestion") -> "Cut":
    from headway.plan import cut_of, mig_product, whole_cut

    devices = question.fleet.devices
    wanted = args.product or devices[0].product
    device = next((device for device in devices if device.product == wanted), None)
    if device is None:
        known = ", ".join(f"`{name}`" for name in dict.fromkeys(d.product for d in devices))
        raise HeadwayError(f"`{args.file}` has no `{wanted}`", hint=f"it has {known}")
    if args.slice is None:
        return whole_cut(device)
    return cut_of(device, mig_product(device.product).profile(args.slice))


def _print_points(points: "Sequence[BatchPoint]") -> None:
    print_table(
        ("rows", "takes", "rows/s", "gain", "memory", "keeps up to", "fills in", ""),
        [
            (
                point.rows,
                format_duration(point.batch_ns),
                f"{point.rows_per_s:.4g}",
                f"{point.gain:.2f}",
                format_bytes(point.memory_bytes) + ("" if point.fits else " (too much)"),
                f"{point.rate_max_rps:.4g}/s" if point.rate_max_rps > 0 else "nothing",
                format_duration(point.fill_ns),
                "best" if point.is_best else "",
            )
            for point in points
        ],
    )
    for words in dict.fromkeys(point.assumed for point in points if point.assumed):
        print(f"\nassumed: {words}")


def _draw(args: argparse.Namespace, model: "ModelDemand", points: "Sequence[BatchPoint]") -> None:
    from headway.report import CurveAxis, plot_curves

    rows = model.request_rows
    best = [point.rows for point in points if point.is_best]
    with drawing(args.plot):
        plot_curves(
            {
                "one batch after another": [(p.rows, p.rows_per_s / rows) for p in points],
                "while the objective is kept": [(p.rows, p.rate_max_rps) for p in points],
            },
            Path(args.plot),
            x=CurveAxis("rows of a batch", is_log=True),
            y=CurveAxis("requests a second"),
            title=f"{model.name}: what batches are worth",
            command=f"headway plan batching {shlex.quote(args.file)} --model {args.model}",
            marks={"best": float(best[0])} if best else {},
        )
