"""Everything at once, by a seed: impatient clients, hang-ups, dying workers, reloads, floods."""

import contextlib
import os
import random
import signal
import time
from collections import Counter

import pytest
from tests.e2e.puppet import KILL, Folder, puppet
from tests.e2e.server import a_config, serving, wait_until

RUN_S = 3.0
CLIENTS = 24
TIERS = {"standard": {"priority": 5, "budget": "10s"}, "urgent": {"priority": 1, "budget": "5s"}}
MODELS = ("one", "two")


def play(server, seed, ends_at_s, counts):
    """One client: asks, hangs up, has little time, and counts what became of its requests."""
    chance = random.Random(seed)
    number = 0
    while time.monotonic() < ends_at_s:
        number += 1
        tag = seed * 10_000 + number
        rows = [[tag, 0, place, tag / 4] for place in range(chance.randint(1, 3))]
        model = chance.choice(MODELS)
        if chance.random() < 0.1:
            client = server.open_infer(model, rows, is_chunked=chance.random() < 0.5)
            time.sleep(chance.random() * 0.02)
            client.close()
            counts["hung up"] += 1
            continue
        if chance.random() < 0.004:
            rows[0][1] = KILL
        headers = {}
        if chance.random() < 0.2:
            headers["headway-budget-ms"] = str(chance.choice((0, 1, 5, 20)))
        if chance.random() < 0.3:
            headers["headway-tier"] = "urgent"
        answer = server.infer(model, rows, headers=headers)
        counts[answer.status if answer.status != 503 else answer.code] += 1
        if answer.status == 200:
            assert answer.rows == rows


def disturb(server, seed, ends_at_s):
    """Whoever operates the server: reloads, unloads, and kills what should not be killed."""
    chance = random.Random(f"{seed}/disturb")
    while time.monotonic() < ends_at_s:
        time.sleep(0.05 + chance.random() * 0.15)
        model = chance.choice(MODELS)
        deed = chance.random()
        if deed < 0.5:
            assert server.load(model).status in {200, 500}
        elif deed < 0.7:
            assert server.unload(model).status in {200, 404}
            assert server.load(model).status in {200, 500}
        else:
            pids = server.worker_pids()
            if pids:
                with contextlib.suppress(ProcessLookupError):  # it may have died of another deed
                    os.kill(chance.choice(pids), signal.SIGKILL)


def check_counts(metrics, seen):
    """The server counted what its clients saw; of those that hung up nobody knows the end."""
    name = "headway_requests_total"
    hung_up = seen["hung up"]
    past = metrics.total(name, outcome="rejected", reason="deadline_past")
    assert past + metrics.total(name, outcome="expired") == seen[504]
    completed = metrics.total(name, outcome="completed") - len(MODELS)
    assert seen[200] <= completed <= seen[200] + hung_up
    full = metrics.total(name, reason="model_queue_full") + metrics.total(name, reason="displaced")
    assert seen[429] <= full <= seen[429] + hung_up
    lost = metrics.total(name, outcome="failed", reason="worker_lost")
    assert seen["worker_lost"] <= lost <= seen["worker_lost"] + hung_up
    assert metrics.total(name) <= seen.total() + len(MODELS)


@pytest.mark.parametrize(("seed", "isolation"), [(1, "shared"), (2, "per_model")])
def test_everything_at_once(tmp_path, clients, seed, isolation):
    """Whatever happens, each request has one end, counts agree, and the server is well after."""
    batch = {"rows_max": 6, "linger": "2ms"}
    models = [
        puppet(Folder(tmp_path / name), name, batch=batch, queue={"requests_max": 16})
        for name in MODELS
    ]
    limits = {"restart_delay_min": "10ms", "restart_delay_max": "100ms"}
    config = a_config(*models, slots=2, isolation=isolation, tiers=TIERS, limits=limits)
    with serving(tmp_path, config) as server:
        ends_at_s = time.monotonic() + RUN_S
        counts = [Counter() for _ in range(CLIENTS)]
        running = [
            clients.submit(play, server, 100 * seed + n, ends_at_s, counts[n])
            for n in range(CLIENTS)
        ]
        running.append(clients.submit(disturb, server, seed, ends_at_s))
        for one in running:
            one.result()
        assert server.process.poll() is None, server.log()

        seen = sum(counts, Counter())
        assert set(seen) <= {200, 404, 429, 500, 504, "worker_lost", "unavailable", "hung up"}
        assert seen[200] > 50
        for name in MODELS:
            assert server.load(name).status == 200
            answer = server.infer(name, [[7, 0, 0, 0]])
            assert answer.status == 200, answer.body
        wait_until(lambda: server.metric("headway_slots_busy") == 0, "all slots are free")
        metrics = server.metrics()
        assert metrics.total("headway_queue_depth") == 0
        assert metrics.total("headway_replicas") == len(MODELS)
        check_counts(metrics, seen)
        assert "bug" not in server.log()
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
