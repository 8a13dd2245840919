"""Models that come, change and go under a running server, without a failed request or a leak."""

import threading

import pytest
from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, Folder, puppet, row
from tests.e2e.server import MODELS, a_config, serving, wait_until

ADMIN = {"port": 0, "admin": {"can_override": True}}
RELOADS = 10


def stamped(**options):
    """The model that stamps its rows."""
    return {"name": "stamped", "path": f"{MODELS}/stamped.py:Stamped", "options": options}


def state_is(server, model, state):
    """Until the repository index says so."""
    wait_until(lambda: server.state_of(model) == state, f"`{model}` is {state}")


class Asking:
    """Clients that ask the stamped model for three rows at a time, until told to stop."""

    def __init__(self, server, clients, count=4):
        self._server = server
        self._stop = threading.Event()
        self.seen = []
        """Rows asked for, and the answer."""
        self._clients = [clients.submit(self._ask, client) for client in range(count)]

    def _ask(self, client):
        while not self._stop.wait(0.03):
            rows = [row(1 + client)[0], row(100)[0], row(101)[0]]
            self.seen.append((rows, self._server.infer("stamped", rows)))

    def wait_for(self, count):
        """Until so many more were answered."""
        wanted = len(self.seen) + count
        wait_until(lambda: len(self.seen) >= wanted, f"{count} more are answered")

    def answers(self):
        """Stop, and everything that was asked and answered."""
        self._stop.set()
        for client in self._clients:
            client.result()
        return self.seen


@pytest.mark.parametrize("isolation", ["shared", "per_model"])
def test_reloads_under_load_fail_nobody(tmp_path, clients, isolation):
    """Ten reloads while clients ask: every answer is whole, of one version, and the one it says."""
    config = a_config(stamped(), slots=2, isolation=isolation, server=ADMIN)
    with serving(tmp_path, config) as server:
        asking = Asking(server, clients)
        after = {}
        for stamp in range(1, RELOADS + 1):
            settings = {"version": str(stamp), "options": {"stamp": stamp}}
            loaded = server.load("stamped", settings)
            assert loaded.status == 200, loaded.body
            after[stamp] = server.infer("stamped", row(1)).rows[0][-1]
            asking.wait_for(8)
        answers = asking.answers()
        wait_until(lambda: len(server.worker_pids()) == 1, "old workers are gone")
        wait_until(lambda: server.metric("headway_replicas") == 1, "old replicas are gone")
    assert after == {stamp: stamp for stamp in after}
    stamps = set()
    for rows, answer in answers:
        assert answer.status == 200, answer.body
        (stamp,) = {one[-1] for one in answer.rows}
        assert [one[:-1] for one in answer.rows] == rows
        # The first version is "1", too, and stamps 0.
        assert int(answer.json["model_version"]) == max(1, stamp)
        stamps.add(stamp)
    assert stamps >= set(range(1, RELOADS + 1))


def test_changed_file_is_read_anew(tmp_path, clients):
    """A load without settings reads the model as it is now; old and new never meet in a reply."""
    file = tmp_path / "stamp"
    file.write_text("1")
    with serving(tmp_path, a_config(stamped(file=str(file)), slots=2)) as server:
        asking = Asking(server, clients, count=2)
        for stamp in (2, 3, 4):
            file.write_text(str(stamp))
            assert server.load("stamped").status == 200
            assert server.infer("stamped", row(1)).rows == [[*row(1)[0], stamp]]
            asking.wait_for(4)
        for _, answer in asking.answers():
            assert len({one[-1] for one in answer.rows}) == 1


def test_running_batch_keeps_the_old_version_alive(tmp_path, folder, clients):
    """A reload does not wait for a held batch; that one is answered by the version it began on."""
    with serving(tmp_path, a_config(puppet(folder), slots=2, server=ADMIN)) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        assert server.load("puppet", {"version": "2"}).status == 200
        assert server.infer("puppet", row(2)).json["model_version"] == "2"
        assert server.metric("headway_replicas", state="draining") == 1
        folder.open()
        assert tags_of(held.result()) == [1]
        assert held.result().json["model_version"] == "1"
        wait_until(lambda: server.metric("headway_replicas") == 1, "the old version is gone")


def test_failed_load_keeps_the_old_version(tmp_path, folder):
    """A new version that raises, dies or is misconfigured is told of, and the old one serves on."""
    limits = {"restart_delay_min": "10ms"}
    config = a_config(puppet(folder), server=ADMIN, isolation="per_model", limits=limits)
    with serving(tmp_path, config) as server:
        for settings, status, text in (
            ({"version": "2", "options": {"folder": "f", "on_load": "raise"}}, 500, "FileNotFound"),
            ({"options": {"folder": str(folder.path), "on_load": "raise"}}, 500, "told not to"),
            ({"options": {"folder": str(folder.path), "on_load": "die"}}, 500, "SIGKILL"),
            ({"options": {"folder": str(folder.path), "wings": 2}}, 500, "wings"),
            ({"path": "nowhere.py:Nothing"}, 500, "nowhere.py"),
            ({"batch": {"rows_max": 0}}, 400, "rows_max"),
            ({"colour": "red"}, 400, "colour"),
        ):
            failed = server.load("puppet", settings)
            assert failed.status == status, (settings, failed.body)
            assert text in failed.json["error"]
            assert failed.code == ("load_failed" if status == 500 else "bad_config")
            answer = server.infer("puppet", row(1))
            assert tags_of(answer) == [1]
            assert answer.json["model_version"] == "1"
            assert server.state_of("puppet") == "READY"
        assert server.get("/v2/health/ready").status == 200
        wait_until(lambda: len(server.worker_pids()) == 1, "failed workers are gone")


def test_unload_finishes_what_the_model_holds(tmp_path, folder, clients):
    """What runs and waits is answered, new requests get 404, and the index follows."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        waiting = [clients.submit(server.infer, "puppet", row(tag)) for tag in (2, 3)]
        wait_until(lambda: server.metric("headway_queue_depth") == 2, "two wait")
        unloading = clients.submit(server.unload, "puppet")
        state_is(server, "puppet", "UNLOADING")
        refused = server.infer("puppet", row(9))
        assert (refused.status, refused.code) == (404, "model_not_found")
        assert not unloading.done()
        folder.open()
        assert tags_of(held.result()) == [1]
        assert [tags_of(one.result()) for one in waiting] == [[2], [3]]
        assert unloading.result().status == 200
        assert server.state_of("puppet") == "UNAVAILABLE"
        assert server.infer("puppet", row(9)).status == 404
        assert server.get("/v2/models/puppet/ready").status == 503
        # Gone on purpose: no reason to take traffic away from the others.
        assert server.get("/v2/health/ready").status == 200
        assert server.unload("puppet").status == 404
        assert server.load("puppet").status == 200
        assert tags_of(server.infer("puppet", row(4))) == [4]
    assert [tag for tags in folder.batches() for tag in tags if tag == 9] == []


@pytest.mark.parametrize("isolation", ["shared", "per_model"])
def test_load_cycles_leave_nothing_behind(tmp_path, folder, isolation):
    """Eight unloads and loads: descriptors, threads, processes and memory are as they were."""
    config = a_config(puppet(folder), stamped(), isolation=isolation)
    with serving(tmp_path, config) as server:

        def cycle():
            assert server.unload("puppet").status == 200
            assert server.load("puppet").status == 200
            assert tags_of(server.infer("puppet", row(1))) == [1]

        def counts():
            return len(server.worker_pids()), server.fd_count(), server.thread_count()

        cycle()
        before, rss_before_mib = counts(), server.rss_mib()
        for _ in range(8):
            cycle()
        wait_until(lambda: counts() <= before, f"it holds no more than {before}")
        assert server.rss_mib() < rss_before_mib + 8
        assert counts()[0] == (1 if isolation == "shared" else 2)


def test_loading_another_model_does_not_unready_the_server(tmp_path, folder, clients):
    """A model that the configuration does not name loads beside the others: they stay ready."""
    slow = Folder(tmp_path / "slow")
    with serving(tmp_path, a_config(puppet(folder), server=ADMIN)) as server:
        settings = puppet(slow, options={"on_load": "hold"})
        loading = clients.submit(server.load, "slow", settings)
        state_is(server, "slow", "LOADING")
        assert server.get("/v2/health/ready").status == 200
        assert server.get("/v2/models/slow/ready").status == 503
        early = server.infer("slow", row(1))
        assert (early.status, early.code) == (503, "unavailable")
        assert tags_of(server.infer("puppet", row(2))) == [2]
        slow.open()
        assert loading.result().status == 200
        assert tags_of(server.infer("slow", row(3))) == [3]
        names = {line["name"] for line in server.post("/v2/repository/index", {"ready": True}).json}
        assert names == {"puppet", "slow"}


def test_overrides_and_strangers_are_refused_by_default(tmp_path, folder):
    """Unless it is allowed, nobody brings settings or paths of their own, and names must exist."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        assert server.load("puppet", {"version": "2"}).status == 400
        assert server.load("other", {"path": "other.py:Other"}).status == 400
        assert server.load("other").status == 404
        assert server.unload("other").status == 404
        assert tags_of(server.infer("puppet", row(1))) == [1]


def test_management_is_refused_where_it_is_switched_off(tmp_path, folder):
    """With `can_load: false` nobody unloads or reloads what the server was started with."""
    closed = {"port": 0, "admin": {"can_load": False}}
    with serving(tmp_path, a_config(puppet(folder), server=closed)) as server:
        assert server.unload("puppet").status == 403
        assert server.load("puppet").status == 403
        assert tags_of(server.infer("puppet", row(1))) == [1]
