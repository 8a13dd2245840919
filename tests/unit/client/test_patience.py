"""When a client asks again: in virtual time, against a scripted server, both clients alike."""

from random import Random

import httpx
import numpy as np
import pytest
from tests.unit.client.scripted_server import ScriptedServer, a_reply, an_error, ask, refused

from headway.client import Retries
from headway.client.answers import Answer
from headway.client.failures import Lost
from headway.errors import (
    DeadlineExceededError,
    HeadwayError,
    InvalidRequestError,
    RejectedError,
    UnavailableError,
    WorkerLostError,
)
from headway.units import NS_PER_MS

X = {"x": np.zeros((1, 2), np.float32)}
EXACT = Retries(jitter_ratio=0.0)
BOTH = pytest.mark.parametrize("kind", ["sync", "async"])


@BOTH
def test_refused_client_comes_back_when_it_was_told_to(kind):
    """It waits what the header says to the millisecond, not the whole second beside it."""
    server = ScriptedServer(refused(30), refused(70), a_reply())
    reply = ask(kind, server, "infer", "m", X, client_retries=EXACT)
    assert server.clock.slept_ns == [30 * NS_PER_MS, 70 * NS_PER_MS]
    assert reply.tries == 3
    assert reply["y"].tolist() == [1.0, 2.0]


@BOTH
def test_each_try_is_told_what_is_left_of_the_budget(kind):
    """Waits and tries come out of one budget, and what is left is rounded down."""
    server = ScriptedServer(refused(30), a_reply(), takes_ns=12_345_678)
    ask(kind, server, "infer", "m", X, budget="200ms", client_retries=EXACT)
    assert server.header("headway-budget-ms") == ["200.000", "157.654"]


@BOTH
def test_wait_that_does_not_fit_the_budget_is_a_refusal_at_once(kind):
    """Told to come back after its deadline, a client raises now, and says when to come back."""
    server = ScriptedServer(refused(200), a_reply())
    with pytest.raises(RejectedError) as caught:
        ask(kind, server, "infer", "m", X, budget=0.2, client_retries=EXACT)
    assert server.clock.slept_ns == []
    assert len(server.seen) == 1
    assert caught.value.retry_after_ns == 200 * NS_PER_MS
    assert caught.value.reason == "model_queue_full"


@BOTH
def test_without_a_budget_the_timeout_bounds_all_tries(kind):
    """No budget is sent, and the waits end where the client's timeout does."""
    server = ScriptedServer(refused(400))
    with pytest.raises(RejectedError):
        ask(kind, server, "infer", "m", X, client_timeout="1s", client_retries=EXACT)
    assert server.header("headway-budget-ms") == [None] * 3
    assert server.clock.slept_ns == [400 * NS_PER_MS] * 2


@BOTH
def test_tries_are_bounded(kind):
    """After `retries` further tries the last refusal is raised."""
    server = ScriptedServer(refused(1))
    with pytest.raises(RejectedError):
        ask(kind, server, "infer", "m", X, client_retries=2)
    assert len(server.seen) == 3


@BOTH
def test_no_retries_is_one_try(kind):
    """Whoever wants to decide for himself gets the first refusal."""
    server = ScriptedServer(refused(1))
    with pytest.raises(RejectedError):
        ask(kind, server, "infer", "m", X, client_retries=0)
    assert len(server.seen) == 1


@BOTH
@pytest.mark.parametrize(
    "broken",
    [
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("closed before an answer"),
    ],
)
def test_broken_connection_is_tried_again(kind, broken):
    """It is safe to ask twice; where nothing is said, the waits are the client's own and double."""
    server = ScriptedServer(broken, broken, a_reply())
    assert ask(kind, server, "infer", "m", X, client_retries=EXACT).tries == 3
    assert server.clock.slept_ns == [20 * NS_PER_MS, 40 * NS_PER_MS]


@BOTH
def test_server_that_is_not_there_is_unavailable(kind):
    """When tries are used up, the loss is told, with its cause."""
    server = ScriptedServer(httpx.ConnectError("connection refused"))
    with pytest.raises(UnavailableError, match="connection refused") as caught:
        ask(kind, server, "infer", "m", X, client_retries=1)
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


@BOTH
@pytest.mark.parametrize(
    ("code", "error"), [("unavailable", UnavailableError), ("worker_lost", WorkerLostError)]
)
def test_unavailable_is_tried_again(kind, code, error):
    """503 says no time; the client's own waits are used."""
    server = ScriptedServer(an_error(503, code), a_reply())
    assert ask(kind, server, "infer", "m", X).tries == 2
    server = ScriptedServer(an_error(503, code))
    with pytest.raises(error):
        ask(kind, server, "infer", "m", X)
    assert len(server.seen) == 4


@BOTH
@pytest.mark.parametrize("status", [400, 401, 404, 500, 504])
def test_other_errors_are_final(kind, status):
    """What sending again would not help is not sent again."""
    server = ScriptedServer(an_error(status))
    with pytest.raises(HeadwayError):
        ask(kind, server, "infer", "m", X)
    assert len(server.seen) == 1


@BOTH
def test_time_out_is_a_deadline_and_final(kind):
    """Nothing came: the budget and the grace are over, and there is nothing left for a try."""
    server = ScriptedServer(httpx.ReadTimeout("nothing"))
    with pytest.raises(DeadlineExceededError, match=r"within 1\.2s") as caught:
        ask(kind, server, "infer", "m", X, budget="200ms")
    assert (caught.value.limit, caught.value.stage) == ("client", "unanswered")
    assert len(server.seen) == 1


@BOTH
def test_socket_waits_for_the_budget_and_a_little_more(kind):
    """Httpx is told to wait for no longer than that, so that no call hangs."""
    server = ScriptedServer(a_reply())
    ask(kind, server, "infer", "m", X, budget="200ms", client_grace="300ms")
    assert server.seen[0].extensions["timeout"]["read"] == pytest.approx(0.5)


@BOTH
def test_phases_of_a_request_share_its_time(kind):
    """What the wait for a connection took is not granted to the answer again."""
    granted = []

    def served(request):
        timeouts = request.extensions["timeout"]
        for phase in ("pool", "connect", "write", "read"):
            granted.append(timeouts.get(phase))
            server.clock.at_ns += 100 * NS_PER_MS
        return a_reply()

    server = ScriptedServer(served)
    ask(kind, server, "infer", "m", X, budget="200ms", client_grace="300ms")
    assert granted == pytest.approx([0.5, 0.4, 0.3, 0.2])


@BOTH
def test_request_that_breaks_http_is_not_sent_again(kind):
    """What the client itself may not send is the caller's error."""
    server = ScriptedServer(httpx.LocalProtocolError("illegal header"))
    with pytest.raises(InvalidRequestError, match="illegal header"):
        ask(kind, server, "infer", "m", X)
    assert len(server.seen) == 1


@BOTH
@pytest.mark.parametrize("verb", ["load", "unload"])
def test_changes_of_the_server_are_never_tried_twice(kind, verb):
    """Nobody knows whether a load that got no answer has happened."""
    server = ScriptedServer(httpx.ReadError("reset"))
    with pytest.raises(UnavailableError):
        ask(kind, server, verb, "m")
    assert len(server.seen) == 1


def test_waits_of_many_clients_differ_and_are_never_too_short():
    """A quarter of the wait at most is added, and none taken away; the same seed, the same wait."""
    retries = Retries()
    answer = Answer(429, {"headway-retry-after-ms": "100"}, b"")
    waits = [retries.pause_ns(answer, 1, Random(seed)) for seed in range(50)]
    assert min(waits) >= 100 * NS_PER_MS
    assert max(waits) <= 125 * NS_PER_MS
    assert len(set(waits)) == 50
    assert waits[7] == retries.pause_ns(answer, 1, Random(7))


def test_own_waits_double_up_to_a_limit():
    """However often a connection breaks, the wait and its number stay bounded."""
    retries = Retries(count_max=100, jitter_ratio=0.0)
    loss = Lost(httpx.ReadError("reset"))
    waits = [retries.pause_ns(loss, tries, Random(0)) for tries in (1, 2, 3, 8, 60)]
    assert waits == [ms * NS_PER_MS for ms in (20, 40, 80, 2000, 2000)]
    assert retries.pause_ns(loss, 101, Random(0)) is None


def test_sleep_that_took_too_long_ends_the_call():
    """A machine that slept through the deadline does not send what can no longer be in time."""
    server = ScriptedServer(refused(50))

    def oversleep(duration_ns: int) -> None:
        server.clock.at_ns += 100 * duration_ns

    server.clock.sleep = oversleep
    with pytest.raises(RejectedError):
        ask("sync", server, "infer", "m", X, budget="1s")
    assert len(server.seen) == 1
