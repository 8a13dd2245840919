"""`headway calibrate`: measure what this machine's cores, memory and links reach."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import print_json, print_note, print_table, progress_bar
from headway.cli.profile import say_written
from headway.units import format_bytes

if TYPE_CHECKING:
    from headway.devices import Calibration, CopyRate, Effort, Fingerprint

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway calibrate --quick"

_PRESENCE_RATIO_MIN: Final = 0.9


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.description = (
        f"{parser.description} `headway profile` measures models, and may add to the same file; "
        "`headway profile explain` holds a model against these ceilings."
    )
    parser.add_argument(
        "--quick", action="store_true", help="a glance at each figure instead of five"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write a profile file, or renew an old one's calibration"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace the file, whatever it is and holds"
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, print, and keep if asked to."""
    from headway.devices import QUICK, THOROUGH, fingerprint
    from headway.profiling import ProfileFile, merged, read_profiles, write_profiles

    here = fingerprint()
    path = Path(args.output) if args.output else None
    old = None
    if path is not None and path.exists() and not args.force:
        old = read_profiles(path, here).file
    calibration = _calibrated(QUICK if args.quick else THOROUGH)
    new = ProfileFile.of(here, calibration=calibration)
    if path is not None:
        write_profiles(path, new if old is None else merged(old, new))
        say_written(path)
    if args.format == "json":
        from msgspec import to_builtins

        print_json(to_builtins(new))
    else:
        _print(calibration, here)
    if calibration.ceilings.presence_ratio < _PRESENCE_RATIO_MIN:
        print_note(
            "warning",
            "other programs had the cores for "
            f"{100 * (1 - calibration.ceilings.presence_ratio):.0f} % of the time: compute and "
            "copies are of the rest, but memory was shared with them",
        )
    return 0


def _calibrated(effort: "Effort") -> "Calibration":
    from headway.devices import calibrate, open_cuda

    with progress_bar("steps") as bar:
        task = bar.add_task("calibrating", total=None, words="")

        def show(done: int, total: int) -> None:
            bar.update(task, total=total, completed=done)
            bar.refresh()

        return calibrate(effort, cuda=open_cuda(), on_step=show)


def _print(calibration: "Calibration", here: "Fingerprint") -> None:
    print_table(("machine", ""), _machine(here))
    print()
    ceilings = calibration.ceilings
    columns = ("cores at work", "compute GFLOP/s", "memory GB/s", "ridge FLOP/B")
    tops = [ceilings.one] if ceilings.every.cores_count == 1 else [ceilings.one, ceilings.every]
    print_table(
        columns,
        [
            (
                top.cores_count,
                f"{top.flop_per_s / 1e9:.1f}",
                f"{top.bytes_per_s / 1e9:.1f}",
                f"{top.flop_per_s / top.bytes_per_s:.1f}" if top.bytes_per_s else None,
            )
            for top in tops
        ],
    )
    for title, rates in _tables(calibration.copies):
        print()
        counts = sorted({rate.copies_count for rate in rates})
        print_table(
            (title, *(f"{count} at once GB/s" for count in counts)), _copy_rows(rates, counts)
        )


def _machine(here: "Fingerprint") -> list[tuple[str, object]]:
    caches = ", ".join(
        f"L{cache.level}{cache.kind[:1] if cache.level == 1 else ''} "
        f"{format_bytes(cache.size_bytes)}"
        + (f" for {cache.cores_count} cores" if cache.cores_count > 1 else "")
        for cache in here.caches
    )
    quota = f", of which a quota of {here.cores_quota:g}" if here.cores_quota else ""
    return [
        ("processor", here.cpu_model),
        ("usable cores", f"{here.cores_count}{quota}"),
        ("threads per core", here.threads_per_core),
        ("caches", caches or None),
        ("memory", f"{format_bytes(here.memory_bytes)}, {here.numa_nodes} NUMA node(s)"),
        ("system", here.system),
        *sorted(here.libraries.items()),
    ]


def _tables(copies: "Iterable[CopyRate]") -> "Iterable[tuple[str, list[CopyRate]]]":
    """One for each path, kind of memory and device, in the order in which they were measured."""
    found: dict[str, list[CopyRate]] = {}
    for rate in copies:
        memory = "pinned" if rate.is_pinned else "pageable"
        title = "host copies" if not rate.device else f"{rate.device} {rate.path}, {memory}"
        found.setdefault(title, []).append(rate)
    return found.items()


def _copy_rows(rates: "list[CopyRate]", counts: list[int]) -> list[list[object]]:
    by_place = {(rate.size_bytes, rate.copies_count): rate.bytes_per_s for rate in rates}
    return [
        [format_bytes(size), *(f"{by_place[size, count] / 1e9:.2f}" for count in counts)]
        for size in sorted({rate.size_bytes for rate in rates})
    ]
