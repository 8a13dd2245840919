"""Who is answered what, over HTTP: keys, management, a port of its own, pages in a browser."""

import asyncio
import json

import pytest
from tests.asgi_client import call
from tests.fakes import FakeEngine

from headway.core import TenantId
from headway.frontends import Access, Cors, Door, GatedEngine, HttpApp, OipRest, OpenAiRest
from headway.tenancy import Gate, KeyParams, TenantParams, hash_of

TENANT, ADMIN = {"authorization": "Bearer hwk_acme"}, {"headway-key": "hwk_admin"}
INFER = json.dumps(
    {"inputs": [{"name": "INPUT", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
).encode()
READ = ["/v2", "/v2/models/echo", "/v2/models/echo/ready", "/v2/models/stats", "/v2/tenant"]
READ += ["/v1/models", "/v1/models/echo"]
HEALTH = ["/v2/health/live", "/v2/health/ready", "/openapi.json"]


def keys(*names):
    """By their hashes."""
    return [KeyParams(key_hash=hash_of(name)) for name in names]


def an_app(
    *,
    tenants=True,
    admins=("hwk_admin",),
    has_admin_door=False,
    is_admin=False,
    origins=(),
    names=None,
    **limits,
):
    """A server with one tenant, and a key for management."""
    gate = None
    if tenants:
        one = TenantParams(tenant=TenantId("acme"), keys=tuple(keys("hwk_acme")), **limits)
        gate = Gate([one], started_at_unix_ns=0)
    engine = FakeEngine()
    access = Access(gate, keys(*admins), has_admin_door=has_admin_door, now_ns=engine.now_ns)
    front = engine if gate is None else GatedEngine(engine, gate, {})
    door = Door(access, is_admin=is_admin, origins=origins, names=names)
    oip = OipRest(front, version="1", door=door)
    return HttpApp(oip, OpenAiRest(front, created_at_s=0, door=door))


def ask(app, method, path, body=b"", headers=None):
    """The answer to a call."""
    return asyncio.run(call(app, method, path, body, headers))


def status(app, path, headers=None, method="GET", body=b""):
    """What a call is answered with."""
    return ask(app, method, path, body, headers).status


@pytest.mark.parametrize("path", HEALTH)
def test_health_asks_for_no_key(path):
    """A probe has none."""
    assert status(an_app(), path) == 200


@pytest.mark.parametrize("path", READ)
def test_reading_asks_for_a_tenant_s_key(path):
    """Or one for management, but for what is the tenant's own."""
    app = an_app()
    assert status(app, path) == 401
    assert status(app, path, {"headway-key": "hwk_wrong"}) == 401
    assert status(app, path, TENANT) == 200
    assert status(app, path, ADMIN) == (401 if path == "/v2/tenant" else 200)


def test_request_asks_for_a_tenant_s_key():
    """With a challenge, as HTTP wants it, and no word of what keys there are."""
    app = an_app()
    answer = ask(app, "POST", "/v2/models/echo/infer", INFER)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json["code"] == "not_authenticated"
    assert status(app, "/v2/models/echo/infer", TENANT, "POST", INFER) == 200


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/metrics", "GET"),
        ("/v2/repository/models/echo/load", "POST"),
        ("/v2/repository/models/echo/unload", "POST"),
    ],
)
def test_management_asks_for_its_own_key(path, method):
    """A tenant's is told that it is the wrong one; with none asked for, any caller may."""
    app = an_app()
    assert status(app, path, None, method) == 401
    assert status(app, path, {"headway-key": "hwk_wrong"}, method) == 401
    assert status(app, path, TENANT, method) == 403
    assert status(app, path, ADMIN, method) == 200
    assert status(an_app(tenants=False, admins=()), path, None, method) == 200


@pytest.mark.parametrize("path", ["/metrics", "/v2/repository/models/echo/unload"])
def test_management_without_keys_is_nobody_s_where_there_are_tenants(path):
    """Whoever asks for keys of all that infer does not leave the rest open; its own port may be."""
    method = "GET" if path == "/metrics" else "POST"
    app = an_app(admins=())
    assert status(app, path, None, method) == 401
    assert status(app, path, TENANT, method) == 403
    door = an_app(admins=(), has_admin_door=True, is_admin=True)
    assert status(door, path, None, method) == 200


def test_management_stays_closed_when_its_last_key_is_deleted():
    """A key that leaked is taken back by deleting it; that opens nothing."""
    access = Access(None, keys("hwk_admin"))
    app = OipRest(FakeEngine(), version="1", door=Door(access))
    assert status(app, "/metrics", ADMIN) == 200
    access.replace([])
    assert status(app, "/metrics", ADMIN) == 401
    assert status(app, "/metrics") == 401


@pytest.mark.parametrize("headers", [{}, {"inference-header-content-length": "0"}])
def test_key_is_looked_at_before_the_body_is(headers):
    """What a stranger sends is not decoded, and tells him nothing of the models."""
    app = an_app()
    for model in ("echo", "nothing"):
        path = f"/v2/models/{model}/infer"
        assert ask(app, "POST", path, b"no json", headers).status == 401
        assert ask(app, "POST", path, b"no json", {"content-encoding": "gzip"}).status == 401


def test_management_with_a_door_of_its_own_is_answered_there_alone():
    """Not even its key opens it elsewhere."""
    public = an_app(has_admin_door=True)
    assert status(public, "/metrics", ADMIN) == 403
    door = an_app(has_admin_door=True, is_admin=True)
    assert status(door, "/metrics", ADMIN) == 200
    assert status(door, "/metrics") == 401
    keyless = an_app(tenants=False, admins=(), has_admin_door=True, is_admin=True)
    assert status(keyless, "/metrics") == 200


def test_server_without_tenants_has_no_page_of_them():
    """And asks nobody for a key."""
    app = an_app(tenants=False)
    assert status(app, "/v2/tenant") == 404
    assert status(app, "/v2/models/echo") == 200


def test_tenant_is_told_its_limits():
    """What remains, and when there is more."""
    app = an_app(concurrency_max=3, requests_per_s=10.0)
    assert status(app, "/v2/models/echo/infer", TENANT, "POST", INFER) == 200
    found = (ask(app, "GET", "/v2/tenant", b"", TENANT)).json
    assert found["tenant"] == "acme"
    assert found["limits"] == [
        {"name": "concurrency", "limit": 3, "remaining": 3, "resets_ms": 0},
        {"name": "requests", "limit": 10, "remaining": 9, "resets_ms": 100},
    ]


def test_limit_that_fired_is_told_with_what_remains_and_when():
    """In the body for programs, in headers for those who read only them."""
    app = an_app(requests_per_s=1.0)
    path = "/v2/models/echo/infer"
    assert status(app, path, TENANT, "POST", INFER) == 200
    answer = ask(app, "POST", path, INFER, TENANT)
    assert answer.status == 429
    assert answer.json["reason"] == "tenant_requests"
    assert (answer.json["limit"], answer.json["remaining"]) == ("requests", 0)
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["ratelimit"] == '"requests";r=0;t=1'


ORIGIN = {"origin": "https://app.example.com"}


def test_openai_is_asked_with_the_same_keys():
    """Its client sends `api_key` as a bearer; without one it is told in its own form."""
    app = an_app()
    body = b'{"model": "echo", "input": "x"}'
    answer = ask(app, "POST", "/v1/embeddings", body)
    assert (answer.status, answer.json["error"]["code"]) == (401, "not_authenticated")
    assert status(app, "/v1/embeddings", TENANT, "POST", body) == 400  # no embedder, but heard


def test_page_of_another_origin_is_not_answered_as_one():
    """By default none is: without the header, its browser keeps the answer from it."""
    answer = ask(an_app(tenants=False), "GET", "/v2", b"", ORIGIN)
    assert "access-control-allow-origin" not in answer.headers
    app = Cors(an_app(tenants=False), ["https://other.example.com"])
    answer = ask(app, "GET", "/v2", b"", ORIGIN)
    assert (answer.status, "access-control-allow-origin" in answer.headers) == (200, False)
    assert answer.headers["vary"] == "origin"


@pytest.mark.parametrize(
    "path",
    ["/v2/models/echo/infer", "/v2/repository/models/echo/unload", "/v1/embeddings", "/v2/logging"],
)
def test_page_of_another_origin_changes_nothing(path):
    """Its browser sends a form's POST without asking, and only keeps the answer from the page."""
    app = an_app(tenants=False, admins=())
    evil = {"origin": "https://evil.example.com", "host": "127.0.0.1:8000"}
    answer = ask(app, "POST", path, INFER, {**evil, "content-type": "text/plain"})
    assert (answer.status, "evil.example.com" in str(answer.json["error"])) == (403, True)
    own = {"origin": "http://127.0.0.1:8000", "host": "127.0.0.1:8000"}
    assert ask(app, "POST", path, INFER, own).status in {200, 400}


REBOUND = ["evil.example.com", "evil.example.com:8000", "EVIL.example.com.", "127.0.0.1.evil.com"]
REBOUND += ["localhost.evil.com", "evil.com:80:80", ".", "[evil.com]:8000", "xlocalhost.com"]
OWN = ["127.0.0.1:8000", "10.1.2.3", "[::1]:8000", "localhost:8000", "LOCALHOST.", "a.localhost:1"]
OWN += ["headway:8000", "gpu-1.example.com:8000", "GPU-1.example.com", ""]
MANAGEMENT = [("GET", "/metrics"), ("POST", "/v2/repository/models/echo/load")]


@pytest.mark.parametrize(("method", "path"), MANAGEMENT)
def test_name_that_a_stranger_has_lead_here_manages_nothing(method, path):
    """Without a key the name alone tells its pages from the server's own: origin and host agree."""
    app = an_app(tenants=False, admins=(), names=["gpu-1.example.com", "0.0.0.0"])
    for host in REBOUND:
        answer = ask(app, method, path, b"{}", {"host": host, "origin": f"http://{host}"})
        assert (answer.status, "server.admin.hosts" in answer.json["error"]) == (403, True), host
    for host in OWN:
        assert ask(app, method, path, b"{}", {"host": host}).status == 200, host
    assert ask(app, method, path, b"{}").status == 200, "whoever names no host is no browser"


@pytest.mark.parametrize(("method", "path"), MANAGEMENT)
def test_any_name_will_do_with_a_key_or_a_certificate(method, path):
    """A stranger has no key, and no certificate for its name, which `names=None` stands for."""
    stranger = {"host": REBOUND[0]}
    app = an_app(tenants=False, names=[])
    assert ask(app, method, path, b"{}", stranger).status == 401
    assert ask(app, method, path, b"{}", {**stranger, **ADMIN}).status == 200
    app = an_app(tenants=False, admins=(), names=None)
    assert ask(app, method, path, b"{}", stranger).status == 200


def test_clients_may_call_a_server_by_any_name():
    """An ingress leads many names to it; what is no management is answered by all of them."""
    app = an_app(tenants=False, admins=(), names=[])
    stranger = {"host": REBOUND[0]}
    assert status(app, "/v2/models/echo", stranger) == 200
    assert status(app, "/v2/models/echo/infer", stranger, "POST", INFER) == 200


@pytest.mark.parametrize("origins", [["https://app.example.com"], ["*"]])
def test_page_of_an_allowed_origin_is(origins):
    """Its browser asks first, and looks at the answer's headers then."""
    app = Cors(an_app(tenants=False, origins=origins), origins)
    wish = {**ORIGIN, "access-control-request-method": "POST"}
    asked = {**wish, "access-control-request-headers": "headway-key"}
    allowed = ask(app, "OPTIONS", "/v2/models/echo/infer", b"", asked)
    assert allowed.status == 204
    assert allowed.headers["access-control-allow-origin"] == "https://app.example.com"
    assert allowed.headers["access-control-allow-headers"] == "headway-key"
    answer = ask(app, "POST", "/v2/models/echo/infer", INFER, ORIGIN)
    assert (answer.status, answer.headers["vary"]) == (200, "origin")
    assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
    plain = ask(app, "OPTIONS", "/v2", b"", ORIGIN)
    assert plain.status == 405
