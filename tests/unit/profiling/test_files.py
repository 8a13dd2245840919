"""The profile file: round trip, whose it is, and what is refused."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headway.core import BucketKey, DeviceName, ModelName
from headway.devices import (
    Calibration,
    Ceiling,
    Ceilings,
    CopyPath,
    CopyRate,
    Fingerprint,
    LoadKind,
)
from headway.errors import HeadwayError
from headway.predict import ModelProfile, Pressures, SoloTime
from headway.profiling import (
    Measured,
    Place,
    Probe,
    Probed,
    ProfileFile,
    merged,
    read_profiles,
    write_profiles,
)

HERE = Fingerprint(cpu_model="a cpu", cores_count=2, libraries={"onnxruntime": "1.32.0"})
CEILING = Ceiling(cores_count=1, flop_per_s=1e11, bytes_per_s=2e10)
CALIBRATION = Calibration(
    cores=(0, 1),
    ceilings=Ceilings(one=CEILING, every=replace(CEILING, cores_count=2), array_bytes=1 << 26),
    copies=(
        CopyRate(path=CopyPath.HOST, size_bytes=4096, copies_count=1, bytes_per_s=1e9),
        CopyRate(
            path=CopyPath.TO_DEVICE,
            device="cuda:0",
            is_pinned=True,
            size_bytes=4096,
            copies_count=2,
            bytes_per_s=2e9,
        ),
    ),
)
PROBE = Probe(
    kind=LoadKind.STREAM,
    place=Place.OTHER_CORES,
    strength_ratio=1.0,
    model_factor=1.1,
    stressor_factor=0.9,
    busy_ratio=0.8,
)


def a_profile(model: str = "m", bucket: str = "|x FP32 (4,)", median_ns: int = 100) -> ModelProfile:
    """A whole one."""
    return ModelProfile(
        model=ModelName(model),
        device=DeviceName("cpu:0"),
        bucket=BucketKey(bucket),
        solo=(
            SoloTime(rows=1, median_ns=median_ns, p95_ns=2 * median_ns, runs=20),
            SoloTime(rows=4, median_ns=3 * median_ns, p95_ns=4 * median_ns, runs=20),
        ),
        pressures=Pressures(bandwidth_demand=0.2),
    )


def a_file(*profiles: ModelProfile) -> ProfileFile:
    """What `headway profile` writes."""
    measured = [Measured(profile=p, probes=(PROBE,), probe_rows=4) for p in profiles]
    return ProfileFile.of(HERE, measured, CALIBRATION)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with one profile."""
    path = tmp_path / "profiles.json"
    write_profiles(path, a_file(a_profile()))
    return path


def test_file_comes_back_as_it_was_written(path: Path) -> None:
    """All of it, and without a doubt on the same machine."""
    read = read_profiles(path, HERE)
    assert read.file == a_file(a_profile())
    assert read.doubts == ()
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_file_names_its_format_and_version(path: Path) -> None:
    """Programs that meet it can tell what it is."""
    data = json.loads(path.read_text())
    assert (data["format"], data["version"]) == ("headway-profile", 1)
    assert data["profiles"][0]["bucket"] == "|x FP32 (4,)"


def test_other_hardware_is_refused_with_a_hint(path: Path) -> None:
    """What differs is named, and what to do about it."""
    with pytest.raises(HeadwayError) as caught:
        read_profiles(path, replace(HERE, cpu_model="another", cores_count=8))
    assert "other hardware" in caught.value.message
    assert "processor: `a cpu` there, `another` here" in caught.value.message
    assert "usable cores: `2` there, `8` here" in caught.value.message
    assert caught.value.hint is not None
    assert "headway profile" in caught.value.hint
    assert "--force" in caught.value.hint


def test_other_hardware_can_be_forced(path: Path) -> None:
    """Then what differs comes back as doubts."""
    read = read_profiles(path, replace(HERE, cpu_model="another"), is_forced=True)
    assert read.doubts == ("processor: `a cpu` there, `another` here",)


def test_other_software_is_a_doubt(path: Path) -> None:
    """A newer back end on the same hardware does not make a file useless."""
    read = read_profiles(path, replace(HERE, libraries={"onnxruntime": "2.0"}))
    assert read.doubts == ("onnxruntime: `1.32.0` there, `2.0` here",)


def altered(path: Path, **changes: object) -> None:
    """Write a file with some of its top keys changed."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("version", [2, 0, "1", None, 1.5, True])
def test_unknown_version_is_refused(path: Path, version: object) -> None:
    """A file of another version is not guessed at."""
    altered(path, version=version)
    with pytest.raises(HeadwayError, match="has version") as caught:
        read_profiles(path, HERE)
    assert caught.value.hint == "measure again, or use the headway that made it"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "models: []", '{"format": "x"}'])
def test_foreign_file_is_refused(path: Path, text: str) -> None:
    """What is no profile file is said to be none."""
    path.write_text(text)
    with pytest.raises(HeadwayError, match="is not a profile file"):
        read_profiles(path, HERE)


def test_absent_file_is_refused(path: Path) -> None:
    """With the way to make one."""
    with pytest.raises(HeadwayError, match="cannot read"):
        read_profiles(path.with_name("none.json"), HERE)


def test_unwritable_place_is_refused(path: Path) -> None:
    """Not a traceback, and nothing is left behind."""
    with pytest.raises(HeadwayError, match="cannot write"):
        write_profiles(path / "below-a-file.json", a_file())


def damaged(path: Path, **fields: object) -> None:
    """Change fields of the only profile."""
    data = json.loads(path.read_text())
    data["profiles"][0].update(fields)
    path.write_text(json.dumps(data))


SOLO = {"rows": 1, "median_ns": 5, "p95_ns": 5, "runs": 5}


@pytest.mark.parametrize(
    "fields",
    [
        {"solo": [{**SOLO, "median_ns": 0}]},
        {"solo": [{**SOLO, "median_ns": 9}]},
        {"solo": [{**SOLO, "rows": 0}]},
        {"solo": [SOLO, SOLO]},
        {"solo": [{**SOLO, "rows": 2}, SOLO]},
        {"solo": [{**SOLO, "runs": 0}]},
        {"memory_bytes": -1},
        {"flop_per_row": -0.5},
        {"pressures": {"bandwidth_demand": -1}},
        {"pressures": {"compute_demand": 1.5}},
        {"model": 3},
        {"solo": "none"},
    ],
)
def test_numbers_that_mean_nothing_are_refused(path: Path, fields: dict[str, object]) -> None:
    """Times of nothing, sizes that do not ascend, negative bytes."""
    damaged(path, **fields)
    with pytest.raises(HeadwayError, match="damaged profile file"):
        read_profiles(path, HERE)


def test_profile_that_is_there_twice_is_refused(path: Path) -> None:
    """Nobody could say which of two holds."""
    data = json.loads(path.read_text())
    altered(path, profiles=data["profiles"] * 2)
    with pytest.raises(HeadwayError, match="is there twice"):
        read_profiles(path, HERE)


@given(data=st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_broken_files_are_read_or_refused(path: Path, data: st.DataObject) -> None:
    """Bytes cut out, put in or changed anywhere: the file is read, or HeadwayError says why not."""
    text = bytearray(msgspec.json.encode(a_file(a_profile())))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 40)))
        put = data.draw(st.sampled_from([b"", b"1e999", b"-1", b"9" * 400, b"null", b"\xff", b"{"]))
        text[start:stop] = put
    path.write_bytes(text)
    try:
        read = read_profiles(path, HERE)
    except HeadwayError:
        return
    assert all(solo.median_ns >= 1 for p in read.file.profiles for solo in p.solo)


@given(st.binary(max_size=300))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused_politely(path: Path, text: bytes) -> None:
    """No bytes make anything but HeadwayError."""
    path.write_bytes(text)
    with pytest.raises(HeadwayError):
        read_profiles(path, HERE)


def test_merging_keeps_what_was_not_measured_anew() -> None:
    """The same model, device and bucket is replaced; another shape of the model stays."""
    old = a_file(a_profile(), a_profile(bucket="|x FP32 (8,)"), a_profile("n"))
    new = ProfileFile.of(HERE, [Measured(profile=a_profile(median_ns=7))])
    both = merged(old, new)
    assert [(p.model, p.bucket, p.solo[0].median_ns) for p in both.profiles] == [
        ("m", "|x FP32 (4,)", 7),
        ("m", "|x FP32 (8,)", 100),
        ("n", "|x FP32 (4,)", 100),
    ]
    assert [(p.model, p.bucket) for p in both.probed] == [
        ("m", "|x FP32 (8,)"),
        ("n", "|x FP32 (4,)"),
    ]
    assert both.calibration == CALIBRATION


def test_merging_a_calibration_keeps_the_profiles() -> None:
    """`headway calibrate` renews its part only."""
    renewed = replace(CALIBRATION, cores=(1,))
    both = merged(a_file(a_profile()), ProfileFile.of(HERE, calibration=renewed))
    assert both.calibration == renewed
    assert both.profiles == (a_profile(),)
    assert isinstance(both.probed[0], Probed)
