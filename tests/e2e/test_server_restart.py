"""A server that ends and comes back on its port, under clients that try until they are answered."""

import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, free_port, serving, wait_ready, wait_until

SHARED_MEMORY = Path("/dev/shm")
RETRY_S = 0.02
CLIENTS = 8


class Retrying:
    """Clients that ask, one request after another, each until it has its answer."""

    def __init__(self, clients, port):
        self.port = port
        self.server = None
        self.ends = Counter()
        """How tries ended."""
        self.answers = []
        """Tags asked for, and tags answered."""
        self._stop = threading.Event()
        self._running = [clients.submit(self._ask, number) for number in range(CLIENTS)]

    def wait_for(self, count):
        """Until so many more were answered."""
        wanted = len(self.answers) + count
        wait_until(lambda: len(self.answers) >= wanted, f"{count} more are answered")

    def stop(self):
        """Until each has what it asked for last."""
        self._stop.set()
        for one in self._running:
            one.result()

    def _ask(self, client):
        tag = 1000 * (client + 1)
        while not self._stop.is_set():
            tag += 1
            while (answered := self._try(tag)) is None:
                time.sleep(RETRY_S)
            self.answers.append((tag, answered))

    def _try(self, tag):
        server = self.server
        if server is None:
            return None
        try:
            answer = server.infer("puppet", row(tag))
        except OSError:
            self.ends["no connection"] += 1
            return None
        self.ends[answer.status] += 1
        return tags_of(answer) if answer.status == 200 else None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_clients_that_retry_get_their_answers_over_restarts(tmp_path, folder, clients, number):
    """Ended in order or killed, and started again: no answer is wrong, and none is owed."""
    port = free_port()
    config = a_config(puppet(folder, batch={"linger": "2ms"}), server={"port": port, "grace": "1s"})
    retrying = Retrying(clients, port)
    for _ in range(3):
        with serving(tmp_path, config) as server:
            retrying.server = server
            retrying.wait_for(3 * CLIENTS)
            server.signal(number)
            assert server.exit_code() == (0 if number == signal.SIGTERM else -number)
    with serving(tmp_path, config) as server:
        retrying.server = server
        retrying.stop()
    assert [pair for pair in retrying.answers if pair[1] != [pair[0]]] == []
    assert set(retrying.ends) <= {200, 503, "no connection"}
    # What was computed twice was answered once.
    assert len({tag for tag, _ in retrying.answers}) == len(retrying.answers)


def test_what_waits_past_the_grace_is_told_and_may_come_back(tmp_path, folder, clients):
    """Every request that a server has taken is answered before it ends; its successor serves it."""
    port = free_port()
    config = a_config(
        puppet(folder, batch={"rows_max": 1}), server={"port": port, "grace": "300ms"}
    )
    with serving(tmp_path, config) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        waiting = [clients.submit(server.infer, "puppet", row(tag)) for tag in range(2, 22)]
        wait_until(lambda: server.metric("headway_queue_depth") == 20, "all wait")
        server.signal(signal.SIGTERM)
        ends = [one.result() for one in (held, *waiting)]
        assert {(end.status, end.code) for end in ends} == {(503, "unavailable")}
        assert server.exit_code() == 0
    with serving(tmp_path, config, port=port) as server:
        wait_ready(server)
        again = [clients.submit(server.infer, "puppet", row(tag)) for tag in range(1, 22)]
        assert [tags_of(one.result()) for one in again] == [[tag] for tag in range(1, 22)]


def test_a_killed_server_leaves_its_port_and_its_memory(tmp_path, folder):
    """The next one starts at once where the last one was killed, whatever that had in hand."""
    port = free_port()
    config = a_config(puppet(folder), server={"port": port})
    shared = set(SHARED_MEMORY.iterdir())
    for tag in (1, 2, 3):
        with serving(tmp_path, config) as server:
            assert tags_of(server.infer("puppet", row(tag))) == [tag]
            client = server.open_infer("puppet", row(9, HOLD))
            folder.wait_begun(9)
            server.signal(signal.SIGKILL)
            assert server.exit_code() == -signal.SIGKILL
            wait_until(lambda: not server.left(), "no process is left")
            client.close()
    assert set(SHARED_MEMORY.iterdir()) <= shared
