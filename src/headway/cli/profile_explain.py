"""`headway profile explain`: compute- or memory-bound on this device, and why."""

import argparse
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from headway.cli.arguments import UsageError, VerbParser, add_format, positive
from headway.cli.output import drawing, print_json, print_note, print_rich, say
from headway.errors import HeadwayError
from headway.units import NS_PER_MS, format_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from headway.devices import Ceiling, Ceilings
    from headway.profiling import (
        Explanation,
        GraphCost,
        NsightProfile,
        ProfileFile,
        Roof,
        SoloRun,
    )

__all__ = ["EXAMPLE", "SUMMARY", "add_arguments", "run"]

SUMMARY = "Say whether arithmetic or memory limits a model on this device, and why."
EXAMPLE = "headway profile explain model.onnx --rows 4 --plot roofline.png"

_WINDOWS: Final = 3
_WINDOW_NS: Final = 60 * NS_PER_MS
_GIGA: Final = 1e9
_NAME_CHARS_MAX: Final = 40


Shapes = Mapping[str, tuple[int, ...]]


class _Device(NamedTuple):
    roofs: "Mapping[str, Roof]"
    """By name; the first is the one that counts."""
    source: str
    cache_bytes: int
    """Of the last level; 0 where it is not this machine's."""


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.description = (
        f"{parser.description} `headway profile` measures the times that --profile reads, "
        "`headway calibrate` the ceilings that --calibration reads."
    )
    parser.add_argument("model", metavar="MODEL", help="an .onnx file, or a model of the demo")
    parser.add_argument(
        "--rows", type=positive(int), default=1, metavar="N", help="rows of the batch (1)"
    )
    parser.add_argument(
        "--shape",
        type=_shape,
        action="append",
        default=[],
        metavar="INPUT=SIZES",
        help="of one row, where the graph leaves it open, such as x=3,224,224; may be repeated",
    )
    parser.add_argument(
        "--calibration",
        metavar="FILE",
        help="take the ceilings from there (`headway calibrate`) instead of measuring them now",
    )
    parser.add_argument(
        "--ceilings",
        type=_ceilings,
        metavar="GFLOPS,GBS",
        help="take these ceilings, such as an accelerator's 19500,1555",
    )
    parser.add_argument(
        "--cores",
        choices=("one", "all"),
        default="one",
        help="what a run gets of the processor (one, as served by default)",
    )
    parser.add_argument("--profile", metavar="FILE", help="measured times (`headway profile`)")
    parser.add_argument("--ncu", metavar="FILE", help="counters: CSV of Nsight Compute")
    parser.add_argument("--nsys", metavar="FILE", help="times: CSV or SQLite of Nsight Systems")
    parser.add_argument(
        "--runs", type=positive(int), default=1, metavar="N", help="runs that those hold (1)"
    )
    parser.add_argument("--force", action="store_true", help="use files of other hardware too")
    parser.add_argument(
        "--top", type=positive(int), default=10, metavar="N", help="lines of nodes (10)"
    )
    parser.add_argument("--plot", metavar="PNG", help="draw the roofline")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Count, place, print and draw."""
    # Here, for else `--help` would pay for arrays and executors.
    from headway.profiling import count_graph, explain

    path, shapes = _target(args.model)
    cost = count_graph(path, rows=args.rows, shapes={**shapes, **dict(args.shape)})
    measured = _read(args.profile, args) if args.profile else None
    device = _device(args, measured)
    found = explain(
        cost,
        next(iter(device.roofs.values())),
        cache_bytes=device.cache_bytes,
        profiles=list(_profiles(args)),
        runs=args.runs,
        solo=None if measured is None else _solo(args, measured, cost),
    )
    if args.format == "json":
        print_json(_plain(args, cost, found, device))
    else:
        _print_words(args, found, device)
    if args.plot is not None:
        _plot(args, cost, found, device)
    return 0


# --- what is given --------------------------------------------------------------------------------


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(","))
    except ValueError:
        shape = ()
    if not name or not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not INPUT=SIZES, such as x=3,224,224")
    return name, shape


def _ceilings(text: str) -> "Roof":
    from headway.profiling import Roof

    try:
        gflops, gigabytes = (float(number) for number in text.split(","))
        return Roof(flop_per_s=gflops * _GIGA, bytes_per_s=gigabytes * _GIGA)
    except ValueError:
        words = f"`{text}` is not GFLOPS,GBS, two numbers above 0 such as 19500,1555"
        raise argparse.ArgumentTypeError(words) from None


def _target(model: str) -> "tuple[Path, Shapes]":
    """A file, or a model of the demo with the shapes of one of its own requests."""
    path = Path(model)
    if path.exists() or path.suffix:
        return path, {}
    from headway.config import cache_folder
    from headway.demo import CATALOGUE, DemoAssets, fetch_models, row_shapes_of

    names = [each.name for each in CATALOGUE]
    if model not in names:
        hint = f"give an .onnx file, or one of {', '.join(f'`{name}`' for name in names)}"
        raise UsageError(f"`{model}` is neither a file nor a model of the demo", hint=hint)
    cache = cache_folder()
    path = fetch_models(cache, models=[model])[model]
    # The same request as `headway profile` measures, so that its profile fits.
    return path, row_shapes_of(DemoAssets(cache), model)


def _read(file: str, args: argparse.Namespace) -> "ProfileFile":
    from headway.devices import fingerprint
    from headway.profiling import read_profiles

    read = read_profiles(Path(file), fingerprint(), is_forced=args.force)
    for doubt in read.doubts:
        print_note("warning", f"`{file}`: {doubt}")
    return read.file


def _profiles(args: argparse.Namespace) -> "Iterator[NsightProfile]":
    """The tracer's last: it times kernels as they run, the counter's replays do not."""
    from headway.profiling import read_ncu, read_nsys

    if args.ncu:
        yield read_ncu(Path(args.ncu))
    if args.nsys:
        yield read_nsys(Path(args.nsys))
    if (args.ncu or args.nsys) and not args.ceilings:
        note = "the ceilings are this processor's, but the profile is a GPU's; give --ceilings"
        print_note("warning", note)


def _solo(args: argparse.Namespace, file: "ProfileFile", cost: "GraphCost") -> "SoloRun":
    """The time at this many rows and with these shapes."""
    from headway.predict import Profile
    from headway.profiling import SoloRun

    wanted = Path(args.model).stem
    named = [p for p in file.profiles if p.solo and p.model in (wanted, args.model)]
    rows = {name: str(shape[1:]) for name, shape in cost.input_shapes.items()}
    fitting = [
        profile
        for profile in named
        if not profile.bucket
        or all(f"{n} " in profile.bucket and s in profile.bucket for n, s in rows.items())
    ]
    if not fitting:
        lacks = "with these shapes" if named else "of this model"
        raise HeadwayError(
            f"`{args.profile}` has no times {lacks}",
            hint=f"it has {', '.join(f'`{p.model}` {p.bucket}' for p in file.profiles) or 'none'}",
        )
    times = {solo.rows: solo.median_ns for solo in fitting[0].solo}
    return SoloRun(file=Path(args.profile).name, time_ns=Profile(times).service_ns(cost.rows))


# --- the device -----------------------------------------------------------------------------------


def _device(args: argparse.Namespace, measured: "ProfileFile | None") -> _Device:
    if args.ceilings is not None:
        return _Device({"given": args.ceilings}, "given", 0)
    from headway.devices import fingerprint, llc_bytes

    calibrated = _read(args.calibration, args) if args.calibration else measured
    cache_bytes = llc_bytes(calibrated.fingerprint if calibrated else fingerprint())
    if calibrated is not None and calibrated.calibration is not None:
        source = args.calibration or args.profile
        return _Device(_roofs(args.cores, calibrated.calibration.ceilings), source, cache_bytes)
    if args.calibration:
        raise HeadwayError(
            f"`{args.calibration}` holds no calibration",
            hint="make one with `headway calibrate --output FILE`",
        )
    return _Device(_roofs(args.cores, _measure()), "measured now", cache_bytes)


def _measure() -> "Ceilings":
    from headway.devices import (
        available_bytes,
        fingerprint,
        measure_ceilings,
        stream_bytes,
        usable_cores,
    )

    say("measuring this machine's ceilings; `headway calibrate` does it better, and once")
    cores = usable_cores()
    room_bytes = available_bytes()
    return measure_ceilings(
        cores,
        array_bytes=stream_bytes(fingerprint(), available_bytes=room_bytes, cores_count=len(cores)),
        windows=_WINDOWS,
        window_ns=_WINDOW_NS,
    )


def _roofs(cores: str, ceilings: "Ceilings") -> "Mapping[str, Roof]":
    from headway.profiling import Roof

    def roof(ceiling: "Ceiling") -> Roof:
        return Roof(flop_per_s=ceiling.flop_per_s, bytes_per_s=ceiling.bytes_per_s)

    one = {"one core": roof(ceilings.one)}
    if ceilings.every.cores_count == 1:
        return one
    every = {f"all {ceilings.every.cores_count} cores": roof(ceilings.every)}
    return {**one, **every} if cores == "one" else {**every, **one}


# --- what is printed ------------------------------------------------------------------------------


def _print_words(args: argparse.Namespace, found: "Explanation", device: _Device) -> None:
    import textwrap

    verdicts = {
        "compute": "compute-bound on this device",
        "memory": "memory-bound on this device",
        "either": "compute-bound on this device where its nodes are fused, memory-bound where not",
    }
    roof, name = found.roof, next(iter(device.roofs))
    print(f"{args.model}: {verdicts[found.limit]}")
    print(
        f"  {name}: {_short(roof.flop_per_s / _GIGA)} GFLOP/s, "
        f"{_short(roof.bytes_per_s / _GIGA)} GB/s ({device.source})"
    )
    print()
    for reason in found.reasons:
        print(textwrap.fill(reason, width=100, initial_indent="- ", subsequent_indent="  "))
    print()
    print_rich(_node_table(found, args.top), can_drop_columns=True)


def _node_table(found: "Explanation", shown: int) -> "Table":
    from rich.table import Table

    shares = found.nodes[:shown]
    listed, count = (sum(share.count for share in some) for some in (shares, found.nodes))
    title = (
        f"{listed} of {count} nodes, the costliest by their time under the roof; amounts of each"
    )
    table = Table(title=title, title_justify="left")
    for name in ("operator", "output"):
        table.add_column(name)
    for name in ("nodes", "time", "MFLOP", "moved", "FLOP/B"):
        table.add_column(name, justify="right")
    for name in ("limit", "type", "first node"):
        table.add_column(name)
    for share in shares:
        node = share.node
        is_long = len(node.name) > _NAME_CHARS_MAX
        table.add_row(
            node.kind,
            "x".join(map(str, node.output_shape)),
            str(share.count),
            f"{share.time_ratio:.1%}",
            _short(node.flop / 1e6),
            format_bytes(node.traffic_bytes),
            _short(share.intensity_flop_per_byte),
            share.limit,
            node.datatype,
            f"…{node.name[1 - _NAME_CHARS_MAX :]}" if is_long else node.name,
        )
    return table


def _plain(
    args: argparse.Namespace, cost: "GraphCost", found: "Explanation", device: _Device
) -> dict[str, object]:
    from msgspec import to_builtins

    roof, bounds = found.roof, found.bounds
    return {
        "model": args.model,
        "rows": cost.rows,
        "input_shapes": {name: list(shape) for name, shape in cost.input_shapes.items()},
        "limit": found.limit,
        "reasons": list(found.reasons),
        "flop": cost.flop,
        "mac_count": cost.mac_count,
        "bytes_fused": cost.bytes_fused,
        "bytes_unfused": cost.bytes_unfused,
        "weight_bytes": cost.weight_bytes,
        "flop_per_row": cost.flop / cost.rows,
        "intensity_fused": _finite(bounds.intensity_high),
        "intensity_unfused": _finite(bounds.intensity_low),
        "attainable_fused_flop_per_s": bounds.attainable_high_flop_per_s,
        "attainable_unfused_flop_per_s": bounds.attainable_low_flop_per_s,
        "ceilings": {
            "name": next(iter(device.roofs)),
            "source": device.source,
            "flop_per_s": roof.flop_per_s,
            "bytes_per_s": roof.bytes_per_s,
            "ridge_flop_per_byte": roof.ridge_flop_per_byte,
        },
        "estimate": to_builtins(found.estimate),
        "measured": to_builtins(found.measured),
        "unknown_kinds": cost.unknown_kinds,
        "assumptions": list(cost.assumptions),
        "nodes": [
            {
                **to_builtins(share.node),
                "count": share.count,
                "intensity": _finite(share.intensity_flop_per_byte),
                "limit": share.limit,
                "time_ratio": share.time_ratio,
            }
            for share in found.nodes[: args.top]
        ],
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if value < float("inf") else None


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def _plot(
    args: argparse.Namespace, cost: "GraphCost", found: "Explanation", device: _Device
) -> None:
    from headway.report import MeasuredWork, plot_roofline

    measured = None
    if found.measured is not None and found.measured.flop_per_s is not None:
        measured = MeasuredWork(
            "measured", found.measured.flop_per_s, found.measured.intensity_flop_per_byte
        )
    shapes = ", ".join(f"{n} {'x'.join(map(str, s))}" for n, s in cost.input_shapes.items())
    with drawing(args.plot):
        plot_roofline(
            device.roofs,
            Path(args.model).stem,
            found.bounds,
            Path(args.plot),
            title=f"{Path(args.model).stem} under the roof",
            subtitle=f"batch of {cost.rows}: {shapes}; ceilings {device.source}",
            command=_command(args),
            measured=measured,
        )


def _command(args: argparse.Namespace) -> str:
    """What drew the picture, for its footer."""
    words = ["headway", "profile", "explain", args.model, "--rows", str(args.rows)]
    for name, shape in args.shape:
        words += ["--shape", f"{name}={','.join(map(str, shape))}"]
    if args.ceilings is not None:
        ceilings = (args.ceilings.flop_per_s / _GIGA, args.ceilings.bytes_per_s / _GIGA)
        words += ["--ceilings", ",".join(f"{number:g}" for number in ceilings)]
    for option in ("calibration", "profile", "ncu", "nsys"):
        if getattr(args, option):
            words += [f"--{option}", getattr(args, option)]
    if args.runs != 1:
        words += ["--runs", str(args.runs)]
    if args.cores != "one":
        words += ["--cores", args.cores]
    return shlex.join([*words, "--plot", args.plot])
