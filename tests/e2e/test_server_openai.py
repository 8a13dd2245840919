"""A whole server with an embedding model, as OpenAI's own client sees it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.server import a_config, serving

PROGRAM = Path(__file__).parent / "openai_calls.py"
EXAMPLES = Path(__file__).parents[2] / "examples"
RETRY_AFTER_S = 1.2
"""Longer than the client waits of its own accord before its first retry, and no whole second."""


def test_all_calls_of_the_client(tmp_path):
    """Models, embeddings in every form, wishes, errors by their classes, and a retry in time."""
    path = f"{EXAMPLES}/embedder.py:Embedder"
    embedder = {"path": path, "options": {"dimensions": 64}}
    config = a_config(
        {"name": "embedder", **embedder, "batch": {"rows_max": 32, "oversize": "split"}},
        {"name": "echo", "path": f"{EXAMPLES}/echo_model.py:Echo", "options": {"columns": 4}},
        {"name": "full", **embedder, "queue": {"requests_max": 0}},
        slots=2,
        tiers={"standard": {"priority": 1}, "bulk": {"priority": 5}},
        limits={"retry_after_min": f"{RETRY_AFTER_S}s"},
    )
    with serving(tmp_path, config) as server:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), f"http://127.0.0.1:{server.port}"],
            capture_output=True,
            text=True,
            timeout=45,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        metrics = server.metrics()

    assert seen["models"] == ["embedder", "echo", "full"]
    assert (seen["model"]["id"], seen["model"]["object"]) == ("embedder", "model")

    found = seen["embeddings"]
    assert found.pop("norm") == pytest.approx(1, abs=1e-5)
    assert found == {
        "length": 64,
        "indices": [0, 1, 2],
        "same": True,
        "coded": True,
        "many": 1800,
        "many same": True,
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
        "model": "embedder",
    }
    assert seen["wishes"] == {"status": 200, "tier": "flex"}
    assert metrics.total("headway_requests_total", model="embedder", tier="bulk") == 1

    assert seen["errors"] == {
        "no such model": ["NotFoundError", 404, "model_not_found", "model"],
        "no embedder": ["BadRequestError", 400, "invalid_request", "model"],
        "no such length": ["BadRequestError", 400, "invalid_request", "dimensions"],
        "tokens": ["BadRequestError", 400, "invalid_request", "input"],
        "no room": ["RateLimitError", 429, "rejected", None],
        "no time": ["InternalServerError", 504, "deadline_exceeded", None],
        "no such description": ["NotFoundError", 404, "model_not_found", "model"],
        "no chat": ["BadRequestError", 400, "invalid_request", "model"],
    }
    *ended, waited_s = seen["retry"]
    assert ended == ["RateLimitError", 429, "rejected", None]
    assert waited_s >= RETRY_AFTER_S
    assert metrics.total("headway_http_answers_total", status="429") == 1 + 2
    assert seen["async"] == 40
