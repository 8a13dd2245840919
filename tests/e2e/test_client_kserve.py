"""KServe's own client against a whole server: REST and gRPC, JSON and binary, every datatype."""

import pytest
from tests.e2e.foreign import calls_of, kserve_python
from tests.e2e.samples_of_datatypes import SAMPLES, model_of
from tests.e2e.server import MODELS, a_config, serving


def flips():
    """A model for each datatype."""
    return [
        {
            "name": model_of(datatype),
            "path": f"{MODELS}/flip.py:Flip",
            "options": {"datatype": datatype},
        }
        for datatype in SAMPLES
    ]


@pytest.mark.timeout(300)  # the first run makes the client's environment
def test_all_calls_of_the_client(tmp_path):
    """Health, readiness, inference of every datatype in every form that the client has, errors."""
    python = kserve_python()
    config = a_config(*flips(), slots=2, server={"port": 0, "grpc": {"port": 0}})
    with serving(tmp_path, config) as server:
        url, address = f"http://127.0.0.1:{server.port}", f"127.0.0.1:{server.grpc_port}"
        seen = calls_of(python, "kserve_calls.py", url, address)
    said = "model `none` is not served"
    for kind, status in (("rest", 404), ("grpc", "NOT_FOUND")):
        one = seen[kind]
        assert one["wrong"] == {}, kind
        assert (one["live"], one["ready"], one["model ready"]) == (True, True, True)
        assert one["error"][0] == status
        assert said in one["error"][1]
    assert seen["rest"]["no such model ready"] is False
