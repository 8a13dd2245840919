"""A whole server against descriptions of it: schemathesis calls all it has, right and wrong."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.decoder_rig import tiny_folder
from tests.e2e.foreign import peer_python
from tests.e2e.server import Server, a_config, serving

from headway.frontends import OPERATIONS

pytestmark = pytest.mark.timeout(180)

HERE = Path(__file__).parent
DESCRIPTION = HERE.parents[1] / "docs/reference/openapi.json"
EXAMPLES = HERE.parents[1] / "examples"
SEED = "5"
MANAGEMENT = ("repository_load", "repository_unload")
ENDLESS = ("admin_events",)
"""Answers that go on until the client has had enough."""


def a_server(tmp_path):
    """With models that the examples of the description suit."""
    return serving(
        tmp_path,
        a_config(
            {
                "name": "echo",
                "path": f"{EXAMPLES}/echo_model.py:Echo",
                "options": {"columns": 2},
            },
            {
                "name": "embedder",
                "path": f"{EXAMPLES}/embedder.py:Embedder",
                "options": {"dimensions": 8},
            },
            slots=2,
            generators=[
                {
                    "name": "tiny",
                    "path": str(tiny_folder()),
                    "context": 128,
                    "answer_tokens_max": 8,
                }
            ],
        ),
    )


def judged(home: Path, description: Path, *options: str) -> str:
    """Have schemathesis call a server as a file says; what it wrote, if it found nothing."""
    command = [Path(sys.executable).parent / "schemathesis", "--no-color"]
    command += ["--config-file", HERE / "schemathesis.toml", "run", description]
    command += ["--seed", SEED, "--no-shrink", *options]
    done = subprocess.run(
        command, cwd=home, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


def operations_called(text: str) -> int:
    """How many operations were called."""
    return int(re.search(r"Tested: (\d+)", text)[1])


def answered(server: Server, status: int) -> float:
    return server.metric("headway_http_answers_total", status=str(status))


def test_the_server_is_as_its_description_says(tmp_path):
    """Every status, body, header and content type is a described one, for right and wrong calls.

    Loading and unloading, which would take the others' models away, are called by themselves; what
    never ends has tests of its own.
    """
    kept = [
        option for name in (*MANAGEMENT, *ENDLESS) for option in ("--exclude-operation-id", name)
    ]
    managed = [option for name in MANAGEMENT for option in ("--include-operation-id", name)]
    with a_server(tmp_path) as server:
        where = ("--url", f"http://127.0.0.1:{server.port}")
        seen = judged(tmp_path, DESCRIPTION, *where, "--max-examples", "8", *kept)
        counts = {model: completed(server, model) for model in ("echo", "embedder")}
        failures = answered(server, 500)
        seen_managed = judged(tmp_path, DESCRIPTION, *where, "--max-examples", "20", *managed)
    assert operations_called(seen) == len(OPERATIONS) - len(MANAGEMENT) - len(ENDLESS)
    assert operations_called(seen_managed) == len(MANAGEMENT)
    assert failures == 0
    assert min(counts.values()) > 0, "no call got as far as a model"


def completed(server: Server, model: str) -> float:
    return server.metric("headway_requests_total", model=model, outcome="completed")


def test_the_server_is_as_mlserver_describes_the_protocol(tmp_path):
    """The description of another server's authors, read from where that server is installed."""
    description = mlserver_description()
    with a_server(tmp_path) as server:
        checks = "not_a_server_error,response_schema_conformance,content_type_conformance"
        seen = judged(
            tmp_path,
            mended(description, tmp_path / "dataplane.json"),
            "--url",
            f"http://127.0.0.1:{server.port}",
            "--checks",
            checks,
            "--phases",
            "fuzzing",
            "--max-examples",
            "10",
        )
        assert answered(server, 500) == 0
        assert answered(server, 200) > 0
    assert operations_called(seen) >= 8


def mended(description: Path, copy: Path) -> Path:
    """The same without a type that JSON Schema does not have, on which schemathesis gives up."""
    copy.write_text(description.read_text().replace('"type": "bytes"', '"type": "string"'))
    return copy


def mlserver_description() -> Path:
    """Its file, which is not ours to pass on; the test is skipped where it cannot be had."""
    home = peer_python("mlserver").parents[1]
    (found,) = home.glob("lib/python3.*/site-packages/mlserver/rest/openapi/dataplane.json")
    return found
