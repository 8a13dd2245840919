"""What a server says over HTTP, and what is told of one that does not."""

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from headway.doctor.wire import ServerDoor
from headway.errors import ConfigError, HeadwayError

CONFIGS = {"ocr": {"name": "ocr", "max_batch_size": 8}, "odd": {"name": "odd"}}


class _Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.headers.get("authorization") not in {None, "Bearer secret"}:
            self.answer(401, "a key is needed")
        elif self.path == "/metrics":
            self.answer(200, "headway_queue_depth 3\n")
        elif self.path == "/cut":
            self.send_response(200)
            self.send_header("content-length", "100")
            self.end_headers()
            self.wfile.write(b"half of it")
        elif self.path.startswith("/v2/models/"):
            self.answer(200, json.dumps(CONFIGS[self.path.split("/")[3]]))
        else:
            self.answer(404, "there is nothing")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(200, json.dumps([{"name": name} for name in self.server.models]))

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    """In a thread of its own."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.models = ["ocr"]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def door_of(server: http.server.HTTPServer, key: str = "") -> ServerDoor:
    return ServerDoor(f"http://127.0.0.1:{server.server_port}", key)


def test_text_and_files_are_had(server, tmp_path) -> None:
    """Metrics as text, and as a file."""
    door = door_of(server, "secret")
    assert door.text("/metrics") == "headway_queue_depth 3\n"
    door.download("/metrics", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "headway_queue_depth 3\n"
    assert (door.is_here, door.port) == (True, server.server_port)


def test_rows_of_models_are_asked_for(server) -> None:
    """Of those that the server lists; one that does not say ends the list, not the visit."""
    assert door_of(server).rows_max() == {"ocr": 8}
    server.models = ["ocr", "odd"]
    assert door_of(server).rows_max() == {"ocr": 8}


def test_answer_that_ends_early_is_an_error(server, tmp_path) -> None:
    """A server that dies meanwhile leaves half of its steps; that is not all of them."""
    door = door_of(server)
    with pytest.raises(HeadwayError, match="/cut` did not answer to the end"):
        door.text("/cut")
    with pytest.raises(HeadwayError, match="/cut` did not answer to the end"):
        door.download("/cut", tmp_path / "file")


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:1", "ftp://a", "http://", "http://[bad", "http://a:99999", "http://a b"],
)
def test_what_is_no_url_is_refused(url) -> None:
    """Before anything is connected, and not as a fault of ours."""
    with pytest.raises(ConfigError, match="is no address of a server"):
        ServerDoor(url)


def test_refusal_is_told_with_the_servers_words(server) -> None:
    """The status and what it says, and that a key or another port may be needed."""
    with pytest.raises(HeadwayError, match="answered 404: there is nothing") as refused:
        door_of(server).text("/admin/records")
    assert "--key-file" in str(refused.value.hint)
    with pytest.raises(HeadwayError, match="answered 401"):
        door_of(server, "wrong").text("/metrics")


def test_server_that_is_not_there_is_told(server) -> None:
    """Nobody listens on a port that was just given back."""
    door = door_of(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(HeadwayError, match="does not answer"):
        door.text("/metrics")
    assert door.rows_max() == {}


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://host:none", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    """A scheme, a host and a number are needed."""
    with pytest.raises(ConfigError, match="no address of a server"):
        ServerDoor(url)


def test_ports_follow_the_scheme() -> None:
    """Without one it is the protocol's own; another host is not here."""
    assert ServerDoor("https://example.org").port == 443
    far = ServerDoor("http://example.org")
    assert (far.port, far.is_here) == (80, False)
