"""`headway explain`: one request's story, out of a journal or from a live server."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.recorded_run import record_run

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main
from headway.core import RequestArrived
from headway.observe import read_journal
from headway.units import format_duration


@pytest.fixture
def journal(tmp_path, capsys):
    """A simulated run with batches, expiries and a loss."""
    path = record_run(tmp_path / "run.journal")
    capsys.readouterr()
    return path


def explained(capsys, *words):
    """What is printed, as lines; nothing goes to stderr."""
    assert main(["explain", *map(str, words)]) == EXIT_OK
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


def refused(capsys, *words, code=EXIT_FAILED):
    """What is said of why not; nothing goes to stdout."""
    assert main(["explain", *map(str, words)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_story_of_a_request_is_told(journal, capsys):
    """Who it was, its fate, and where its time went."""
    lines = explained(capsys, 7, "--journal", journal)
    assert lines[0].startswith("Request 7 of ocr: 1 row, tier ")
    assert "Where its time went:" in lines


def test_json_is_the_story_itself(journal, capsys):
    """With causes that add up to the latency."""
    story = json.loads("\n".join(explained(capsys, 7, "--journal", journal, "--format", "json")))
    assert story["request_id"] == 7
    assert sum(story["parts_ns"].values()) == story["latency_ns"]


def test_worst_requests_are_told_one_after_the_other(journal, capsys):
    """As many as were asked for, with a rule between them."""
    lines = explained(capsys, "--worst", 3, "--journal", journal)
    assert sum(line.startswith("Request ") for line in lines) == 3
    assert lines.count("-" * 80) == 2
    stories = json.loads(
        "\n".join(explained(capsys, "--worst", 3, "--journal", journal, "--format", "json"))
    )
    ratios = [story["latency_ns"] / story["budget_ns"] for story in stories]
    assert ratios == sorted(ratios, reverse=True)


def test_every_request_of_a_run_has_a_story(journal, capsys):
    """Whatever became of it, each sentence can be made."""
    from headway.observe import read_journal
    from headway.report import story_lines, tell_worst

    header, records = read_journal(journal)
    steps = list(records)
    arrived = sum(type(step.event).__name__ == "RequestArrived" for step in steps)
    stories = tell_worst(lambda: steps, header.params.devices, arrived)
    assert {story.outcome for story in stories} == {"completed", "expired"}
    for story in stories:
        assert sum(story.parts_ns.values()) == story.latency_ns
        assert any("Where its time went" in line for line in story_lines(story))


def test_unknown_request_says_which_there_are(journal, capsys):
    """The numbers and the times that the journal covers."""
    said = refused(capsys, 999_999, "--journal", journal)
    assert "`run.journal` knows no request `999999`" in said
    arrivals = [
        record.now_ns
        for record in read_journal(journal)[1]
        if isinstance(record.event, RequestArrived)
    ]
    first, last = format_duration(arrivals[0]), format_duration(arrivals[-1])
    assert "hint: it tells of 1 to " in said
    assert f", which came between {first} and {last} after the start" in said


def test_journal_without_requests_says_so(journal, capsys):
    """Also of one that has no step at all."""
    header = journal.read_bytes().splitlines(keepends=True)[0]
    journal.write_bytes(header)
    assert "`run.journal` tells of no request at all" in refused(capsys, 1, "--journal", journal)
    assert "was answered or expired" in refused(capsys, "--worst", 3, "--journal", journal)


def test_cut_journal_is_read_as_far_as_it_goes(journal, capsys):
    """A crash leaves half a line; one that waited then is unfinished."""
    text = journal.read_bytes()
    arrival = text.rindex(b'"RequestArrived"', 0, len(text) // 2)
    line_end = text.index(b"\n", arrival) + 1
    number = int(text[arrival:line_end].split(b'"request_id":')[1].split(b",")[0])
    journal.write_bytes(text[: line_end + 20])
    lines = explained(capsys, number, "--journal", journal)
    assert lines[0].startswith(f"Request {number} of ocr")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give a request's id, or `--worst N`"),
        ([3, "--worst", 2], "give a request's id, or `--worst N`"),
        (["--worst", 101], "`101` stories are too many"),
        (["--worst", 0], "--worst"),
        (["x"], "x"),
    ],
)
def test_bad_usage_is_two(words, says, journal, capsys):
    """One of the two, within the limit."""
    assert says in refused(capsys, *words, "--journal", journal, code=EXIT_USAGE)


def test_source_is_one_of_the_two(journal, capsys, tmp_path):
    """A journal that is one, or a URL that is one."""
    assert "--url" in refused(capsys, 1, code=EXIT_USAGE)
    both = ["--journal", journal, "--url", "http://127.0.0.1:1"]
    assert "not allowed with" in refused(capsys, 1, *both, code=EXIT_USAGE)
    for url in ("127.0.0.1:1", "http://", "http://[bad", "http://127.0.0.1:99999"):
        assert "is no address of a server" in refused(capsys, 1, "--url", url, code=EXIT_USAGE)
    missing = tmp_path / "none.journal"
    assert "cannot read `" in refused(capsys, 1, "--journal", missing, code=EXIT_USAGE)
    (tmp_path / "empty.journal").write_bytes(b"")
    empty = tmp_path / "empty.journal"
    assert "is not a journal" in refused(capsys, 1, "--journal", empty, code=EXIT_USAGE)


# --- a live server --------------------------------------------------------------------------------


@contextmanager
def server(status, body, *, length=None):
    """Answers whatever it is asked, and remembers it."""
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("authorization")))
            self.send_response(status)
            self.send_header("content-length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}", asked
        finally:
            listening.shutdown()
            thread.join()


def test_live_server_is_asked_for_its_last_steps(journal, capsys, tmp_path):
    """As far back as was wanted, with the key; what it answers is read as a journal."""
    key = tmp_path / "key"
    key.write_text("secret\n")
    with server(200, journal.read_bytes()) as (url, asked):
        live = explained(capsys, 7, "--url", url + "/", "--last", "90s", "--key-file", key)
        explained(capsys, 7, "--url", url)
    assert asked == [
        ("/admin/records?seconds=90", "Bearer secret"),
        ("/admin/records?seconds=60", None),
    ]
    assert live == explained(capsys, 7, "--journal", journal)


def test_part_of_a_run_is_told_as_far_as_it_goes(journal, capsys):
    """A server remembers the last steps only; an older request is unknown, and that is said."""
    lines = journal.read_bytes().splitlines(keepends=True)
    body = b"".join([lines[0], *lines[-200:]])
    ended = [
        c
        for line in lines[-20:]
        for c in json.loads(line)["commands"]
        if "reason" in c or "batch_rows" in c
    ]
    number = ended[-1]["request_id"]
    with server(200, body) as (url, _):
        said = refused(capsys, 1, "--url", url)
        assert "knows no request `1`" in said
        assert explained(capsys, number, "--url", url)[0].startswith(f"Request {number} of ocr")


def test_server_that_says_no_or_nothing_is_an_error(capsys, tmp_path):
    """With its status, or why it could not be asked."""
    with server(403, b"no") as (url, _):
        said = refused(capsys, 1, "--url", url)
        assert f"`{url}/admin/records?seconds=60` answered 403: no" in said
        assert "hint: management may have a port or keys of its own" in said
    assert "does not answer" in refused(capsys, 1, "--url", url)
    missing = ["--key-file", tmp_path / "none"]
    assert "cannot read" in refused(capsys, 1, "--url", url, *missing, code=EXIT_USAGE)
    with server(200, b"cut", length=1_000) as (url, _):
        said = refused(capsys, 1, "--url", url)
        assert f"`{url}/admin/records?seconds=60` did not answer to the end" in said
    with server(200, b"hello") as (url, _):
        assert f"`{url}` did not answer with records" in refused(capsys, 1, "--url", url)
