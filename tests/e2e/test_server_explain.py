"""What a client was told its request is called is what its story is found by."""

import json
import signal

from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, serving

from headway.cli import EXIT_OK, main

TIERS = {
    "low": {"priority": 9, "budget": "60s"},
    "live": {"priority": 0, "budget": "60s"},
}


def explained(capsys, *words):
    """A story, as data."""
    capsys.readouterr()
    assert main(["explain", *words, "--format", "json"]) == EXIT_OK
    return json.loads(capsys.readouterr().out)


def test_answer_names_its_request_and_the_journal_tells_its_story(
    tmp_path, folder, clients, capsys
):
    """Two behind a batch of lower priority, of which one expired, and that batch's own."""
    journal = str(tmp_path / "run.journal")
    config = a_config(puppet(folder), tiers=TIERS, journal={"path": journal})
    with serving(tmp_path, config) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD), headers={"headway-tier": "low"})
        folder.wait_begun(1)
        short = {"headway-tier": "live", "headway-budget-ms": "300"}
        late = server.infer("puppet", row(2), headers=short)
        waiting = clients.submit(server.infer, "puppet", row(3), headers={"headway-tier": "live"})
        folder.open()
        answered, first = waiting.result(), held.result()
        assert [late.status, answered.status, first.status] == [504, 200, 200]
        names = [answer.headers["headway-request-id"] for answer in (first, late, answered)]
        url = f"http://127.0.0.1:{server.port}"
        live = [explained(capsys, name, "--url", url) for name in names]
        server.signal(signal.SIGTERM)  # or the journal's last lines may not be written yet
        server.exit_code()
    assert len(set(names)) == 3
    stories = [explained(capsys, name, "--journal", journal) for name in names]
    assert [story["outcome"] for story in stories] == ["completed", "expired", "completed"]
    assert [story["priority"] for story in stories] == [9, 0, 0]
    # The server remembers all of it, and tells the same as what it wrote.
    assert live == stories
    for story in stories:
        assert story["model"] == "puppet"
        assert sum(story["parts_ns"].values()) == story["latency_ns"]
    (blocker,) = stories[1]["blocked_by"]
    assert (blocker["cause"], blocker["priority"]) == ("blocked_lower", 9)
    assert next(iter(stories[1]["parts_ns"])) == "blocked_lower"
    assert [len(story["runs"]) for story in stories] == [1, 0, 1]
    capsys.readouterr()
    assert main(["timeline", journal]) == EXIT_OK
    assert main(["report", "tail", journal]) == EXIT_OK
