"""`headway profile` and `headway calibrate`, for real: workers, stressors, files."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.models import difference, identity
from tests.pool_driver import PYTHON_MODELS, open_loop_library

from headway.cli import calibrate, profile
from headway.cli.arguments import UsageError, VerbParser
from headway.config import cache_folder
from headway.core import Datatype
from headway.demo import missing_packages
from headway.devices import fingerprint
from headway.errors import ExecutorError, HeadwayError, LoadError
from headway.profiling import ProfileFile, read_profiles

pytestmark = pytest.mark.timeout(120)

QUICK = ["--seconds", "0.05", "--rows", "1,2"]
MODEL = """\
import time


class Sleepy:
    inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    outputs = [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}]

    def infer(self, batch):
        time.sleep(0.002)
        return {"y": batch["x"]}


class Picky(Sleepy):
    def infer(self, batch):
        if len(batch["x"]) > 1:
            raise ValueError("one row at a time")
        return {"y": batch["x"]}
"""


@pytest.fixture(scope="module", autouse=True)
def _loop_library() -> None:
    open_loop_library()


@pytest.fixture(autouse=True)
def _all_cores_afterwards() -> Iterator[None]:
    """A test may take cores away from this process."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def run(verb, *words: str) -> int:
    """Run a verb as its command line does."""
    parser = VerbParser("test", "", "")
    verb.add_arguments(parser)
    return verb.run(parser.parse_args(words))


def test_profile_of_an_onnx_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Times of every size, bytes, pressures and a file that this machine reads back."""
    model = identity(tmp_path / "tiny.onnx", Datatype.FP32, (-1, 256))
    output = tmp_path / "profiles.json"
    assert run(profile, model, *QUICK, "--output", str(output)) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("tiny on cpu:0: x [256]\nrows  median ms")
    assert "a row takes 1KiB in and 1KiB out" in printed.out
    assert "% of its core busy" in printed.out
    assert f"wrote {output}" in printed.err
    file = read_profiles(output, fingerprint()).file
    (found,) = file.profiles
    assert (found.model, found.device, found.bucket) == ("tiny", "cpu:0", "|x FP32 (256,)")
    assert [solo.rows for solo in found.solo] == [1, 2]
    assert all(solo.runs >= 5 and solo.p95_ns >= solo.median_ns for solo in found.solo)
    assert (found.transfer_in_bytes, found.transfer_out_bytes) == (1024, 1024)
    assert found.overhead_ns > 0
    assert file.probed[0].rows in {1, 2}
    assert {p.place for p in file.probed[0].probes} >= {"own_core", "own_core_idle"}


def test_profile_adds_to_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another shape is another profile; the same one is replaced; JSON is the file's own form."""
    model = identity(tmp_path / "tiny.onnx", Datatype.FP32, (-1, -1))
    output = tmp_path / "profiles.json"
    line = [model, *QUICK, "--no-probes", "--output", str(output), "--format", "json"]
    for size in ("4", "8", "8"):
        capsys.readouterr()
        assert run(profile, *line, "--shape", f"x={size}") == 0
    buckets = [p.bucket for p in read_profiles(output, fingerprint()).file.profiles]
    assert buckets == ["|x FP32 (4,)", "|x FP32 (8,)"]
    printed = json.loads(capsys.readouterr().out)
    assert [p["bucket"] for p in printed["profiles"]] == ["|x FP32 (8,)"]
    assert printed["format"] == "headway-profile"


def test_profile_of_a_model_of_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    """By its name alone, with the shapes of the demo's own requests."""
    if missing_packages(cache_folder(), ["minilm"]):
        pytest.skip("`headway demo` has not fetched its models here")
    assert run(profile, "minilm", "--rows", "1", "--seconds", "0.1", "--no-probes") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("minilm on cpu:0: input_ids [32], attention_mask [32]\n")
    assert "not probed" in printed


def test_profile_on_one_core(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no other core nothing is claimed of other lanes."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    model = identity(tmp_path / "tiny.onnx", Datatype.FP32, (-1, 4))
    assert run(profile, model, *QUICK) == 0
    assert "there is no other core" in capsys.readouterr().out


def test_profile_of_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All its models, with its shapes, no larger than its batches; sleep is no work."""
    (tmp_path / "models.py").write_text(MODEL)
    difference(tmp_path / "free.onnx", (-1, -1))
    (tmp_path / "serve.yaml").write_text(
        "models:\n"
        "- {name: sleepy, path: 'models.py:Sleepy', batch: {rows_max: 2}}\n"
        "- {name: free, path: free.onnx, batch: {rows_max: 1},"
        " warmup: {shapes: {x: [3], z: [3]}}}\n"
    )
    line = ["--config", str(tmp_path / "serve.yaml"), "--seconds", "0.1", "--format", "json"]
    assert run(profile, *line) == 0
    data = json.loads(capsys.readouterr().out)
    rows = {p["model"]: [s["rows"] for s in p["solo"]] for p in data["profiles"]}
    assert rows == {"sleepy": [1, 2], "free": [1]}
    sleepy, free = data["profiles"]
    assert sleepy["solo"][0]["median_ns"] >= 2_000_000
    assert sleepy["pressures"]["compute_demand"] < 0.9
    assert free["bucket"] == "|x FP32 (3,)|z FP32 (3,)"


def test_free_axis_without_a_shape(tmp_path: Path) -> None:
    """The input is named, with the flag to give."""
    model = identity(tmp_path / "free.onnx", Datatype.FP32, (-1, -1, 3))
    with pytest.raises(HeadwayError, match="input `x` of model `free` has free axes") as caught:
        run(profile, model, *QUICK)
    assert "--shape x=N,3" in (caught.value.hint or "")


def test_models_before_a_failing_one_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch that raises is an error with the model's own words; what was measured is written."""
    (tmp_path / "models.py").write_text(MODEL)
    good = identity(tmp_path / "tiny.onnx", Datatype.FP32, (-1, 4))
    output = tmp_path / "profiles.json"
    models = [good, f"{tmp_path / 'models.py'}:Picky"]
    with pytest.raises(ExecutorError, match="one row at a time"):
        run(profile, *models, *QUICK, "--no-probes", "--output", str(output))
    kept = read_profiles(output, fingerprint()).file
    assert [p.model for p in kept.profiles] == ["tiny"]


def test_model_that_does_not_load(tmp_path: Path) -> None:
    """As it is said by the back end."""
    with pytest.raises(LoadError, match="there is no model file"):
        run(profile, str(tmp_path / "none.onnx"))
    with pytest.raises(LoadError, match="has no class or function `Nobody`"):
        run(profile, f"{PYTHON_MODELS}:Nobody")


def test_file_of_other_hardware_is_not_touched(tmp_path: Path) -> None:
    """It is refused before anything is measured, unless it is to be replaced."""
    model = identity(tmp_path / "tiny.onnx", Datatype.FP32, (-1, 4))
    output = tmp_path / "profiles.json"
    text = json.dumps(
        {
            "format": "headway-profile",
            "version": 1,
            "fingerprint": {"cpu_model": "abacus"},
            "profiles": [],
        }
    )
    output.write_text(text)
    line = [model, *QUICK, "--no-probes", "--output", str(output)]
    with pytest.raises(HeadwayError, match="other hardware"):
        run(profile, *line)
    with pytest.raises(HeadwayError, match="other hardware"):
        run(calibrate, "--quick", "--output", str(output))
    assert output.read_text() == text
    assert run(profile, *line, "--force") == 0
    assert read_profiles(output, fingerprint()).file.profiles[0].model == "tiny"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give models"),
        (["a.onnx", "--config", "b.yaml"], "give models"),
        (["resnet"], "`resnet` is no model"),
        (["a.onnx", "--shape", "x"], "is not of the form"),
        (["a.onnx", "--shape", "x=a"], "is not of the form"),
        (["a.onnx", "--rows", "0"], "--rows"),
        (["a.onnx", "b.onnx", "--shape", "x=3"], "is for one model"),
    ],
)
def test_bad_usage(words: list[str], message: str) -> None:
    """A command line that makes no sense is said to make none, and measures nothing."""
    with pytest.raises(UsageError, match=message):
        run(profile, *words)


def test_calibrate_measures_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ceilings and copies are above nothing, printed, and kept beside the profiles of a file."""
    output = tmp_path / "machine.json"
    assert run(calibrate, "--quick", "--output", str(output)) == 0
    printed = capsys.readouterr()
    assert "compute GFLOP/s" in printed.out
    assert "host copies" in printed.out
    file: ProfileFile = read_profiles(output, fingerprint()).file
    calibration = file.calibration
    assert calibration is not None
    assert set(calibration.cores) == os.sched_getaffinity(0)
    for ceiling in (calibration.ceilings.one, calibration.ceilings.every):
        assert min(ceiling.flop_per_s, ceiling.bytes_per_s) > 0
    assert {rate.copies_count for rate in calibration.copies} >= {1, 2}
    assert all(rate.bytes_per_s > 0 for rate in calibration.copies)


def test_calibrate_keeps_the_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that profiles were written to gets its calibration added, and JSON is printed."""
    model = identity(tmp_path / "tiny.onnx", Datatype.FP32, (-1, 4))
    output = tmp_path / "profiles.json"
    assert run(profile, model, *QUICK, "--no-probes", "--output", str(output)) == 0
    capsys.readouterr()
    assert run(calibrate, "--quick", "--output", str(output), "--format", "json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["calibration"]["ceilings"]["one"]["flop_per_s"] > 0
    file = read_profiles(output, fingerprint()).file
    assert file.calibration is not None
    assert [p.model for p in file.profiles] == ["tiny"]
