"""Who goes first when slots are taken, by every way in which a client may say so."""

from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, serving, wait_until

TIERS = {
    "urgent": {"priority": 1},
    "default": {"priority": 5},
    "bulk": {"priority": 9, "slot_class": "low"},
}
ONE_BY_ONE = {"batch": {"rows_max": 1}}


def wait_waiting(server, count):
    """Until so many requests wait."""
    wait_until(lambda: server.metric("headway_queue_depth") == count, f"{count} requests wait")


def test_urgent_requests_overtake_those_that_wait(tmp_path, folder, clients):
    """With the only slot held, requests go in the order of their priority however it was told."""
    ways = [
        (10, {}),
        (11, {"headers": {"headway-tier": "bulk"}}),
        (12, {}),
        (13, {"parameters": {"priority": 4}}),
        (14, {"headers": {"headway-priority": "3"}}),
        (15, {"parameters": {"priority": "2"}}),
        (16, {"headers": {"headway-tier": "urgent"}}),
        (17, {"headers": {"headway-tier": "bulk", "headway-priority": "8"}}),
        (18, {"parameters": {"priority": 0}}),
    ]
    with serving(tmp_path, a_config(puppet(folder, **ONE_BY_ONE), tiers=TIERS)) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        asked = []
        for tag, how in ways:
            asked.append(clients.submit(server.infer, "puppet", row(tag), **how))
            wait_waiting(server, len(asked))
        folder.open(1)
        answered = [tags_of(one.result()) for one in asked]
        assert tags_of(held.result()) == [1]
    assert answered == [[tag] for tag, _ in ways]
    assert folder.batches() == [[1], [16], [15], [14], [13], [10], [12], [18], [17], [11]]


def test_priority_reaches_over_models(tmp_path, folder, clients):
    """An urgent request for one model goes before those that wait for another on the same slot."""
    config = a_config(
        puppet(folder, "first", **ONE_BY_ONE), puppet(folder, "second", **ONE_BY_ONE), tiers=TIERS
    )
    with serving(tmp_path, config) as server:
        held = clients.submit(server.infer, "first", row(1, HOLD))
        folder.wait_begun(1)
        asked = []
        for tag in (2, 3, 4):
            asked.append(clients.submit(server.infer, "first", row(tag)))
            wait_waiting(server, len(asked))
        urgent = {"headway-tier": "urgent"}
        asked.append(clients.submit(server.infer, "second", row(9), headers=urgent))
        wait_waiting(server, len(asked))
        folder.open(1)
        for one in (held, *asked):
            assert one.result().status == 200
    assert folder.batches() == [[1], [9], [2], [3], [4]]


def test_fifo_ignores_priority(tmp_path, folder, clients):
    """Under `fifo` the order is that of arrival, whatever the tier."""
    config = a_config(puppet(folder, **ONE_BY_ONE), tiers=TIERS, policy={"kind": "fifo"})
    with serving(tmp_path, config) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        asked = []
        for tag, tier in ((2, "bulk"), (3, "urgent"), (4, "default")):
            headers = {"headway-tier": tier}
            asked.append(clients.submit(server.infer, "puppet", row(tag), headers=headers))
            wait_waiting(server, len(asked))
        folder.open(1)
        for one in (held, *asked):
            assert one.result().status == 200
    assert folder.batches() == [[1], [2], [3], [4]]


def test_unusable_wishes_are_refused(tmp_path, folder):
    """A tier that is not there, and a priority or budget that is no number, are the client's."""
    with serving(tmp_path, a_config(puppet(folder), tiers=TIERS)) as server:
        for how in (
            {"headers": {"headway-tier": "vip"}},
            {"headers": {"headway-priority": "high"}},
            {"headers": {"headway-budget-ms": "soon"}},
            {"parameters": {"priority": -1}},
            {"parameters": {"timeout": 1.5}},
        ):
            answer = server.infer("puppet", row(2), **how)
            assert (answer.status, answer.code) == (400, "invalid_request"), how
        assert server.infer("puppet", row(3)).status == 200
    assert folder.batches() == [[3]]
