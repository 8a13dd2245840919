"""A whole server with a generator: OpenAI's client, a lost worker, clients that leave, tenants."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.decoder_rig import tiny_folder
from tests.e2e.server import a_config, free_port, running, serving, wait_until

from headway.tenancy import hash_of

PROGRAM = Path(__file__).parent / "generation_calls.py"
EXAMPLES = Path(__file__).parents[2] / "examples"
CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Say something."}]
TIERS = {"standard": {"priority": 1}, "bulk": {"priority": 5}}


def config_of(*models, generator=None, **sections):
    """One generator, and whatever else."""
    tiny = {"name": "tiny", "path": str(tiny_folder()), "niceness": 0, "seed": 1}
    given = {"tiers": TIERS, "limits": {"restart_delay_min": "50ms"}} | sections
    return a_config(*models, generators=[tiny | (generator or {})], **given)


def a_chat(tokens=8, **keys):
    """A request that goes on to its last token."""
    asked = {"model": "tiny", "messages": MESSAGES, "max_tokens": tokens, "ignore_eos": True}
    return asked | keys


def open_stream(server, tokens=900):
    """A stream that is under way: its socket, after the first event."""
    body = json.dumps(a_chat(tokens, stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    client.sendall(head.encode() + body)
    seen = b""
    while b"data: " not in seen:
        seen += client.recv(4096)
    assert seen.startswith(b"HTTP/1.1 200")
    return client


def rest_of(client):
    """All that is still sent."""
    seen = b""
    with client:
        while not seen.endswith(b"0\r\n\r\n") and (data := client.recv(65536)):
            seen += data
    return seen


def test_all_calls_of_openais_client(tmp_path):
    """Chats and completions, whole and as streams, with every wish, and errors by their classes."""
    echo = {"name": "echo", "path": f"{EXAMPLES}/echo_model.py:Echo", "options": {"columns": 4}}
    with serving(tmp_path, config_of(echo)) as server:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), f"http://127.0.0.1:{server.port}"],
            capture_output=True,
            text=True,
            timeout=45,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)

    assert seen["models"] == ["echo", "tiny"]
    assert seen["capabilities"] == {"embeddings": False, "completions": True, "chat": True}
    chat = seen["chat"]
    assert chat["ends"][0] == chat["ends"][1]
    assert chat["usage chunks"] == 1
    assert chat["roles"] == ["assistant", "assistant"]
    assert chat["same"]
    assert chat["differ"]
    assert chat["usage"][0] == chat["usage"][1]
    assert chat["objects"] == ["chat.completion.chunk"]
    assert (chat["ids"], chat["tier"], chat["logprobs"]) == (1, "flex", [3, 2, True])
    assert seen["completions"] == {
        "indices": [0, 1],
        "first same": True,
        "logprobs": 12,
        "stopped": True,
        "stop reason": "stop",
        "tokens": 3,
    }
    assert seen["errors"] == {
        "no such model": ["NotFoundError", 404, "model_not_found", "model"],
        "no generator": ["BadRequestError", 400, "invalid_request", "model"],
        "tools": ["BadRequestError", 400, "invalid_request", "tools"],
        "unknown": ["BadRequestError", 400, "invalid_request", "best_effort"],
        "hot": ["BadRequestError", 400, "invalid_request", "temperature"],
        "too long": ["BadRequestError", 400, "invalid_request", None],
        "no time": ["InternalServerError", 504, "deadline_exceeded", None],
        "no time left": ["APIError", None, "deadline_exceeded", None],
        "no tier": ["BadRequestError", 400, "invalid_request", None],
    }
    assert seen["async"] == {"answers": 24, "kinds": 1}


def test_lost_worker_ends_streams_with_an_error_and_comes_back(tmp_path):
    """What was said cannot be taken back; the next request is answered by another process."""
    with serving(tmp_path, config_of()) as server:
        (pid,) = [each for each in server.worker_pids() if b"decoder" in cmdline(each)]
        with open_stream(server) as client:
            os.kill(pid, signal.SIGKILL)
            seen = rest_of(client)
        assert b'"error":{' in seen
        assert b'"code":"worker_lost"' in seen
        assert b"[DONE]" not in seen
        wait_until(lambda: server.post(CHAT, a_chat()).status == 200, "it is answered again")
        assert "was killed with SIGKILL" in server.log()
        metrics = server.metrics()
        assert metrics.total("headway_generator_worker_losses_total", model="tiny") == 1
        told = {"model": "tiny", "tier": "standard", "outcome": "failed"}
        assert metrics.total("headway_generator_requests_total", **told) == 1


def cmdline(pid):
    """Of a process; nothing of one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_client_that_leaves_frees_its_sequence(tmp_path):
    """One slot, taken by a long answer; when its client hangs up, the next is answered at once."""
    generator = {"sequences_max": 1, "context": 1_000, "answer_tokens_max": 900}
    with serving(tmp_path, config_of(generator=generator)) as server:
        clients = [open_stream(server) for _ in range(3)]
        for client in clients:
            client.close()
        answer = server.post(CHAT, a_chat(2))
        assert answer.status == 200
        assert answer.json["usage"]["completion_tokens"] == 2
        wait_until(lambda: not server.metric("headway_generator_running"), "all is at rest")
        metrics = server.metrics()
        assert metrics.total("headway_generator_requests_total", outcome="cancelled") == 3
        assert metrics.total("headway_generator_requests_total", outcome="completed") == 1
        assert metrics.total("headway_generator_kv_used_ratio") == 0
        assert metrics.total("headway_generator_ttft_seconds_count") == 1
        assert metrics.total("headway_generator_step_seconds_count") > 3


def test_keys_limits_and_ledger_hold_for_generators(tmp_path):
    """As for any model: who may, how much, and what was used."""
    key, ledger = "hwk_acme", tmp_path / "usage.db"
    acme = {
        "keys": [{"hash": hash_of(key)}],
        "tier": "bulk",
        "models": ["tiny"],
        "rates": {"tokens": 0.001, "burst": "30000s"},
    }
    tenancy = {"tenants": {"acme": acme}, "ledger": f"sqlite:///{ledger}"}
    headers = {"authorization": f"Bearer {key}"}
    with serving(tmp_path, config_of(tenancy=tenancy)) as server:
        body = json.dumps(a_chat(20)).encode()
        assert server.call("POST", CHAT, body).status == 401
        answer = server.call("POST", CHAT, body, headers)
        assert answer.status == 200
        about = server.call("GET", "/v2/tenant", headers=headers).json
        assert [limit["name"] for limit in about["limits"]] == ["tokens"]
        assert answer.headers["x-ratelimit-limit-tokens"] == "0.001"
        assert answer.headers["x-ratelimit-remaining-tokens"] == "30"
        refused = server.call("POST", CHAT, body, headers)
        assert refused.status == 429
        assert refused.json["error"]["limit"] == "tokens"
        assert "retry-after-ms" in refused.headers
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
    total = answer.json["usage"]["total_tokens"]
    book = sqlite3.connect(ledger)
    columns = "tenant, model, sum(tokens), sum(device_ns) > 0"
    used = book.execute(f"SELECT {columns} FROM headway_usage GROUP BY tenant, model").fetchall()
    book.close()
    assert used == [("acme", "tiny", total, 1)]


def test_shutdown_lets_an_answer_end(tmp_path):
    """What was begun is finished, and nothing new begins."""
    with serving(tmp_path, config_of()) as server:
        client = open_stream(server, tokens=400)
        server.signal(signal.SIGTERM)
        seen = rest_of(client)
        assert b"[DONE]" in seen
        assert server.exit_code() == 0


def test_folder_without_a_model_stops_the_start(tmp_path):
    """And says what to do about it."""
    path = tmp_path / "serve.yaml"
    path.write_text(json.dumps(config_of(generator={"path": str(tmp_path / "nothing")})))
    with running(tmp_path, ["serve", str(path), "--port", str(free_port())]) as server:
        assert server.exit_code() == 1
        assert "headway generate convert" in server.log()


def test_full_line_is_refused_with_a_time_to_come_back(tmp_path):
    """429 in OpenAI's form, and memory stays bounded."""
    generator = {"sequences_max": 1, "waiting_max": 2}
    with serving(tmp_path, config_of(generator=generator)) as server:
        answer = server.post(CHAT, a_chat(4, n=8))
        assert answer.status == 429
        assert answer.json["error"]["reason"] == "generator_full"
        assert answer.json["error"]["type"] == "rate_limit_error"
        assert server.post(CHAT, a_chat(4)).status == 200
