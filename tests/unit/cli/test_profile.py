"""What `headway profile` and `headway calibrate` print, from figures that are given."""

from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from headway.cli import calibrate, profile
from headway.cli.verbs import main
from headway.config import Config
from headway.core import BucketKey, DeviceName, ModelName
from headway.devices import (
    CacheLevel,
    Calibration,
    Ceiling,
    Ceilings,
    CopyPath,
    CopyRate,
    Fingerprint,
    LoadKind,
)
from headway.predict import ModelProfile, Pressures, SoloTime
from headway.profiling import Measured, Place, Probe

MS = 1_000_000
MEASURED = Measured(
    profile=ModelProfile(
        model=ModelName("ocr"),
        device=DeviceName("cpu:0"),
        bucket=BucketKey("|x FP32 (3, 48, 320)"),
        solo=(
            SoloTime(rows=1, median_ns=20 * MS, p95_ns=21 * MS, runs=100),
            SoloTime(rows=4, median_ns=76 * MS, p95_ns=90 * MS, runs=26),
        ),
        transfer_in_bytes=184_320,
        transfer_out_bytes=640,
        memory_bytes=32 << 20,
        overhead_ns=200_000,
        pressures=Pressures(
            compute_demand=0.98,
            bandwidth_demand=0.125,
            compute_sensitivity=0.01,
            bandwidth_sensitivity=0.2,
        ),
        flop_per_row=2e9,
    ),
    shapes={"x": (3, 48, 320)},
    probes=(
        Probe(
            kind=LoadKind.COMPUTE,
            place=Place.OWN_CORE,
            strength_ratio=1.0,
            model_factor=2.01,
            stressor_factor=0.5,
            busy_ratio=1.0,
        ),
        Probe(
            kind=LoadKind.STREAM,
            place=Place.OTHER_CORES,
            strength_ratio=1.0,
            model_factor=1.2,
            stressor_factor=0.875,
            busy_ratio=1.0,
        ),
    ),
    probe_rows=1,
    doubts_ratio=(0.005, 0.012),
)


def printed(measured: Measured, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """Lines of stdout, and stderr."""
    profile._print(measured, is_first=True)
    captured = capsys.readouterr()
    return captured.out.splitlines(), captured.err


def test_profile_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Times by batch size with their doubt, then bytes, memory and pressures in words."""
    lines, words = printed(MEASURED, capsys)
    assert lines == [
        "ocr on cpu:0: x [3, 48, 320]",
        "rows  median ms  ±      p95 ms  runs  ms per row",
        "1     20         0.5 %  21      100   20",
        "4     76         1.2 %  90      26    19",
        "a row takes 180KiB in and 640B out; the way to the worker and back 0.2 ms; "
        "the model 32MiB of memory",
        "2 GFLOP a row, 100 GFLOP/s as measured",
        "beside others, with batches of 1 row:",
        "  it keeps 98 % of its core busy, "
        "and takes 2.01 times as long where another computes on that core",
        "  it slows a neighbour's streaming on other cores by 12.5 %",
        "  all other cores slow it by 1.0 % while they compute "
        "and by 20.0 % while they stream memory",
    ]
    assert words == ""


def test_profile_without_probes_claims_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Pressures that were not measured are not printed as if they were."""
    lines, _ = printed(replace(MEASURED, probes=()), capsys)
    assert lines[-1].startswith("not probed: ")
    assert not any("%" in line for line in lines[4:])


def test_profile_on_one_core_claims_nothing_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    """With the probes of its own core only."""
    lines, _ = printed(replace(MEASURED, probes=MEASURED.probes[:1]), capsys)
    assert lines[-1] == "  there is no other core, so nothing is known of other lanes"


def test_profile_warns_of_what_makes_it_unsure(capsys: pytest.CaptureFixture[str]) -> None:
    """Other programs on the core, and medians that are not known well."""
    _, words = printed(replace(MEASURED, waited_ratio=0.3, doubts_ratio=(0.01, 0.2)), capsys)
    first, second = words.splitlines()
    assert first.startswith("warning: other programs had the model's core for 30 % of the time")
    assert second.startswith("warning: the median is not known within 5 % for rows 4:")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("x=3,48,320", ("x", (3, 48, 320))), ("input:0=4", ("input:0", (4,))), ("sr=", ("sr", ()))],
)
def test_shapes_are_read(text: str, wanted: tuple[str, tuple[int, ...]]) -> None:
    """Names may hold a colon, and a single number has no axes."""
    assert profile._shape(text) == wanted


def test_rows_are_read_in_order() -> None:
    """Each size once, ascending."""
    assert profile._rows("8,1,4,1") == (1, 4, 8)


CEILING = Ceiling(cores_count=1, flop_per_s=98.2e9, bytes_per_s=19.6e9)
HERE = Fingerprint(
    cpu_model="a cpu",
    cores_count=2,
    cores_quota=1.5,
    caches=(
        CacheLevel(level=1, kind="data", size_bytes=32 << 10, cores_count=1),
        CacheLevel(level=3, kind="unified", size_bytes=32 << 20, cores_count=2),
    ),
    memory_bytes=8 << 30,
    system="Linux 6.1",
    libraries={"numpy": "2.0"},
)


def a_rate(gigabytes: float, **fields: object) -> CopyRate:
    """One line of a copy table."""
    values = {"path": CopyPath.HOST, "size_bytes": 4096, "copies_count": 1, **fields}
    return CopyRate(bytes_per_s=gigabytes * 1e9, **values)


def test_calibration_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """The machine, its ceilings, and a table of copies for each path and kind of memory."""
    every = replace(CEILING, cores_count=2, flop_per_s=190e9, bytes_per_s=38e9)
    to_device = {"path": CopyPath.TO_DEVICE, "device": "cuda:0"}
    calibration = Calibration(
        cores=(0, 1),
        ceilings=Ceilings(one=CEILING, every=every, array_bytes=1 << 26),
        copies=(
            a_rate(10),
            a_rate(20, copies_count=2),
            a_rate(40, size_bytes=1 << 20),
            a_rate(80, size_bytes=1 << 20, copies_count=2),
            a_rate(25, is_pinned=True, **to_device),
            a_rate(5, **to_device),
        ),
    )
    calibrate._print(calibration, HERE)
    lines = capsys.readouterr().out.splitlines()
    assert "usable cores      2, of which a quota of 1.5" in lines
    assert "caches            L1d 32KiB, L3 32MiB for 2 cores" in lines
    start = lines.index("cores at work  compute GFLOP/s  memory GB/s  ridge FLOP/B")
    assert lines[start + 1 :] == [
        "1              98.2             19.6         5.0",
        "2              190.0            38.0         5.0",
        "",
        "host copies  1 at once GB/s  2 at once GB/s",
        "4KiB         10.00           20.00",
        "1MiB         40.00           80.00",
        "",
        "cuda:0 to_device, pinned  1 at once GB/s",
        "4KiB                      25.00",
        "",
        "cuda:0 to_device, pageable  1 at once GB/s",
        "4KiB                        5.00",
    ]


def test_calibration_of_one_core(capsys: pytest.CaptureFixture[str]) -> None:
    """One line of ceilings where one core is all there is."""
    calibration = Calibration(
        cores=(0,), ceilings=Ceilings(one=CEILING, every=CEILING, array_bytes=1 << 26)
    )
    calibrate._print(calibration, replace(HERE, cores_count=1))
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("1  ")]) == 1


@pytest.mark.parametrize("name", ["profiles.json", "of two, [old] # and new.json", "é.json"])
def test_a_written_file_says_how_it_is_used(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The line is one that a configuration takes, whatever the file is called."""
    profile.say_written(Path("runs") / name)
    wrote, use = capsys.readouterr().err.splitlines()
    assert wrote == f"wrote runs/{name}"
    config = Config.model_validate(yaml.safe_load(use.partition("use it: ")[2]))
    assert (config.predictor.kind, config.predictor.profiles) == ("headway", (f"runs/{name}",))


@pytest.mark.parametrize(
    ("verb", "others"),
    [
        ("profile", ["profile explain", "calibrate"]),
        ("profile explain", ["profile", "calibrate"]),
        ("calibrate", ["profile", "profile explain"]),
    ],
)
def test_verbs_that_measure_name_each_other(
    verb: str, others: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever finds one in its help finds all three."""
    assert main([*verb.split(), "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert all(f"`headway {other}" in words for other in others)
