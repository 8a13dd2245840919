"""`headway profile explain`: a verdict in words, in JSON and as a picture."""

import json
from pathlib import Path

import msgspec
import pytest
from tests.unit.profiling.graphs import INT64, tensor, weight, write_graph

from headway.cli import profile_explain
from headway.cli.arguments import UsageError, VerbParser
from headway.core import BucketKey, DeviceName, ModelName
from headway.devices import Calibration, Ceiling, Ceilings, fingerprint
from headway.errors import ConfigError, HeadwayError
from headway.predict import ModelProfile, SoloTime
from headway.profiling import ProfileFile, write_profiles

node = pytest.importorskip("onnx").helper.make_node
FIXTURES = Path(__file__).parent.parent / "profiling" / "fixtures"


def explain(*words: str) -> int:
    """As the verb `profile` calls it."""
    parser = VerbParser("profile explain", profile_explain.SUMMARY, profile_explain.EXAMPLE)
    profile_explain.add_arguments(parser)
    return profile_explain.run(parser.parse_args(list(words)))


@pytest.fixture
def product(tmp_path: Path) -> str:
    """256 in, 128 out: 65,536 FLOP and 132,608 bytes for a row, 131,072 of them weights."""
    return str(
        write_graph(
            tmp_path / "product.onnx",
            [node("MatMul", ["x", "w"], ["y"], name="only")],
            [tensor("x", "n", 256)],
            weights=[weight("w", 256, 128)],
        )
    )


def calibration(path: Path, flop_per_s: float, bytes_per_s: float) -> str:
    """A file whose two cores do twice what one does; with a profile of `product`."""
    one, every = (
        Ceiling(cores_count=n, flop_per_s=n * flop_per_s, bytes_per_s=n * bytes_per_s)
        for n in (1, 2)
    )
    ceilings = Ceilings(one=one, every=every, array_bytes=1 << 20)
    profile = ModelProfile(
        model=ModelName("product"),
        device=DeviceName("cpu:0"),
        bucket=BucketKey("|x FP32 (256,)"),
        solo=(SoloTime(rows=1, median_ns=10_000, p95_ns=12_000, runs=9),),
    )
    file = ProfileFile(
        fingerprint=fingerprint(),
        profiles=(profile,),
        calibration=Calibration(cores=(0, 1), ceilings=ceilings),
    )
    write_profiles(path, file)
    return str(path)


def test_the_verdict_comes_first_and_reasons_follow(product, capsys) -> None:
    """One row re-reads all weights: memory; a thousand rows share them: arithmetic."""
    assert explain(product, "--ceilings", "100,20") == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{product}: memory-bound on this device\n  given: 100 GFLOP/s, 20 GB/s")
    assert "ridge of 5 FLOP a byte" in out
    assert "Weights are 99% of the fused traffic" in out
    assert explain(product, "--ceilings", "100,20", "--rows", "1000") == 0
    out = capsys.readouterr().out
    assert f"{product}: compute-bound on this device" in out
    assert "A batch of 1000 rows computes 0.0655 GFLOP" in out


def test_json_has_every_number(product, capsys) -> None:
    """Stable keys, plain numbers, and the nodes."""
    assert explain(product, "--ceilings", "100,20", "--format", "json", "--rows", "2") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["limit"] == "memory"
    assert found["flop"] == 2 * 65_536
    assert found["bytes_fused"] == found["bytes_unfused"] == 131_072 + 2 * 4 * 384
    assert found["weight_bytes"] == 131_072
    assert found["intensity_fused"] == pytest.approx(131_072 / 134_144)
    assert found["ceilings"]["ridge_flop_per_byte"] == 5
    assert found["attainable_fused_flop_per_s"] == pytest.approx(20e9 * 131_072 / 134_144)
    assert found["estimate"]["least_ns"] == round(134_144 / 20)
    assert found["measured"] is None
    (only,) = found["nodes"]
    assert (only["name"], only["count"], only["time_ratio"]) == ("only", 1, 1)


def test_nodes_that_are_alike_share_a_line(tmp_path, capsys) -> None:
    """Three layers of one size and a smaller one: 3 * 80 bytes of 284, and all are counted."""
    path = write_graph(
        tmp_path / "layers.onnx",
        [
            *(node("Relu", [a], [b]) for a, b in ("xa", "ab", "bc")),
            node("ReduceMax", ["c"], ["y"], axes=[1], keepdims=0),
        ],
        [tensor("x", "n", 10)],
    )
    assert explain(str(path), "--ceilings", "1000,1", "--format", "json") == 0
    first, second = json.loads(capsys.readouterr().out)["nodes"]
    assert (first["kind"], first["count"], first["name"]) == ("Relu", 3, "a")
    assert first["time_ratio"] == pytest.approx(240 / 284)
    assert second["time_ratio"] == pytest.approx(44 / 284)
    assert explain(str(path), "--ceilings", "1000,1", "--top", "1") == 0
    assert "3 of 4 nodes" in capsys.readouterr().out


def test_ceilings_come_from_a_calibration(product, tmp_path, capsys) -> None:
    """One core by default, or all of them."""
    file = calibration(tmp_path / "here.json", 50e9, 10e9)
    for cores, flop_per_s in (("one", 50e9), ("all", 100e9)):
        words = ["--calibration", file, "--cores", cores, "--format", "json"]
        assert explain(product, *words) == 0
        ceilings = json.loads(capsys.readouterr().out)["ceilings"]
        assert ceilings["flop_per_s"] == flop_per_s
        assert ceilings["source"] == file


def test_without_any_file_this_machine_is_measured(product, capsys) -> None:
    """Real ceilings of the machine that the test runs on, and words that say so."""
    assert explain(product, "--format", "json") == 0
    captured = capsys.readouterr()
    ceilings = json.loads(captured.out)["ceilings"]
    assert ceilings["source"] == "measured now"
    assert ceilings["flop_per_s"] > 0
    assert ceilings["bytes_per_s"] > 0
    assert "measuring this machine's ceilings" in captured.err


def test_a_measured_profile_gives_the_speed_that_is_reached(product, tmp_path, capsys) -> None:
    """65,536 FLOP in 10 us are 6.55 GFLOP/s; its calibration serves as well."""
    file = calibration(tmp_path / "here.json", 50e9, 20e9)
    assert explain(product, "--profile", file, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    measured = found["measured"]
    assert measured["flop_per_s"] == pytest.approx(6.5536e9)
    assert measured["attained_ratio"] == pytest.approx(6.5536e9 / (20e9 * 65_536 / 132_608))
    assert found["ceilings"]["flop_per_s"] == 50e9
    assert any("Measured in `here.json`: 10us alone" in reason for reason in found["reasons"])


def test_a_profile_of_something_else_is_refused(product, tmp_path) -> None:
    """Another model, or another shape."""
    file = calibration(tmp_path / "here.json", 50e9, 20e9)
    other = Path(product).rename(tmp_path / "other.onnx")
    with pytest.raises(HeadwayError, match="has no times of this model") as caught:
        explain(str(other), "--profile", file)
    assert "`product` |x FP32 (256,)" in str(caught.value.hint)
    wide = write_graph(
        tmp_path / "product.onnx", [node("Relu", ["x"], ["y"])], [tensor("x", "n", 8)]
    )
    with pytest.raises(HeadwayError, match="has no times with these shapes"):
        explain(str(wide), "--profile", file)


def test_counters_and_traces_are_read_together(product, capsys) -> None:
    """Traffic from one, times and copies from the other, each divided by the runs."""
    words = ["--ncu", str(FIXTURES / "ncu_long.csv"), "--nsys", str(FIXTURES / "nsys_stats.csv")]
    words += ["--runs", "10", "--ceilings", "19500,1555", "--format", "json"]
    assert explain(product, *words) == 0
    measured = json.loads(capsys.readouterr().out)["measured"]
    assert measured["time_ns"] == 400_000
    assert measured["traffic_bytes"] == 250_000
    assert measured["intensity_flop_per_byte"] == pytest.approx(65_536 / 250_000)
    assert measured["copied_in_bytes"] == 102_450_000
    assert measured["copied_out_bytes"] == 200_000
    assert measured["copying_ns"] == 100_000
    assert measured["counted_flop"] == pytest.approx((2 * 1_048_576 + 1_024 + 8_192) / 10)


def test_a_speed_beyond_the_roof_is_doubted(tmp_path, capsys) -> None:
    """A file of another number of runs shows itself."""
    large = write_graph(
        tmp_path / "large.onnx",
        [node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", "n", 4096)],
        weights=[weight("w", 4096, 1024)],
    )
    words = ["--rows", "4096", "--ncu", str(FIXTURES / "ncu_long.csv")]
    assert explain(str(large), *words, "--ceilings", "100,20", "--format", "json") == 0
    reasons = json.loads(capsys.readouterr().out)["reasons"]
    assert any("the file holds another number of runs" in reason for reason in reasons)


def test_a_gpus_profile_under_a_processors_roof_is_warned_of(product, tmp_path, capsys) -> None:
    """The comparison would be between two machines."""
    file = calibration(tmp_path / "here.json", 50e9, 20e9)
    words = ["--calibration", file, "--nsys", str(FIXTURES / "nsys_stats.csv")]
    assert explain(product, *words) == 0
    assert "give --ceilings" in capsys.readouterr().err


def test_the_plot_is_a_picture(product, tmp_path, capsys) -> None:
    """With a measured point; the folder is made."""
    pytest.importorskip("matplotlib", reason="matplotlib draws")
    picture = tmp_path / "new" / "roof.png"
    words = ["--ncu", str(FIXTURES / "ncu_long.csv"), "--ceilings", "100,20"]
    assert explain(product, *words, "--plot", str(picture)) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"plot: {picture}" in capsys.readouterr().err


def test_what_cannot_be_known_is_said(tmp_path, capsys) -> None:
    """Operators without a formula, and shapes that were assumed."""
    odd = write_graph(
        tmp_path / "odd.onnx",
        [node("Wobble", ["x"], ["y"], domain="odd")],
        [tensor("x", "n", 6, kind=INT64)],
        opsets={"": 17, "odd": 1},
    )
    assert explain(str(odd), "--ceilings", "1,1") == 0
    out = capsys.readouterr().out
    assert "an operation an element was assumed: 1 Wobble." in out
    assert "Assumed: y: its shape is taken for 1x6." in out
    assert "100% of the work is on int64" in out


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["nothing"], UsageError, "neither a file nor a model of the demo"),
        (["{model}", "--shape", "x"], UsageError, "is not INPUT=SIZES"),
        (["{model}", "--shape", "x=0"], UsageError, "is not INPUT=SIZES"),
        (["{model}", "--shape", "z=256"], ConfigError, "no input `z`"),
        (["{model}", "--ceilings", "100"], UsageError, "is not GFLOPS,GBS"),
        (["{model}", "--ceilings", "100,0"], UsageError, "is not GFLOPS,GBS"),
        (["{model}", "--rows", "0"], UsageError, "not above 0"),
        (["{model}", "--calibration", "absent.json"], HeadwayError, "cannot read `absent.json`"),
        (["{model}", "--ceilings", "1,1", "--ncu", "absent.csv"], ConfigError, "cannot read"),
        (["absent.onnx"], HeadwayError, "cannot read `absent.onnx`"),
    ],
)
def test_mistakes_are_named(product, words, error, message) -> None:
    """Before anything is measured."""
    with pytest.raises(error, match=message):
        explain(*[word.format(model=product) for word in words])


def test_a_file_without_a_calibration_is_refused(product, tmp_path) -> None:
    """And says which command makes one."""
    path = tmp_path / "bare.json"
    path.write_bytes(msgspec.json.encode(ProfileFile(fingerprint=fingerprint())))
    with pytest.raises(HeadwayError, match="holds no calibration") as caught:
        explain(product, "--calibration", str(path))
    assert "headway calibrate" in str(caught.value.hint)
