"""What a client says of itself, what errors it raises, and the calls besides `infer`."""

import inspect
import json

import httpx
import pytest
from tests.unit.client.scripted_server import ScriptedServer, a_reply, an_error, ask

from headway import errors
from headway.client import AsyncClient, Client
from headway.client.answers import Answer
from headway.client.failures import failure_of, retry_after_ns
from headway.errors import (
    ConfigError,
    DeadlineExceededError,
    HeadwayError,
    InvalidRequestError,
    ModelNotFoundError,
    NotAuthenticatedError,
    RejectedError,
    UnavailableError,
    UnsupportedError,
)

X = {"x": [1.0]}
BOTH = pytest.mark.parametrize("kind", ["sync", "async"])
WHO = ("authorization", "headway-tenant", "headway-tier", "headway-priority", "traceparent")


@BOTH
def test_client_says_who_it_is_in_every_call(kind):
    """Key, tenant, tier and budget of the client go with each call, unless it names its own."""
    server = ScriptedServer(a_reply())
    ours = {"client_key": "k", "client_tenant": "acme", "client_tier": "gold"}
    ask(kind, server, "infer", "m", X, client_budget="1s", **ours)
    theirs = {"tenant": "other", "tier": "low", "priority": 3, "traceparent": "00-a-b-01"}
    ask(kind, server, "infer", "m", X, client_budget="1s", budget=0.25, **ours, **theirs)
    first, second = ([one.headers.get(name) for name in WHO] for one in server.seen)
    assert first == ["Bearer k", "acme", "gold", None, None]
    assert second == ["Bearer k", "other", "low", "3", "00-a-b-01"]
    assert server.header("headway-budget-ms") == ["1000.000", "250.000"]


@BOTH
def test_key_goes_with_every_call(kind):
    """A server that keeps tenants asks for it everywhere."""
    calls = [
        ("metadata", ("m",), {"name": "m", "inputs": [], "outputs": []}),
        ("models", (), []),
        ("statistics", (), {"model_stats": []}),
        ("is_ready", (), {}),
        ("load", ("m",), {}),
        ("unload", ("m",), {}),
    ]
    for verb, args, body in calls:
        server = ScriptedServer(httpx.Response(200, json=body))
        ask(kind, server, verb, *args, client_key="k")
        assert server.header("authorization") == ["Bearer k"], verb


def test_key_is_never_shown():
    """Not by the client's repr, not in the error of a key that cannot be sent."""
    with Client("http://h", key="s3cret", transport=httpx.MockTransport(a_reply)) as client:
        assert "s3cret" not in repr(client) + repr(vars(client))
    with pytest.raises(InvalidRequestError) as caught:
        Client("http://h", key="s3cret\nx: y")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("tenant", ["a\r\nheadway-priority: 1", "zwölf", "\x00"])
def test_header_cannot_be_smuggled(tenant):
    """A text that would end its line, or that no header carries, is refused before it is sent."""
    server = ScriptedServer(a_reply())
    with pytest.raises(InvalidRequestError, match="headway-tenant"):
        ask("sync", server, "infer", "m", X, tenant=tenant)
    assert server.seen == []


@pytest.mark.parametrize("budget", ["soon", "-1s", -1, float("nan"), float("inf"), [1]])
def test_budget_must_be_a_length_of_time(budget):
    """A wrong one is told with what is right."""
    with pytest.raises(InvalidRequestError, match=r"not a length of time.*200ms"):
        ask("sync", ScriptedServer(a_reply()), "infer", "m", X, budget=budget)


@pytest.mark.parametrize("url", ["localhost:8000", "", "ftp://h", "http://", "http://h:port"])
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_address_must_be_one(kind, url):
    """Most of all, one without `http://` is told so."""
    with pytest.raises(ConfigError, match="no address of a server"):
        kind(url)


@BOTH
def test_server_behind_a_path_is_asked_there(kind):
    """A gateway's prefix stays in front."""
    server = ScriptedServer(a_reply())
    ask(kind, server, "infer", "m", X, client_url="http://gateway/serving/")
    assert str(server.seen[0].url) == "http://gateway/serving/v2/models/m/infer"


@BOTH
@pytest.mark.parametrize("verb", ["is_live", "is_ready", "is_model_ready"])
def test_probe_is_yes_or_no(kind, verb):
    """Success is a yes; not ready, nobody there and no answer in time are a no, at once."""
    args = ("m",) if verb == "is_model_ready" else ()
    for said, expected in [
        (httpx.Response(200), True),
        (httpx.Response(503, json={"name": "m", "ready": False}), False),
        (httpx.ConnectError("refused"), False),
        (httpx.ReadTimeout("nothing"), False),
    ]:
        server = ScriptedServer(said)
        assert ask(kind, server, verb, *args) is expected
        assert len(server.seen) == 1


@BOTH
def test_probe_of_a_model_that_nobody_knows_is_an_error(kind):
    """A name that is spelled wrong will never be ready; so is a key that is not known."""
    with pytest.raises(ModelNotFoundError):
        ask(kind, ScriptedServer(an_error(404, "model_not_found")), "is_model_ready", "m")
    with pytest.raises(NotAuthenticatedError):
        ask(kind, ScriptedServer(an_error(401, "not_authenticated")), "is_ready")


@BOTH
def test_estimate_is_read(kind):
    """Times in nanoseconds, and a refusal is an answer."""
    said = {
        "model_name": "m",
        "model_version": "1",
        "admitted": False,
        "reason": "model_queue_full",
        "retry_after_ms": 12,
        "is_known": True,
        "expected_ms": 1.5,
        "bound_ms": 2.25,
        "parts_ms": {"queue": 1.0, "base": 0.5},
        "will_meet_deadline": {"expected": True, "bound": False},
        "deadline_ms": 2.0,
        "limit": "headway-budget-ms",
        "tier": "gold",
    }
    server = ScriptedServer(httpx.Response(200, json=said))
    estimate = ask(kind, server, "estimate", "m", X, version="1", budget="2ms", priority=4)
    assert not estimate.is_admitted
    assert (estimate.reason, estimate.retry_after_ns) == ("model_queue_full", 12_000_000)
    assert (estimate.expected_ns, estimate.bound_ns) == (1_500_000, 2_250_000)
    assert estimate.parts_ns == {"queue": 1_000_000, "base": 500_000}
    assert (estimate.will_meet_expected, estimate.will_meet_bound) == (True, False)
    assert (estimate.budget_ns, estimate.limit, estimate.tier) == (
        2_000_000,
        "headway-budget-ms",
        "gold",
    )
    assert server.seen[0].url.path == "/v2/models/m/versions/1/estimate"
    assert server.header("headway-priority") == ["4"]


@BOTH
def test_server_is_asked_for_its_models(kind):
    """Index, metadata and statistics are values."""
    line = {"name": "m", "version": "1", "state": "READY", "reason": ""}
    server = ScriptedServer(httpx.Response(200, json=[line]))
    (state,) = ask(kind, server, "models", only_ready=True)
    assert (state.name, state.state) == ("m", "READY")
    assert json.loads(server.seen[0].content) == {"ready": True}
    tensor = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    said = {"name": "m", "versions": ["1"], "platform": "p", "inputs": [tensor], "outputs": []}
    model = ask(kind, ScriptedServer(httpx.Response(200, json=said)), "metadata", "m")
    assert (model.inputs[0].name, model.inputs[0].datatype, model.inputs[0].shape) == (
        "x",
        "FP32",
        (-1, 4),
    )
    counters = {"model_stats": [{"name": "m", "inference_count": 3}]}
    server = ScriptedServer(httpx.Response(200, json=counters))
    assert ask(kind, server, "statistics", "m")[0]["inference_count"] == 3
    assert server.seen[0].url.path == "/v2/models/m/stats"


@BOTH
def test_load_brings_settings(kind):
    """They travel as Triton's clients send them, a JSON text in a parameter."""
    server = ScriptedServer(httpx.Response(200, json={}))
    ask(kind, server, "load", "m", {"batch": {"rows_max": 4}}, wait="5s")
    body = json.loads(server.seen[0].content)
    assert json.loads(body["parameters"]["config"]) == {"batch": {"rows_max": 4}}
    assert server.seen[0].extensions["timeout"]["read"] == pytest.approx(5.0)
    ask(kind, server, "load", "m")
    assert json.loads(server.seen[1].content) == {}


CODES = {kind.code: kind for kind in map(errors.__dict__.get, errors.__all__)}


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_is_the_class_that_the_server_raised(code):
    """The code decides, whatever the status; a new class of `headway.errors` is known by itself."""
    body = {"error": "what (hint: do)", "code": code, "limit": "tier", "stage": "waiting"}
    error = failure_of(Answer(418, {}, json.dumps(body).encode()))
    assert type(error) is CODES[code]
    assert str(error) == "what (hint: do)"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError),
        (404, ModelNotFoundError),
        (429, RejectedError),
        (503, UnavailableError),
        (504, DeadlineExceededError),
        (418, errors.RequestError),
        (302, errors.RequestError),
        (502, HeadwayError),
    ],
)
def test_error_without_a_code_is_known_by_its_status(status, kind):
    """Another server, or a proxy before ours, says less; its text is shown, but not all of it."""
    error = failure_of(Answer(status, {}, b"<h1>busy</h1>" * 1000))
    assert type(error) is kind
    assert "<h1>busy</h1>" in str(error)
    assert len(str(error)) < 3000
    assert str(status) in str(failure_of(Answer(status, {}, b"")))


def test_errors_carry_what_a_program_needs():
    """Time and reason of a refusal, limit and stage of a deadline."""
    lines = {"retry-after": "3"}
    refusal = failure_of(Answer(429, lines, b'{"code": "rejected", "reason": "full"}'))
    assert isinstance(refusal, RejectedError)
    assert (refusal.reason, refusal.retry_after_ns) == ("full", 3_000_000_000)
    body = b'{"error": "late", "code": "deadline_exceeded", "limit": "tier", "stage": "waiting"}'
    late = failure_of(Answer(504, {}, body))
    assert isinstance(late, DeadlineExceededError)
    assert (late.limit, late.stage) == ("tier", "waiting")


def test_path_that_a_server_lacks_is_no_missing_model():
    """404 and 405 of the path itself say that the server does not do this."""
    for status, code in ((404, "path_not_found"), (405, "method_not_allowed")):
        body = json.dumps({"error": "no", "code": code}).encode()
        assert type(failure_of(Answer(status, {}, body))) is UnsupportedError


@pytest.mark.parametrize(
    ("headers", "expected_ns"),
    [
        ({"retry-after": "2", "headway-retry-after-ms": "1500"}, 1_500_000_000),
        ({"retry-after": "2"}, 2_000_000_000),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "9" * 30}, None),
        ({}, None),
    ],
)
def test_time_to_come_back_is_read(headers, expected_ns):
    """Ours before HTTP's, whole numbers only; what cannot be understood was not said."""
    assert retry_after_ns(Answer(429, headers, b"")) == expected_ns


def test_reply_can_be_subscripted_and_says_what_is_missing():
    """`reply["y"]` is short for `reply.outputs["y"]`."""
    reply = ask("sync", ScriptedServer(a_reply()), "infer", "m", X)
    assert reply["y"] is reply.outputs["y"]
    with pytest.raises(KeyError, match="z"):
        reply["z"]


def test_clients_are_twins():
    """What one can do the other can, with the same words."""

    def words_of(kind):
        methods = {name: getattr(kind, name) for name in vars(kind) if not name.startswith("_")}
        return {name: list(inspect.signature(one).parameters) for name, one in methods.items()}

    assert words_of(Client) == words_of(AsyncClient)
    ours, theirs = inspect.signature(Client), inspect.signature(AsyncClient)
    assert list(ours.parameters) == list(theirs.parameters)


def test_answer_that_drips_ends_with_the_budget():
    """Bytes that come one by one do not keep a call alive past its time."""
    server = ScriptedServer(a_reply())

    def drip():
        for _ in range(1000):
            server.clock.at_ns += 100_000_000
            yield b" "

    server.script = [httpx.Response(200, content=drip())]
    with pytest.raises(DeadlineExceededError):
        ask("sync", server, "infer", "m", X, budget="1s")
    assert server.clock.at_ns < 5_000_000_000 + 2_200_000_000
