"""What an operator asks a real server for: its last steps, a timeline of them, and a stream."""

import http.client
import json
import signal
from contextlib import closing, contextmanager

from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, serving, wait_until

from headway.app import kernel_of
from headway.observe import read_journal, replay


@contextmanager
def watching(server, path="/admin/events"):
    """A stream of events, read one by one."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
        connection.request("GET", path)
        yield connection.getresponse()


def next_event(stream):
    """Name and value of the next one."""
    found = {}
    for line in iter(stream.readline, b""):
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            found[name] = value
        elif "event" in found:
            return found["event"], json.loads(found["data"])
    return None


def test_records_replay_to_the_same_decisions(tmp_path, folder):
    """What is asked of the server is a journal of the last steps, as true as one on disk."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        for tag in range(5):
            assert server.infer("puppet", row(tag)).status == 200
        answer = server.get("/admin/records?seconds=3600")
        path = tmp_path / "last.journal"
        path.write_bytes(answer.body)
        header, records = read_journal(path)
        with closing(records):
            count, divergence = replay(kernel_of(header), records)
        assert divergence is None
        assert count >= 10


def test_timeline_has_the_batches_that_ran(tmp_path, folder):
    """As many slices of the model as batches were started."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        for tag in range(5):
            assert server.infer("puppet", row(tag)).status == 200
        batches = server.metric("headway_batches_total", model="puppet")
        answer = server.get("/admin/timeline?seconds=60")
        slices = [
            each
            for each in answer.json["traceEvents"]
            if each["name"] == "puppet" and "requests_count" in each.get("args", {})
        ]
        assert len(slices) == batches > 0


def test_stream_tells_what_waits_and_what_runs(tmp_path, folder, clients):
    """A glance at first, then what is new; the kernel's own counts."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        waiting = clients.submit(server.infer, "puppet", row(2))
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "one waits")
        with watching(server) as stream:
            name, glance = next_event(stream)
            assert (name, glance["queues"][0]["depth"]) == ("whole", 1)
            assert [each["rows"] for each in glance["devices"][0]["running"]] == [1]
            folder.open()
            assert (held.result().status, waiting.result().status) == (200, 200)
            ended = []
            while len(ended) < 2:
                name, glance = next_event(stream)
                assert name == "next"
                ended += glance["ended"]
            assert glance["queues"][0]["depth"] == 0
        assert server.get("/admin/board").json["tiers"][0]["start"]["in_time"] >= 2


def test_server_that_is_watched_ends_at_once(tmp_path, folder):
    """A stream never ends by itself, so it is ended; nobody waits for the grace time."""
    config = a_config(puppet(folder), server={"port": 0, "grace": "60s"})
    with serving(tmp_path, config) as server, watching(server) as stream:
        assert next_event(stream)[0] == "whole"
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
        while next_event(stream) is not None:
            pass


def test_viewer_that_leaves_makes_room(tmp_path, folder):
    """As many may watch as is configured; the next is refused until one has gone."""
    config = a_config(puppet(folder), observe={"viewers_max": 1})
    with serving(tmp_path, config) as server:
        with watching(server) as stream:
            assert next_event(stream)[0] == "whole"
            refused = server.get("/admin/events")
            assert (refused.status, refused.code) == (503, "unavailable")
        wait_until(lambda: streams_begin(server), "there is room again")


def streams_begin(server):
    """Whether a stream can be had."""
    with watching(server) as stream:
        return stream.status == 200


def test_page_and_its_answers_are_at_the_admin_port_alone(tmp_path, folder):
    """Where management has a port, clients' port has none of it."""
    config = a_config(puppet(folder), server={"port": 0, "admin": {"port": 0}})
    with serving(tmp_path, config) as server:
        for path in ("/ui", "/admin/board", "/admin/records", "/admin/timeline", "/admin/events"):
            assert server.get(path).status == 403, path
            if path != "/admin/events":
                assert server.call("GET", path, port=server.admin_port).status == 200, path
        assert f"page on http://127.0.0.1:{server.admin_port}/ui" in server.log()


def test_management_without_a_key_is_refused_by_a_stranger_s_name(tmp_path, folder):
    """At both ports; by the server's own it is answered, and requests are by any."""
    admin = {"port": 0, "hosts": ["gpu-1.example.com"]}
    config = a_config(puppet(folder), server={"port": 0, "admin": admin})
    with serving(tmp_path, config) as server:
        for path in ("/ui", "/admin/board", "/metrics"):
            assert status_by(server.admin_port, path, "evil.example.com") == 403, path
            assert status_by(server.admin_port, path, "gpu-1.example.com") == 200, path
        assert status_by(server.port, "/v2/models/puppet", "evil.example.com") == 200


def status_by(port, path, host):
    """Of the answer to who calls the server so."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", path, headers={"host": host})
        return connection.getresponse().status
