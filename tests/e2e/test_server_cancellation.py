"""Clients that hang up: noticed at once, waiting or running, counted, and never in vain."""

import time

import pytest
from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, serving, wait_until

NOTICED_S = 1.5
"""The server promises some 50 ms; the rest is for machines that do other things."""
BOTH_WAYS = pytest.mark.parametrize("is_chunked", [False, True])


def wait_cancelled(server, count):
    """Until so many requests were counted as cancelled; returns how long it took."""

    def is_so():
        return server.metric("headway_requests_total", outcome="cancelled") == count

    return wait_until(is_so, f"{count} requests are cancelled")


@BOTH_WAYS
def test_client_that_leaves_while_waiting_is_never_run(tmp_path, folder, clients, is_chunked):
    """Hung up in the queue: cancelled while the slot is still held, and not executed later."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        client = server.open_infer("puppet", row(2), is_chunked=is_chunked)
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "it waits")
        client.close()
        assert wait_cancelled(server, 1) < NOTICED_S
        assert server.metric("headway_queue_depth") == 0
        folder.open()
        assert tags_of(held.result()) == [1]
        assert tags_of(server.infer("puppet", row(3))) == [3]
        assert server.metric("headway_deadline_violations_total") == 0
    assert folder.batches() == [[1], [3]]


@BOTH_WAYS
def test_client_that_leaves_while_running_frees_the_slot(tmp_path, folder, clients, is_chunked):
    """Hung up in a batch: counted at once; its neighbour is served; the slot is used again."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        first = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        stays = clients.submit(server.infer, "puppet", row(2, HOLD))
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "one waits")
        leaves = server.open_infer("puppet", row(3), is_chunked=is_chunked)
        wait_until(lambda: server.metric("headway_queue_depth") == 2, "both wait")
        folder.open(1)
        folder.wait_begun(3)
        leaves.close()
        assert wait_cancelled(server, 1) < NOTICED_S
        assert not stays.done()
        folder.open()
        assert tags_of(first.result()) == [1]
        assert tags_of(stays.result()) == [2]
        wait_until(lambda: server.metric("headway_slots_busy") == 0, "the slot is free")
        assert tags_of(server.infer("puppet", row(4))) == [4]
    assert folder.batches() == [[1], [2, 3], [4]]


def test_crowd_that_leaves_at_once(tmp_path, folder, clients):
    """Fifty hang up together: fifty cancelled, none executed, every connection given back."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        fds_before = server.fd_count()
        crowd = [
            server.open_infer("puppet", row(100 + n), is_chunked=n % 2 == 0) for n in range(50)
        ]
        wait_until(lambda: server.metric("headway_queue_depth") == 50, "all wait")
        for client in crowd:
            client.close()
        assert wait_cancelled(server, 50) < 2 * NOTICED_S
        wait_until(lambda: server.fd_count() <= fds_before + 2, "its sockets are closed")
        folder.open()
        assert tags_of(held.result()) == [1]
        assert server.metric("headway_requests_total", outcome="completed") == 1
    assert folder.batches() == [[1]]


def test_client_that_only_sends_half(tmp_path, folder):
    """A request that never became whole is no request: nothing runs, nothing is counted."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        client = server.open_infer("puppet", row(1))
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        client.sendall(b"POST /v2/models/puppet/infer HTTP/1.1\r\ncontent-length: 999\r\n\r\n{")
        client.close()
        started_at_s = time.monotonic()
        assert tags_of(server.infer("puppet", row(2))) == [2]
        assert time.monotonic() - started_at_s < NOTICED_S
        assert server.metric("headway_requests_total") == 2
    assert folder.batches() == [[1], [2]]
