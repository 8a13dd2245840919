"""`headway load`: what it plays, what it prints and how it ends, against a server in a thread."""

import asyncio
import concurrent.futures
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from headway.cli import EXIT_FAILED, EXIT_MISSED, EXIT_OK, EXIT_USAGE, main
from headway.report import samples_from_jsonl

METADATA = {"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]}
REPLY = {"outputs": [], "parameters": {"tier": "live", "budget_ms": 500, "batch_rows": 1}}
WORKLOAD = """\
duration: 300ms
seed: 5
streams:
  - {model: m, tier: live, arrivals: {kind: uniform, rate_rps: 100}}
  - {model: m, tier: bulk, budget: 2s, arrivals: {kind: gamma, rate_rps: 60, cv: 2}}
"""


class Server:
    """One model `m`, which answers at once; the tier `bulk` is refused."""

    def __init__(self) -> None:
        self.url = ""
        self.tiers: list[str] = []

    async def serve(self, ready: "concurrent.futures.Future[object]", stop: asyncio.Event) -> None:
        """Until told to stop."""
        app = web.Application()
        app.router.add_get("/v2/models/{model}", self._metadata)
        app.router.add_post("/v2/models/m/infer", self._infer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        ready.set_result(asyncio.get_running_loop())
        await stop.wait()
        await runner.cleanup()

    async def _metadata(self, request: web.Request) -> web.Response:
        if request.match_info["model"] == "m":
            return web.json_response(METADATA)
        return web.json_response({"error": "no such model"}, status=404)

    async def _infer(self, request: web.Request) -> web.Response:
        await request.read()
        tier = request.headers["headway-tier"]
        self.tiers.append(tier)
        if tier == "bulk":
            return web.json_response({"error": "full", "code": "rejected"}, status=429)
        return web.json_response(REPLY)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server in a thread of its own."""
    server, ready, stop = Server(), concurrent.futures.Future(), asyncio.Event()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(ready, stop)))
    thread.start()
    loop = ready.result(timeout=10)
    yield server
    loop.call_soon_threadsafe(stop.set)
    thread.join()


def test_flags_describe_one_stream(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests without a tier are reported under the one that the server told."""
    out = tmp_path / "samples.jsonl"
    line = f"load {server.url} --model m --rate 100 --cv 2 --duration 300ms --seed 3 --out {out}"
    assert main(line.split()) == EXIT_OK
    captured = capsys.readouterr()
    assert "300ms of 100.0 req/s; seed 3" in captured.err
    assert "tier live" in captured.out
    assert "500ms" in captured.out
    samples = samples_from_jsonl(out)
    assert {sample.tier for sample in samples} == {"live"}
    assert server.tiers == [""] * len(samples)


def test_tier_and_budget_are_asked_for(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Flags reach the server, and JSON has the summary under stable names."""
    line = f"load {server.url} --model m --rate 50 --tier bulk --budget 1s --duration 200ms"
    assert main([*line.split(), "--format", "json"]) == EXIT_OK
    data = json.loads(capsys.readouterr().out)
    assert (data["url"], data["seed"], data["duration_ns"]) == (server.url, 1, 200_000_000)
    assert list(data["tiers"]) == ["bulk"]
    bulk = data["tiers"]["bulk"]
    assert bulk["requests"] == bulk["rejected"] == bulk["violations"] > 0
    assert bulk["budget_ns"] == 1_000_000_000
    assert set(server.tiers) == {"bulk"}


def test_target_that_is_missed_is_three(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each tier has to meet it; the one that did not is named."""
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD)
    line = ["load", server.url, "--workload", str(path)]
    assert main([*line, "--violations-max", "1"]) == EXIT_OK
    captured = capsys.readouterr()
    assert "seed 5" in captured.err
    assert "target" not in captured.err
    assert main([*line, "--violations-max", "0.5", "--seed", "6"]) == EXIT_MISSED
    captured = capsys.readouterr()
    assert "seed 6" in captured.err
    missed = [words for words in captured.err.splitlines() if words.startswith("target not met")]
    assert missed == [
        "target not met: 100.00 % of tier `bulk` not served in time, 50.00 % are allowed"
    ]
    assert {"live", "bulk"} == set(server.tiers)


def test_bar_is_shown_on_a_terminal_only(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever waits sees how far it is and how the tiers fare."""
    line = f"load {server.url} --model m --rate 100 --duration 400ms".split()
    assert main(line) == EXIT_OK
    assert "violations" not in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "150")
    assert main(line) == EXIT_OK
    shown = capsys.readouterr().err
    assert "requests" in shown
    assert "violations live 0.0 %" in shown


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("", "`--model` and `--rate` say what to send"),
        ("--model m", "`--model` and `--rate` say what to send"),
        ("--model m --rate 5 --cv 500", "cv must be between"),
        ("--model m --rate 5 --violations-max 2", "is not between 0 and 1"),
        ("--workload w.yaml --rate 5", "`--rate` and `--workload` exclude each other"),
        ("--workload nowhere.yaml", "there is no file `nowhere.yaml`"),
    ],
)
def test_bad_flags_are_two(flags: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be played is refused before anything is sent."""
    assert main(["load", "http://127.0.0.1:9", *flags.split()]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


def test_workload_mistake_is_named_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line of the wrong value."""
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD.replace("rate_rps: 60", "rate_rps: -60"))
    assert main(["load", "http://127.0.0.1:9", "--workload", str(path)]) == EXIT_USAGE
    assert f"error: {path}:5: `streams[1].arrivals.rate_rps`" in capsys.readouterr().err


def test_unknown_model_is_two(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """The server's own words are passed on."""
    assert main(["load", server.url, "--model", "nope", "--rate", "5"]) == EXIT_USAGE
    assert "no such model" in capsys.readouterr().err


def test_empty_workload_is_an_error(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a request there is nothing to report."""
    line = f"load {server.url} --model m --rate 0.001 --duration 1ms"
    assert main(line.split()) == EXIT_FAILED
    assert "not a single request" in capsys.readouterr().err


def test_samples_that_cannot_be_written_are_an_error(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path is named."""
    out = tmp_path / "no" / "samples.jsonl"
    line = f"load {server.url} --model m --rate 100 --duration 100ms --out {out}"
    assert main(line.split()) == EXIT_FAILED
    assert f"cannot write `{out}`" in capsys.readouterr().err


def test_missing_client_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without aiohttp the verb names the extra that brings it."""
    for name in [name for name in sys.modules if name.startswith("headway.loadgen")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    assert main(["load", "http://127.0.0.1:9", "--model", "m", "--rate", "5"]) == EXIT_FAILED
    assert "hint: pip install headway[load]" in capsys.readouterr().err
