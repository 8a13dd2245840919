"""The conformance suite against our own server, and against one that does everything wrong."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from tests.e2e.server import serving

from headway.cli import main
from headway.conformance import Outcome, cases_of, run_cases
from headway.errors import HeadwayError

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """How our own server does, with the configuration of the examples."""
    home = tmp_path_factory.mktemp("conformance")
    config = yaml.safe_load((EXAMPLES / "conformance.yaml").read_text())
    for model in config["models"]:
        model["path"] = str(EXAMPLES / model["path"])
    config["server"] = {"port": 0, "grpc": {"port": 0}}
    with serving(home, config) as server:
        return run_cases(
            f"http://127.0.0.1:{server.port}", f"127.0.0.1:{server.grpc_port}", can_load=True
        )


def test_our_own_server_passes_every_case(results):
    """None failed, and none was left out."""
    assert [result for result in results if result.outcome is not Outcome.PASSED] == []
    assert len(results) == len(cases_of("http")) + len(cases_of("grpc")) > 150


def test_names_of_cases_are_their_own(results):
    """A table of who passes what needs them to be."""
    names = [(result.area, result.name) for result in results]
    assert len(set(names)) == len(names)


class Wrong(BaseHTTPRequestHandler):
    """Answers everything with 200 and an empty object."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """As said."""
        length = int(self.headers.get("content-length") or 0)
        self.rfile.read(length)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_GET  # noqa: N815 (the name that the base class calls)

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def wrong():
    """Such a server's address."""
    server = HTTPServer(("127.0.0.1", 0), Wrong)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_server_that_does_everything_wrong_passes_hardly_any_case(wrong, tmp_path, capsys):
    """Only those that ask for a 200 and no more; and the exit code says that some failed."""
    path = tmp_path / "results.json"
    assert main(["conformance", wrong, "--json", str(path)]) == 1
    assert "expected" in capsys.readouterr().out
    cases = json.loads(path.read_text())["cases"]
    passed = {case["name"] for case in cases if case["outcome"] == "passed"}
    assert passed == {
        *("live is 200", "ready is 200", "/v2/ is /v2", "a model that serves is ready"),
    }


def test_where_there_is_no_server_that_is_said():
    """With its address, and not as a hundred failed cases."""
    with pytest.raises(HeadwayError, match=r"no server at `http://127\.0\.0\.1:9`"):
        run_cases("http://127.0.0.1:9", None)
