"""Workers that die under a server: who is told, who never notices, and how it comes back."""

import os
import signal
import time

import pytest
from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, KILL, SEGFAULT, Folder, puppet, row
from tests.e2e.server import a_config, serving, wait_until

RESTART = {"restart_delay_min": "50ms", "restart_delay_max": "5s"}


def test_killed_worker_loses_only_the_batches_it_held(tmp_path, folder, clients):
    """Under load, what ran gets 503 worker_lost, and what waits is served by the next worker."""
    config = a_config(puppet(folder, batch={"rows_max": 2}), slots=2, limits=RESTART)
    with serving(tmp_path, config) as server:
        (victim,) = server.worker_pids()
        running = []
        for tags in ((1, 2), (3, 4)):
            running.append(
                clients.submit(server.infer, "puppet", row(tags[0], HOLD) + row(tags[1]))
            )
            folder.wait_begun(tags[0])
        waiting = {tag: clients.submit(server.infer, "puppet", row(tag)) for tag in range(10, 30)}
        wait_until(lambda: server.metric("headway_queue_depth") == 20, "all wait")
        os.kill(victim, signal.SIGKILL)
        for one in running:
            answer = one.result()
            assert (answer.status, answer.code) == (503, "worker_lost")
            assert "SIGKILL" in answer.json["error"]
        for tag, one in waiting.items():
            assert tags_of(one.result()) == [tag]
        (successor,) = server.worker_pids()
        assert successor != victim
        metrics = server.metrics()
        assert metrics.total("headway_worker_losses_total") == 1
        assert metrics.total("headway_batches_failed_total") == 2
        assert metrics.total("headway_requests_total", outcome="failed", reason="worker_lost") == 2
        assert metrics.total("headway_requests_total", outcome="completed") == 20
        assert metrics.total("headway_slots_busy") == 0
        assert metrics.total("headway_replicas", state="ready") == 1
    begun = sorted(tag for tags in folder.batches() for tag in tags)
    assert begun == [1, 2, 3, 4, *range(10, 30)]


def test_readiness_and_index_tell_of_a_lost_worker(tmp_path, folder):
    """Until the model is back it is LOADING and the server not ready; live it is all the time."""
    limits = {"restart_delay_min": "1s", "restart_delay_max": "1s"}
    with serving(tmp_path, a_config(puppet(folder), limits=limits)) as server:
        os.kill(server.worker_pids()[0], signal.SIGKILL)
        wait_until(lambda: server.get("/v2/health/ready").status == 503, "it is not ready")
        assert server.get("/v2/health/live").status == 200
        assert server.get("/v2/models/puppet/ready").status == 503
        assert server.state_of("puppet") == "LOADING"
        wait_until(lambda: server.get("/v2/health/ready").status == 200, "it is ready again")
        assert server.state_of("puppet") == "READY"
        assert tags_of(server.infer("puppet", row(1))) == [1]


@pytest.mark.parametrize(("order", "name"), [(KILL, "SIGKILL"), (SEGFAULT, "SIGSEGV")])
def test_isolated_neighbour_never_notices_a_crash(tmp_path, clients, order, name):
    """With a worker for each model, one that crashes in native code takes nobody along."""
    folders = {model: Folder(tmp_path / model) for model in ("steady", "shaky")}
    models = [puppet(folder, model) for model, folder in folders.items()]
    config = a_config(*models, slots=2, isolation="per_model", limits=RESTART)
    with serving(tmp_path, config) as server:
        workers = set(server.worker_pids())
        assert len(workers) == 2
        is_over = []

        def keep_asking():
            count = 0
            while not is_over:
                count += 1
                assert tags_of(server.infer("steady", row(count))) == [count]
            return count

        steady = [clients.submit(keep_asking) for _ in range(2)]
        for round_index in range(2):
            answer = server.infer("shaky", row(1, order))
            assert (answer.status, answer.code) == (503, "worker_lost"), answer.body
            assert name in answer.json["error"]
            assert tags_of(server.infer("shaky", row(50 + round_index))) == [50 + round_index]
        is_over.append(True)
        assert all(one.result() > 1 for one in steady)
        # One worker is still the one it was; the other is new.
        assert len(workers & set(server.worker_pids())) == 1
    loads = [sum("loaded" in note for note in folders[m].notes()) for m in ("steady", "shaky")]
    assert loads == [1, 3]


def test_model_that_always_crashes_comes_back_more_and_more_slowly(tmp_path, folder):
    """Each loss in a row doubles the pause before the next start; a success ends the row."""
    limits = {"restart_delay_min": "200ms", "restart_delay_max": "600ms"}
    with serving(tmp_path, a_config(puppet(folder), limits=limits)) as server:
        for tag in (1, 2, 3):
            answer = server.infer("puppet", row(tag, KILL))
            assert answer.code == "worker_lost"
        assert tags_of(server.infer("puppet", row(4))) == [4]
        assert server.infer("puppet", row(5, KILL)).code == "worker_lost"
        assert tags_of(server.infer("puppet", row(6))) == [6]
    begun_at_s = {note["tags"][0]: note["at_s"] for note in folder.notes() if "tags" in note}
    loaded_at_s = [note["at_s"] for note in folder.notes() if "loaded" in note]
    pauses_s = [loaded_at_s[n] - begun_at_s[tag] for n, tag in ((1, 1), (2, 2), (3, 3), (4, 5))]
    assert pauses_s[0] > 0.2
    assert pauses_s[1] > 0.4
    assert pauses_s[2] > 0.6
    assert pauses_s[3] > 0.2
    assert max(pauses_s) < 0.6 + 5.0


def test_hung_batch_costs_its_worker(tmp_path, folder, clients):
    """A batch past `batch_max` is failed, its worker replaced, and what waits is served."""
    with serving(tmp_path, a_config(puppet(folder, batch_max="400ms"), limits=RESTART)) as server:
        (stuck,) = server.worker_pids()
        started_at_s = time.monotonic()
        hung = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        waiting = clients.submit(server.infer, "puppet", row(2))
        answer = hung.result()
        assert (answer.status, answer.code) == (503, "worker_lost")
        assert "did not answer in time" in answer.json["error"]
        assert time.monotonic() - started_at_s > 0.4
        assert tags_of(waiting.result()) == [2]
        assert stuck not in server.worker_pids()
        assert "did not answer in time" in server.log()
    assert folder.batches() == [[1], [2]]


def test_late_request_does_not_cost_its_worker(tmp_path, folder):
    """A deadline that passes while its batch runs is no reason to restart anything."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        (worker,) = server.worker_pids()
        answer = server.infer("puppet", row(1, HOLD), headers={"headway-budget-ms": "200"})
        assert answer.status == 504
        folder.open()
        assert tags_of(server.infer("puppet", row(2))) == [2]
        assert server.worker_pids() == [worker]
        assert server.metric("headway_worker_losses_total") == 0
