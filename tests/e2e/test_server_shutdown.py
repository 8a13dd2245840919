"""The end of a server: orderly at the first signal, at once at the second, and never a leftover."""

import os
import signal
import time

import pytest
from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, free_port, serving, wait_until


def wait_gone(server):
    """Until no process of the server's group lives."""
    wait_until(lambda: not server.left(), "no process is left")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_admitted_requests_are_finished(tmp_path, folder, clients, number):
    """After the signal: not ready, live, new requests 503; who was admitted is answered; exit 0."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        waiting = [clients.submit(server.infer, "puppet", row(tag)) for tag in (2, 3)]
        wait_until(lambda: server.metric("headway_queue_depth") == 2, "two wait")
        server.signal(number)
        wait_until(lambda: server.get("/v2/health/ready").status == 503, "it is not ready", 3.0)
        assert server.get("/v2/health/live").status == 200
        refused = server.infer("puppet", row(9))
        assert (refused.status, refused.code) == (503, "unavailable")
        assert not held.done()
        folder.open()
        assert tags_of(held.result()) == [1]
        assert [tags_of(one.result()) for one in waiting] == [[2], [3]]
        assert server.exit_code() == 0
        wait_gone(server)
    assert [9] not in folder.batches()


def test_grace_ends(tmp_path, folder, clients):
    """What is not finished in the grace time is answered 503, and the server is gone soon after."""
    config = a_config(puppet(folder), server={"port": 0, "grace": "400ms"})
    with serving(tmp_path, config) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        waiting = clients.submit(server.infer, "puppet", row(2))
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "one waits")
        started_at_s = time.monotonic()
        server.signal(signal.SIGTERM)
        for one in (held, waiting):
            assert (one.result().status, one.result().code) == (503, "unavailable")
        assert time.monotonic() - started_at_s > 0.4
        assert server.exit_code() == 0
        wait_gone(server)
        assert "2 requests were not finished" in server.log()


def test_second_signal_ends_at_once(tmp_path, folder, clients):
    """Asked twice, it does not wait for its batch, and takes its workers along."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        server.signal(signal.SIGTERM)
        wait_until(lambda: server.get("/v2/health/ready").status == 503, "it drains")
        server.signal(signal.SIGTERM)
        assert server.exit_code(5.0) == -signal.SIGTERM
        wait_gone(server)
        with pytest.raises(OSError, match=r".*"):
            held.result()


def test_killed_server_leaves_no_worker(tmp_path, folder, clients):
    """A kill -9 of the server ends its workers, the busy ones too."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        server.signal(signal.SIGKILL)
        wait_gone(server)
        with pytest.raises(OSError, match=r".*"):
            held.result()


def test_signal_while_loading(tmp_path, folder):
    """A server that still loads is not ready, and ends at a signal without waiting for the load."""
    model = puppet(folder, options={"on_load": "hold"})
    port = free_port()
    config = a_config(model, server={"port": port})
    with serving(tmp_path, config, port=port) as server:
        wait_until(folder.notes, "the model loads")
        assert server.get("/v2/health/live").status == 200
        assert server.get("/v2/health/ready").status == 503
        assert server.state_of("puppet") == "LOADING"
        server.signal(signal.SIGTERM)
        assert server.exit_code(4.0) == 0
        wait_gone(server)
    assert len(folder.notes()) == 1


def test_drain_outlives_a_worker(tmp_path, folder, clients):
    """A worker that dies during the drain costs its batch; what waits is still served."""
    limits = {"restart_delay_min": "50ms"}
    with serving(tmp_path, a_config(puppet(folder), limits=limits)) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        waiting = clients.submit(server.infer, "puppet", row(2))
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "one waits")
        (worker,) = server.worker_pids()
        server.signal(signal.SIGTERM)
        wait_until(lambda: server.get("/v2/health/ready").status == 503, "it drains")
        os.kill(worker, signal.SIGKILL)
        assert held.result().code == "worker_lost"
        assert tags_of(waiting.result()) == [2]
        assert server.exit_code() == 0
        wait_gone(server)


def test_idle_connections_do_not_hold_it_up(tmp_path, folder):
    """A client that keeps its connection open is closed, not waited for."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        client = server.open_infer("puppet", row(1))
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        server.signal(signal.SIGTERM)
        assert server.exit_code(4.0) == 0
        assert client.recv(4096) == b""
        client.close()


def test_end_under_load_fails_nobody_who_was_there(tmp_path, folder, clients):
    """What was asked before the signal is answered 200; after it, 503 or no connection at all."""

    def keep_asking(client):
        seen = []
        while True:
            started_at_s = time.monotonic()
            try:
                seen.append((started_at_s, server.infer("puppet", row(client + 1)).status))
            except OSError:
                return [*seen, (started_at_s, "closed")]

    model = puppet(folder, batch={"linger": "3ms"})
    with serving(tmp_path, a_config(model, slots=2)) as server:
        asking = [clients.submit(keep_asking, client) for client in range(8)]
        loaded_at_s = time.monotonic() + 0.6
        wait_until(lambda: time.monotonic() > loaded_at_s, "it has been under load for a while")
        # What was on its way at the very moment may have arrived after it.
        before_s = time.monotonic() - 0.3
        server.signal(signal.SIGTERM)
        assert server.exit_code(10.0) == 0
        seen = [pair for one in asking for pair in one.result()]
    early = [status for started_at_s, status in seen if started_at_s < before_s]
    assert len(early) > 20
    assert set(early) == {200}
    assert {status for _, status in seen} <= {200, 503, "closed"}
