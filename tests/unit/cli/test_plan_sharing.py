"""`headway plan` and its kin, on the example that ships: what is printed, and the exit codes."""

import json
from pathlib import Path

import pytest

from headway.cli import EXIT_FAILED, EXIT_MISSED, EXIT_OK, EXIT_USAGE, main

ONPREM = "examples/plan/onprem.yaml"
PREEMPTION = "plan preemption --layers 32 --kv-heads 8 --head-dim 128 --link 24GB"
PREFILL = "512=38ms,2048=160ms,8192=760ms"


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])


def run(line: str, capsys: pytest.CaptureFixture[str], code: int = EXIT_OK) -> str:
    """What a command line prints on stdout."""
    assert main(line.split()) == code, capsys.readouterr().err
    return capsys.readouterr().out


def test_the_example_has_a_plan_that_keeps_its_objectives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the fast path, by both judges, with reasons, caveats and what would change them."""
    out = run(f"plan {ONPREM} --maker fast --requests 8000", capsys)
    for words in ("a1/gpu:0", "3g.40gb@4 (kept)", "caveat:", "would change it:", "search-page"):
        assert words in out
    assert "no place" not in out
    assert "missed" not in out


def test_a_plan_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON that reads back as the plan, with verdicts of both judges for each model."""
    import msgspec

    from headway.plan import SharingPlan

    out = run(f"plan {ONPREM} --maker fast --requests 4000 --format json", capsys)
    plan = msgspec.convert(json.loads(out)["plan"], SharingPlan)
    judged = [(verdict.model, verdict.judge) for verdict in plan.verdicts]
    assert len(set(judged)) == len(judged) == 2 * 11
    quick = run(f"plan {ONPREM} --maker fast --no-simulation --format json", capsys)
    assert {v["judge"] for v in json.loads(quick)["plan"]["verdicts"]} == {"bound"}


SMALL = """
tiers: {live: {priority: 0, budget: 200ms}}
tenants: {shop: {}, clinic: {isolation: strong}}
models:
  - name: a
    tenant: shop
    tier: live
    rate: 30
    times: [{product: L4, service: {1: 8ms}}]
    weights: 2GiB
  - name: b
    tenant: clinic
    tier: live
    rate: 20
    times: [{product: L4, service: {1: 10ms}}]
    weights: 2GiB
fleet:
  nodes:
    - name: n
      devices: [{product: L4, count: COUNT, memory: 22GiB, multiprocessors: 58}]
"""


def a_file(folder: Path, devices: int) -> Path:
    """Two tenants that must be apart, on cards that cannot be cut."""
    path = folder / "small.yaml"
    path.write_text(SMALL.replace("COUNT", str(devices)))
    return path


def test_what_has_no_place_is_a_missed_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, with what stands in the way."""
    pytest.importorskip("ortools", reason="OR-Tools solves")
    pytest.importorskip("scipy", reason="HiGHS in SciPy says how well")
    path = a_file(tmp_path, 1)
    out = run(f"plan {path} --no-simulation --seconds 2", capsys, EXIT_MISSED)
    assert "no place" in out
    assert "these cannot all be kept" in out
    assert "the isolation of tenant `clinic` (strong)" in out


def test_a_plan_can_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who sits where, as SVG."""
    pytest.importorskip("matplotlib", reason="matplotlib draws")
    path = tmp_path / "plan.svg"
    run(f"plan {ONPREM} --maker fast --no-simulation --plot {path}", capsys)
    assert "triage-14gb" in path.read_text()


def test_a_mistake_in_the_file_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its place."""
    path = tmp_path / "wrong.yaml"
    path.write_text(Path(ONPREM).read_text().replace("tenant: shop", "tenant: shp", 1))
    run(f"plan {path}", capsys, EXIT_USAGE)


def test_batching_prints_a_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every size with what it is worth, and one best."""
    line = f"plan batching {ONPREM} --model embedder --slice 2g.20gb"
    assert run(line, capsys).count("best") == 1
    rows = json.loads(run(f"{line} --format json", capsys))["rows"]
    assert [row["rows"] for row in rows] == [1, 2, 4, 8, 16, 32]
    pytest.importorskip("matplotlib", reason="matplotlib draws")
    run(f"{line} --plot {tmp_path / 'b.png'}", capsys)


@pytest.mark.parametrize(
    "flags", ["--model nobody", "--model embedder --product T4", "--model embedder --slice 9g.90gb"]
)
def test_batching_knows_what_there_is(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is not in the file is answered with those that are."""
    code = EXIT_USAGE if "slice" in flags else EXIT_FAILED
    assert main(f"plan batching {ONPREM} {flags}".split()) == code
    assert "it has" in capsys.readouterr().err


def test_preemption_prints_sizes_and_the_crossover(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes of a token, tokens of a memory, both laws, and where they cross."""
    line = f"{PREEMPTION} --prefill {PREFILL} --memory 20GiB"
    out = run(line, capsys)
    assert "4KiB a token and layer, 128KiB a token" in out
    assert "20GiB hold 163840 tokens" in out
    plain = json.loads(run(f"{line} --format json", capsys))
    assert plain["token_bytes"] == 131072
    assert f"from {plain['crossover_tokens']} tokens on" in out or "always quicker" in out
    pytest.importorskip("matplotlib", reason="matplotlib draws")
    run(f"{line} --plot {tmp_path / 'p.svg'}", capsys)


def test_preemption_needs_two_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    """One says nothing of how times grow."""
    run(f"{PREEMPTION} --prefill 512=38ms", capsys, EXIT_USAGE)
    run(f"{PREEMPTION} --prefill 512:38ms", capsys, EXIT_USAGE)


def test_capacity_prints_formulas_and_a_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number, and what it rests on."""
    path = a_file(tmp_path, 1)
    line = f"plan capacity {path} --requests 1500 --policy edf"
    out = run(line, capsys)
    assert "by formula" in out
    assert "keep every objective when played" in out
    plain = json.loads(run(f"{line} --format json", capsys))["capacity"]
    assert plain["by_simulation"] in {point["devices"] for point in plain["points"]}
    assert main(f"{line} --product T4".split()) == EXIT_FAILED
    assert "it has" in capsys.readouterr().err
