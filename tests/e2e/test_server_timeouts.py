"""Deadlines, kept by a timer and not by chance: who is told, when, and what limit it was."""

from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, serving, wait_until

PATIENT = {"standard": {"budget": "60s"}}
LATE_S = 3.0
"""What an answer at a deadline may be late by here; a batch that is held lasts for ever."""


def test_waiting_request_is_told_at_its_own_deadline(tmp_path, folder, clients):
    """Behind a batch without end, 504 comes at the smallest of the limits, and names it."""
    tiers = {**PATIENT, "short": {"budget": "250ms"}}
    short = {"headway-tier": "short"}
    cases = [
        ({"headers": {"headway-budget-ms": "250"}}, "headway-budget-ms"),
        ({"parameters": {"timeout": 250_000}}, "timeout"),
        ({"parameters": {"timeout": 250_000}, "headers": {"headway-budget-ms": "9000"}}, "timeout"),
        ({"headers": short}, "tier"),
        ({"headers": {**short, "headway-budget-ms": "60000"}}, "tier"),
        ({"headers": short, "parameters": {"timeout": 60_000_000}}, "tier"),
    ]
    with serving(tmp_path, a_config(puppet(folder), tiers=tiers)) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        for how, limit in cases:
            answer = server.infer("puppet", row(2), **how)
            assert (answer.status, answer.code) == (504, "deadline_exceeded"), how
            assert (answer.json["stage"], answer.json["limit"]) == ("waiting", limit)
            assert 0.2 < answer.elapsed_s < 0.25 + LATE_S
        assert not held.done()
        assert server.metric("headway_queue_depth") == 0
        folder.open()
        assert tags_of(held.result()) == [1]
        assert server.metric("headway_requests_total", outcome="expired") == len(cases)
        assert server.metric("headway_deadline_violations_total") == len(cases)
    assert folder.batches() == [[1]]


def test_running_request_is_told_too_and_its_neighbours_are_served(tmp_path, folder, clients):
    """Who expires inside a batch hears it then; the others get their own rows; the slot returns."""
    with serving(tmp_path, a_config(puppet(folder), tiers=PATIENT)) as server:
        first = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        budgets = {2: None, 3: {"headway-budget-ms": "1500"}, 4: None}
        members = {}
        for tag, headers in budgets.items():
            rows = row(tag, HOLD) + row(tag + 100)
            members[tag] = clients.submit(server.infer, "puppet", rows, headers=headers)
            count = len(members)
            wait_until(lambda n=count: server.metric("headway_queue_depth") == n, "it waits")
        folder.open(1)
        folder.wait_begun(3)
        late = members[3].result()
        assert (late.status, late.json["stage"]) == (504, "running")
        assert 1.4 < late.elapsed_s < 1.5 + LATE_S
        assert not members[2].done()
        assert server.metric("headway_slots_busy") == 1
        folder.open()
        assert tags_of(members[2].result()) == [2, 102]
        assert tags_of(members[4].result()) == [4, 104]
        assert tags_of(first.result()) == [1]
        wait_until(lambda: server.metric("headway_slots_busy") == 0, "the slot is free")
        assert tags_of(server.infer("puppet", row(5))) == [5]
    assert folder.batches() == [[1], [2, 102, 3, 103, 4, 104], [5]]


def test_slot_of_an_expired_batch_is_used_again(tmp_path, folder):
    """When all of a batch expired, its slot is free once the batch ends, and not before."""
    with serving(tmp_path, a_config(puppet(folder), tiers=PATIENT)) as server:
        late = server.infer("puppet", row(1, HOLD), headers={"headway-budget-ms": "300"})
        assert (late.status, late.json["stage"]) == (504, "running")
        assert server.metric("headway_slots_busy") == 1
        blocked = server.infer("puppet", row(2), headers={"headway-budget-ms": "200"})
        assert (blocked.status, blocked.json["stage"]) == (504, "waiting")
        folder.open()
        wait_until(lambda: server.metric("headway_slots_busy") == 0, "the slot is free")
        assert tags_of(server.infer("puppet", row(3))) == [3]
        assert server.metric("headway_worker_losses_total") == 0
    assert folder.batches() == [[1], [3]]


def test_deadline_that_has_passed_is_told_at_once(tmp_path, folder):
    """A budget that is used up at arrival is answered 504 and never run."""
    with serving(tmp_path, a_config(puppet(folder), tiers=PATIENT)) as server:
        for how in ({"headers": {"headway-budget-ms": "0"}}, {"parameters": {"timeout": 1}}):
            answer = server.infer("puppet", row(1), **how)
            assert (answer.status, answer.json["stage"]) == (504, "arriving")
            assert answer.elapsed_s < LATE_S
        assert server.infer("puppet", row(2)).status == 200
        assert server.metric("headway_requests_total", reason="deadline_past") == 2
    assert folder.batches() == [[2]]


def test_no_limit_of_its_own_leaves_the_tier(tmp_path, folder):
    """`timeout: 0` and no header run under the tier's budget, as the reply says."""
    with serving(tmp_path, a_config(puppet(folder), tiers=PATIENT)) as server:
        answer = server.infer("puppet", row(1), parameters={"timeout": 0})
        assert tags_of(answer) == [1]
        assert answer.json["parameters"]["budget_ms"] == 60_000
        shorter = server.infer("puppet", row(2), headers={"headway-budget-ms": "5000"})
        assert shorter.json["parameters"]["budget_ms"] == 5_000
