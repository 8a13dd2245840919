"""How a server starts, and how it does not: a clear word, an exit code, and nothing left behind."""

import signal
import socket
import subprocess
import sys

import pytest
from tests.e2e.answers import tags_of
from tests.e2e.puppet import puppet, row
from tests.e2e.server import a_config, free_port, running, serving, wait_ready, wait_until
from tests.models import identity

from headway.core import Datatype


def fails(server, code, *words):
    """It ends by itself with this code, leaves no process, and its error has these words."""
    assert server.exit_code() == code
    wait_until(lambda: not server.left(), "no process is left")
    lines = server.log().splitlines()
    said = "\n".join(line for line in lines if line.strip().startswith(("error:", "hint:")))
    for word in words:
        assert word in said, server.log()


def started(tmp_path, config):
    """A server that is not expected to become ready."""
    return serving(tmp_path, config, port=0)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("broken.onnx", "this is no model", "broken.onnx"),
        ("absent.onnx", None, "absent.onnx"),
        ("broken.py:Model", "def nonsense(:", "SyntaxError"),
        ("hollow.py:Model", "x = 1", "no class or function `Model`"),
    ],
)
def test_bad_model_file(tmp_path, name, text, words):
    """A model that cannot be read stops the start with code 1, named, and takes no worker along."""
    file = tmp_path / name.partition(":")[0]
    if text is not None:
        file.write_text(text)
    model = {"name": "bad", "path": str(tmp_path / name)}
    with started(tmp_path, a_config(model)) as server:
        fails(server, 1, "`bad` could not be loaded", words)


def test_model_that_raises_beside_one_that_loads(tmp_path, folder):
    """One bad model among good ones stops the start, too, and says what it raised."""
    bad = puppet(folder, "bad", options={"on_load": "raise"})
    with started(tmp_path, a_config(puppet(folder, "good"), bad)) as server:
        fails(server, 1, "`bad` could not be loaded", "ValueError: this model was told not to load")


def test_model_that_kills_its_worker(tmp_path, folder):
    """A load that dies is tried a few times, then given up with the signal's name."""
    limits = {"restart_delay_min": "10ms"}
    bad = puppet(folder, options={"on_load": "die"})
    with started(tmp_path, a_config(bad, limits=limits)) as server:
        fails(server, 1, "`puppet` could not be loaded", "SIGKILL")
    assert len(folder.notes()) == 3


def test_port_that_is_taken(tmp_path, folder):
    """An address in use is told as such, with what to do, before any model is loaded."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with serving(tmp_path, a_config(puppet(folder)), port=port) as server:
            fails(server, 1, f"cannot listen on `127.0.0.1:{port}`", "--port")
    assert folder.notes() == []


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"models": [{"name": "m", "path": "m.txt"}]}, "m.txt"),
        ({"policy": {"kind": "lottery"}}, "lottery"),
    ],
)
def test_bad_configuration(tmp_path, config, word):
    """What is misconfigured is named and ends with code 2, before anything starts."""
    with started(tmp_path, config) as server:
        fails(server, 2, word)


def test_missing_configuration(tmp_path):
    """A file that is not there is named."""
    with running(tmp_path, ["serve", "nowhere.yaml"]) as server:
        fails(server, 2, "nowhere.yaml")


def test_model_file_alone(tmp_path):
    """`headway serve model.onnx` serves that model under its name, without any configuration."""
    identity(tmp_path / "tiny.onnx", Datatype.FP32)
    with running(tmp_path, ["serve", "tiny.onnx", "--port", "0"]) as server:
        wait_ready(server)
        rows = row(3) + row(4)
        assert server.infer("tiny", rows).rows == rows
        assert server.get("/v2/models/tiny").json["platform"] == "onnxruntime_onnx"
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0


def test_class_alone(tmp_path):
    """`headway serve file.py:Class` does the same for a Python class."""
    (tmp_path / "double.py").write_text(
        "class Double:\n"
        "    inputs = [{'name': 'x', 'datatype': 'FP32', 'shape': [-1, 4]}]\n"
        "    outputs = [{'name': 'y', 'datatype': 'FP32', 'shape': [-1, 4]}]\n"
        "    def infer(self, batch):\n"
        "        return {'y': 2 * batch['x']}\n"
    )
    with running(tmp_path, ["serve", "double.py:Double", "--port", "0"]) as server:
        wait_ready(server)
        assert server.infer("double", [[1, 2, 3, 4]]).rows == [[2, 4, 6, 8]]


def test_optimised_python_is_refused(tmp_path, folder):
    """With asserts switched off nothing is served."""
    config = tmp_path / "serve.yaml"
    config.write_text("models: []\n")
    done = subprocess.run(
        [sys.executable, "-O", "-m", "headway", "serve", str(config)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "without -O" in done.stderr


def test_server_without_models(tmp_path):
    """It says that nothing is configured, and serves health and errors all the same."""
    with serving(tmp_path, a_config()) as server:
        assert "no models are configured" in server.log()
        assert server.infer("any", row(1)).status == 404
        assert server.post("/v2/repository/index").json == []


def test_flags_and_environment_reach_the_server(tmp_path, folder, monkeypatch):
    """A port from the flag and a limit from the environment are what the server runs with."""
    monkeypatch.setenv("HEADWAY_SERVER__BODY_MAX", "1KiB")
    port = free_port()
    with serving(tmp_path, a_config(puppet(folder)), port=port) as server:
        wait_ready(server)
        assert server.port == port
        assert tags_of(server.infer("puppet", row(1))) == [1]
        assert server.infer("puppet", [row(n)[0] for n in range(200)]).status == 413
