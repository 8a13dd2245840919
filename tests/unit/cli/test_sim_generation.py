"""`headway sim` of a generating model: layouts compared, and mistakes with their place."""

import json
from pathlib import Path

import pytest

from headway.cli import EXIT_OK, EXIT_USAGE, main

ROOT = Path(__file__).parents[3]
SCENARIO = """\
engine:
  {memory: 24GiB, weights: 15GiB, reserve: 3GiB, kv_token: 128KiB,
   step: {base: 12ms, prefill_token: 67us, context_token: 65ns, free_tokens: 128}}
tiers:
  gold: {priority: 0, ttft: 1s, tpot: 60ms}
  bronze: {priority: 1, ttft: 5s, tpot: 200ms, part: 2, gated: true}
requests: {kind: bursts, rate_rps: 6, count: 60}
layouts:
  together: {kind: colocated, engines: 2}
  apart: {kind: disaggregated, prefill: 1, decode: 1, link: 25GB, latency: 1ms}
  streamed: {kind: offload, engines: 2, host_layers: 4, link: 25GB}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A small scenario file."""
    path = tmp_path / "generation.yaml"
    path.write_text(SCENARIO)
    return path


def test_layouts_are_compared_on_the_same_requests(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row a layout and load, all requests accounted for, and labelled as what they are."""
    line = ["sim", str(scenario), "--load", "0.5,1", "--format", "json"]
    assert main(line) == EXIT_OK
    data = json.loads(capsys.readouterr().out)
    assert (data["simulated"], data["generated"], data["seed"]) == (True, True, 0)
    rows = data["rows"]
    assert [(row["load"], row["layout"]) for row in rows] == [
        (load, name) for load in (0.5, 1.0) for name in ("together", "apart", "streamed")
    ]
    for row in rows:
        assert row["total"]["requests"] == row["total"]["ended"] == 60
        assert row["tiers"]["bronze"]["requests"] == 40
        assert row["total"]["met"] == sum(tier["met"] for tier in row["tiers"].values())
    together, apart, streamed = rows[3:]
    assert apart["handed_tokens"] > 0 == together["handed_tokens"]
    assert streamed["kv_bytes"] > together["kv_bytes"]
    assert streamed["total"]["tpot_p50_ns"] > together["total"]["tpot_p50_ns"]


def test_table_says_that_it_is_simulated(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line a tier, and the words under it."""
    assert main(["sim", str(scenario)]) == EXIT_OK
    captured = capsys.readouterr()
    assert captured.out.count("bronze") == 3
    assert "simulated: generated requests" in captured.out
    assert "seed 0" in captured.err


def test_seed_decides_what_is_drawn(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same prints the same; several are several rows."""
    printed = []
    for seed in ("7", "7", "8"):
        assert main(["sim", str(scenario), "--seed", seed, "--format", "json"]) == EXIT_OK
        printed.append(json.loads(capsys.readouterr().out)["rows"])
    assert printed[0] == printed[1] != printed[2]


def test_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The example file that the documentation names."""
    monkeypatch.chdir(ROOT)
    assert main(["sim", "examples/generation.yaml", "--load", "0.5"]) == EXIT_OK
    assert "together-fcfs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("prefill: 1,", "prefill: 0,", ["`layouts.apart.prefill`", "it is `0`"]),
        ("link: 25GB, latency", "link: fast, latency", ["`layouts.apart.link`", "`fast`"]),
        ("latency: 1ms}", "scheduler: fcfs}", ["`layouts.apart.scheduler`", "only `headway`"]),
        ("host_layers: 4", "host_layers: 40", ["`layouts.streamed.host_layers`", "at most 32"]),
        ("memory: 24GiB", "memory: 16GiB", ["`layouts.together`", "`-2147483648` bytes"]),
        ("kv_token: 128KiB", "kv_token: 0KiB", ["`engine.kv_token`", "`0` bytes"]),
        ("memory: 24GiB", "memory: 24", ["`engine.memory`", "`24` is not a size"]),
        ("kind: bursts", "kind: waves", ["`requests.kind`", "trace or bursts"]),
        ("kind: colocated", "kind: near", ["`layouts.together.kind`", "colocated, disaggregated"]),
        ("part: 2", "part: 2000", ["`tiers`", "`2001`"]),
        ("rate_rps: 6", "rate_rps: 6, cv: 900", ["`requests`", "not 900"]),
        (
            "{kind: bursts, rate_rps: 6, count: 60}",
            "{kind: trace, trace: a.csv, format: azure_llm, count: 3}",
            ["`a.csv`", "--traces"],
        ),
    ],
)
def test_mistake_is_named_with_its_place(
    scenario: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, words: list[str]
) -> None:
    """File, path, value and remedy, before anything is played."""
    scenario.write_text(SCENARIO.replace(old, new, 1))
    assert main(["sim", str(scenario)]) == EXIT_USAGE
    message = capsys.readouterr().err
    for word in ["generation.yaml", *words]:
        assert word in message


@pytest.mark.parametrize(
    ("flags", "word"),
    [(["--policy", "edf"], "--policy"), (["--journal", "x"], "--journal")],
)
def test_flags_of_other_scenarios_are_refused(
    scenario: Path, capsys: pytest.CaptureFixture[str], flags: list[str], word: str
) -> None:
    """They would mean nothing here."""
    assert main(["sim", str(scenario), *flags]) == EXIT_USAGE
    assert f"`{word}` is not for" in capsys.readouterr().err


def test_scenario_without_layouts_has_nothing_to_play(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is one for `plan capacity`."""
    scenario.write_text(SCENARIO[: SCENARIO.index("layouts:")])
    assert main(["sim", str(scenario)]) == EXIT_USAGE
    assert "no layouts" in capsys.readouterr().err


def test_recorded_requests_are_played_and_checked(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the folder that is named; more than there are, and formats without lengths, are not."""
    traces = ROOT / "tests/unit/workload/traces"
    recorded = "requests: {kind: trace, trace: %s, format: %s, count: %d}"
    start = SCENARIO[: SCENARIO.index("requests:")]
    end = SCENARIO[SCENARIO.index("layouts:") :]
    for name, kind, count, words in [
        ("azure_llm.csv", "azure_llm", 3, None),
        ("azure_llm.csv", "azure_llm", 900, "are more than"),
        ("orion.json", "orion", 3, "records no lengths"),
    ]:
        scenario.write_text(f"{start}{recorded % (name, kind, count)}\n{end}")
        code = main(["sim", str(scenario), "--traces", str(traces), "--format", "json"])
        captured = capsys.readouterr()
        if words is None:
            assert code == EXIT_OK
            assert json.loads(captured.out)["generated"] is False
            assert main(["sim", str(scenario), "--traces", str(traces), "--seeds", "2"]) != EXIT_OK
            capsys.readouterr()
        else:
            assert code == EXIT_USAGE
            assert words in captured.err
