"""`headway demo` as its user runs it: a comparison on the terminal."""

import json
import signal
import time
from pathlib import Path

import pytest
from tests.e2e.demos import processes_that_name, started_demo, with_models

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models")
pytest.importorskip("aiohttp", reason="aiohttp makes the load")
pytest.importorskip("matplotlib", reason="matplotlib draws the plot")

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the models of the user's own."""
    return with_models(tmp_path_factory.mktemp("cache"))


def test_demo_compares_two_policies(cache: Path, tmp_path: Path) -> None:
    """Right answers, the same load for both policies, a table, a plot, a document, nobody left."""
    plot, document = tmp_path / "demo.png", tmp_path / "demo.json"
    flags = ("--seconds", "3", "--seed", "5", "--plot", str(plot), "--json", str(document))
    with started_demo(cache, *flags) as demo:
        out, err = demo.communicate()
    assert demo.returncode == 0, err
    result = json.loads(document.read_text(encoding="utf-8"))
    assert [check["passed"] for check in result["checks"]] == [True, True]
    asked = {
        policy: {r["tier"]: r["requests"] for r in result["rows"] if r["policy"] == policy}
        for policy in ("fifo", "priority", "headway")
    }
    assert asked["fifo"] == asked["priority"] == asked["headway"]
    assert asked["fifo"].keys() == {"speech", "standard"}
    assert result["seed"] == 5
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "goodput/s" in out
    assert "\x1b" not in out + err
    assert str(cache / "demo" / "demo.yaml") in err
    assert processes_that_name(cache) == []


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs Linux's /proc")
def test_demo_that_is_told_to_end_leaves_nobody(cache: Path) -> None:
    """SIGTERM in the middle of it ends the server and the load generator too."""
    with started_demo(cache, "--seconds", "60") as demo:
        assert demo.stderr is not None
        while "policy fifo" not in demo.stderr.readline():
            assert demo.poll() is None
        time.sleep(1.0)
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=30)
    assert demo.returncode == 1
    assert processes_that_name(cache) == []


def test_demo_refuses_an_unknown_model(cache: Path) -> None:
    """A mistyped model ends in exit code 2 and the names that there are."""
    with started_demo(cache, "--models", "resnet") as demo:
        _, err = demo.communicate()
    assert demo.returncode == 2
    assert "silero-vad" in err
