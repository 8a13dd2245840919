"""Requests that share a batch: together when they may, apart when they must, each its own rows."""

import http.client
import json

import pytest
from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import MODELS, a_config, infer_body, serving, wait_until

CALLERS = 64
CALLS = 12


def call_often(port, caller):
    """One client on one connection: different rows in every request; returns what was wrong."""
    wrong = []
    batched = 0
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
    try:
        for call in range(CALLS):
            count = 1 + (caller + call) % 3
            rows = [[1 + caller, 0, call, place] for place in range(count)]
            connection.request("POST", "/v2/models/puppet/infer", infer_body(rows))
            response = connection.getresponse()
            answer = json.loads(response.read())
            flat = [value for one in rows for value in one]
            if response.status != 200 or answer["outputs"][0]["data"] != flat:
                wrong.append((rows, answer))
            else:
                batched += answer["parameters"]["batch_rows"] > count
    finally:
        connection.close()
    return wrong, batched


@pytest.mark.parametrize("linger", ["0ms", "3ms"])
def test_rows_go_back_to_their_callers(tmp_path, folder, clients, linger):
    """64 clients at once, batches of many of them, and every row comes back to who sent it."""
    model = puppet(folder, batch={"rows_max": 32, "linger": linger})
    with serving(tmp_path, a_config(model, slots=2)) as server:
        callers = [clients.submit(call_often, server.port, caller) for caller in range(CALLERS)]
        ends = [caller.result() for caller in callers]
        assert [wrong for wrong, _ in ends if wrong] == []
        assert sum(batched for _, batched in ends) > CALLERS
        metrics = server.metrics()
        assert metrics.total("headway_requests_total", outcome="completed") == CALLERS * CALLS
        assert metrics.total("headway_queue_depth") == metrics.total("headway_slots_busy") == 0
    batches = folder.batches()
    assert max(map(len, batches)) <= 32
    assert len(batches) < CALLERS * CALLS


def test_whatever_waits_when_a_slot_frees_is_one_batch(tmp_path, folder, clients):
    """Without any linger, four that queued while the slot was taken run as one."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        asked = [clients.submit(server.infer, "puppet", row(tag)) for tag in (2, 3, 4, 5)]
        wait_until(lambda: server.metric("headway_queue_depth") == 4, "four wait")
        folder.open()
        assert tags_of(held.result()) == [1]
        assert [tags_of(one.result()) for one in asked] == [[2], [3], [4], [5]]
        assert all(one.result().json["parameters"]["batch_rows"] == 4 for one in asked)
    (first, second) = folder.batches()
    assert first == [1]
    assert sorted(second) == [2, 3, 4, 5]


def test_different_shapes_never_share_a_batch(tmp_path, folder, clients):
    """Rows of three widths wait together and run apart; those of one width run together."""
    model = puppet(folder, options={"columns": -1}, batch={"rows_max": 8})
    rows = {tag: [[float(tag), 0.0] + [float(tag)] * (tag % 3)] for tag in range(2, 11)}
    with serving(tmp_path, a_config(model)) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        asked = {tag: clients.submit(server.infer, "puppet", rows[tag]) for tag in rows}
        wait_until(lambda: server.metric("headway_queue_depth") == len(rows), "all wait")
        folder.open()
        assert tags_of(held.result()) == [1]
        assert {tag: one.result().rows for tag, one in asked.items()} == rows
    batches = [note for note in folder.notes() if "tags" in note][1:]
    assert sorted(note["columns"] for note in batches) == [2, 3, 4]
    for note in batches:
        assert sorted(note["tags"]) == [tag for tag in rows if 2 + tag % 3 == note["columns"]]


def test_parameters_that_reach_the_model_split_batches(tmp_path, folder, clients):
    """Requests that differ in what the model takes run apart, and each is computed by its own.

    What only says how to schedule, or is meant for somebody else, neither counts nor gets in.
    """
    hows = [
        {"trace": "a"},
        {"timeout": 30_000_000, "trace": "b"},
        {"scale": 2},
        {"scale": 2, "priority": 1, "headway_note": "c"},
    ]
    with serving(tmp_path, a_config(puppet(folder))) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        asked = [
            clients.submit(server.infer, "puppet", row(10 + index), parameters=how)
            for index, how in enumerate(hows)
        ]
        wait_until(lambda: server.metric("headway_queue_depth") == 4, "four wait")
        folder.open()
        assert held.result().status == 200
        for index, (how, one) in enumerate(zip(hows, asked, strict=True)):
            (sent,) = row(10 + index)
            assert one.result().rows == [[how.get("scale", 1) * value for value in sent]]
    assert sorted(sorted(tags) for tags in folder.batches()[1:]) == [[10, 11], [12, 13]]


def test_model_without_a_batch_axis_runs_one_by_one(tmp_path, folder, clients):
    """Where rows may not be put together, each request is a batch, whatever `rows_max` says."""
    model = puppet(folder, options={"can_batch": False})
    with serving(tmp_path, a_config(model)) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        asked = [clients.submit(server.infer, "puppet", row(tag) + row(tag)) for tag in (2, 3)]
        wait_until(lambda: server.metric("headway_queue_depth") == 2, "two wait")
        folder.open()
        assert tags_of(held.result()) == [1]
        assert [tags_of(one.result()) for one in asked] == [[2, 2], [3, 3]]
    assert sorted(folder.batches()) == [[1], [2, 2], [3, 3]]


def test_models_of_one_server_do_not_mix(tmp_path, folder, clients):
    """Two models on the same slots each get their own requests."""
    other = {
        "name": "stamped",
        "path": f"{MODELS}/stamped.py:Stamped",
        "options": {"stamp": 7},
    }
    with serving(tmp_path, a_config(puppet(folder), other, slots=2)) as server:
        asked = {
            tag: clients.submit(server.infer, ("puppet", "stamped")[tag % 2], row(tag))
            for tag in range(1, 61)
        }
        for tag, one in asked.items():
            assert one.result().rows == [row(tag)[0] + ([7.0] if tag % 2 else [])]
