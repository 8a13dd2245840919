"""A whole server, called with flat objects as `curl` would."""

import json
from pathlib import Path

from tests.e2e.server import a_config, serving

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_texts_go_in_and_vectors_come_out(tmp_path):
    """`generate` answers with an object, `generate_stream` with the same object as one event."""
    config = a_config(
        {
            "name": "embedder",
            "path": f"{EXAMPLES}/embedder.py:Embedder",
            "options": {"dimensions": 4},
        }
    )
    with serving(tmp_path, config) as server:
        once = server.post("/v2/models/embedder/generate", {"text": "one two", "id": "7"})
        streamed = server.post("/v2/models/embedder/generate_stream", {"text": ["one two"]})
        wrong = server.post("/v2/models/embedder/generate_stream", {"text": 7})
    assert once.status == 200
    answer = once.json
    assert (answer["id"], answer["model_name"], answer["tokens"]) == ("7", "embedder", 2)
    assert len(answer["embedding"]) == 4
    assert streamed.headers["content-type"].startswith("text/event-stream")
    (event,) = streamed.body.removesuffix(b"\n\n").split(b"\n\n")
    del answer["id"]
    assert json.loads(event.removeprefix(b"data: ")) == answer
    assert (wrong.status, wrong.json["code"]) == (400, "invalid_request")
