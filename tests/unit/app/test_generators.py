"""What a server's generators do to the server."""

from types import SimpleNamespace

import pytest

from headway.app.generators import Generators


@pytest.mark.parametrize(
    ("engine", "ready", "expected"),
    [(True, ["model"], True), (True, ["model", None], False), (False, ["model"], False)],
)
def test_server_is_ready_once_its_generators_are(engine, ready, expected):
    """Whoever asks a server that is ready for an answer gets one, and not that it loads."""
    all_of_them = [SimpleNamespace(ready=each) for each in ready]
    inner = SimpleNamespace(is_ready=engine)
    assert Generators(all_of_them, None).beside(inner).is_ready is expected


def test_server_without_generators_is_not_changed():
    """Its calls pass through nothing more."""
    inner = SimpleNamespace(is_ready=True)
    assert Generators([], None).beside(inner) is inner
