"""What clients rely on over HTTP: health, metadata, errors, connections, extensions."""

import gzip
import json
from collections.abc import Mapping
from typing import Any, Final

from headway.conformance.case import Cases, SkippedError, expect
from headway.conformance.http_wire import HttpTarget, Reply

__all__ = ["CASES", "echo_request", "refused"]

CASES: Final[Cases[HttpTarget]] = Cases()
MODEL: Final = "identity_fp32"
VALUES: Final = [0.5, -1.0, 2.0, 3.25]


def echo_request(**changes: object) -> dict[str, Any]:
    """Four floats for the model that gives them back."""
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": VALUES}
    return {"inputs": [tensor], **changes}


def output_of(reply: Reply) -> Mapping[str, Any]:
    """The one output of an answer that went well."""
    expect(reply.status == 200, "200", f"{reply.status} {reply.body[:200]!r}")
    outputs = reply.json().get("outputs")
    expect(isinstance(outputs, list) and len(outputs) == 1, "one output", outputs)
    output: Mapping[str, Any] = outputs[0]
    return output


def is_echoed(reply: Reply) -> None:
    """The four floats came back."""
    expect(output_of(reply).get("data") == VALUES, f"{VALUES}", output_of(reply))


def refused(reply: Reply) -> None:
    """A client's error, in the protocol's form."""
    expect(400 <= reply.status < 500, "a status from 400 to 499", reply.status)
    error = reply.json()
    text = error.get("error") if isinstance(error, dict) else None
    expect(isinstance(text, str) and text, '{"error": "text"}', error)


# --- health and metadata --------------------------------------------------------------------------


@CASES("health", "live is 200")
def live(to: HttpTarget) -> None:
    """For load balancers, which look at nothing else."""
    expect((reply := to.get("/v2/health/live")).status == 200, "200", reply.status)


@CASES("health", "ready is 200")
def ready(to: HttpTarget) -> None:
    """The same."""
    expect((reply := to.get("/v2/health/ready")).status == 200, "200", reply.status)


@CASES("health", "live and ready say so in JSON")
def health_in_words(to: HttpTarget) -> None:
    """KServe's client parses both."""
    for name in ("live", "ready"):
        body = to.get(f"/v2/health/{name}").json()
        expect(body.get(name) is True, f'{{"{name}": true}}', body)


@CASES("metadata", "the server tells name, version and extensions")
def server(to: HttpTarget) -> None:
    """By which clients choose what to send."""
    body = to.get("/v2").json()
    expect(isinstance(body.get("name"), str) and body["name"], "a name", body)
    expect(isinstance(body.get("version"), str), "a version", body)
    expect(isinstance(body.get("extensions"), list), "a list of extensions", body)


@CASES("metadata", "/v2/ is /v2")
def trailing_slash(to: HttpTarget) -> None:
    """As the protocol's own OpenAPI file writes it."""
    expect((reply := to.get("/v2/")).status == 200, "200", reply.status)


@CASES("metadata", "a model tells its tensors")
def model(to: HttpTarget) -> None:
    """Names, datatypes and shapes, -1 where any size will do."""
    body = to.get(f"/v2/models/{to.needs(MODEL)}").json()
    expect(body.get("name") == MODEL, f"the name {MODEL}", body)
    expect(isinstance(body.get("platform"), str), "a platform", body)
    for kind, name in (("inputs", "x"), ("outputs", "y")):
        (tensor,) = body[kind]
        shape = [int(size) for size in tensor["shape"]]
        expect(tensor["name"] == name and tensor["datatype"] == "FP32", f"{name} FP32", tensor)
        expect(shape[-1] == 4, "a last axis of 4", shape)


@CASES("metadata", "a model can be asked for by its version")
def versioned(to: HttpTarget) -> None:
    """The one that its metadata name."""
    versions = to.get(f"/v2/models/{to.needs(MODEL)}").json().get("versions") or []
    if not versions:
        raise SkippedError("the model tells no version")
    path = f"/v2/models/{MODEL}/versions/{versions[0]}"
    expect((reply := to.get(path)).status == 200, f"200 of {path}", reply.status)
    expect((reply := to.get(f"{path}/ready")).status == 200, f"200 of {path}/ready", reply.status)
    is_echoed(to.post(f"{path}/infer", echo_request()))


@CASES("metadata", "a model that serves is ready")
def model_ready(to: HttpTarget) -> None:
    """Before a client sends anything."""
    reply = to.get(f"/v2/models/{to.needs(MODEL)}/ready")
    expect(reply.status == 200, "200", reply.status)


@CASES("metadata", "readiness of a model in JSON")
def model_ready_in_words(to: HttpTarget) -> None:
    """KServe's client parses it."""
    body = to.get(f"/v2/models/{to.needs(MODEL)}/ready").json()
    expect(body.get("ready") is True, '{"ready": true}', body)


# --- errors ---------------------------------------------------------------------------------------


@CASES("errors", "an unknown model is a client's error, with a text")
def unknown_model(to: HttpTarget) -> None:
    """Metadata and infer alike."""
    refused(to.get("/v2/models/nobody"))
    refused(to.infer("nobody", echo_request()))


@CASES("errors", "an unknown model is 404")
def unknown_model_404(to: HttpTarget) -> None:
    """So that clients can tell it from a request that is wrong."""
    expect((reply := to.infer("nobody", echo_request())).status == 404, "404", reply.status)


@CASES("errors", "an unknown version is a client's error")
def unknown_version(to: HttpTarget) -> None:
    """Not answered by another one."""
    refused(to.post(f"/v2/models/{to.needs(MODEL)}/versions/977/infer", echo_request()))


@CASES("errors", "an unknown path is a client's error")
def unknown_path(to: HttpTarget) -> None:
    """Whatever its body says."""
    expect(400 <= (reply := to.get("/v2/nothing")).status < 500, "400 to 499", reply.status)


def _broken(name: str, body: object, *, headers: Mapping[str, str] | None = None) -> None:
    """A case: a body that is wrong."""

    @CASES("errors", f"{name} is a client's error, with a text")
    def check(to: HttpTarget) -> None:
        to.needs(MODEL)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        refused(to.ask("POST", f"/v2/models/{MODEL}/infer", data, headers))


def _tensor(**changes: object) -> dict[str, Any]:
    (tensor,) = echo_request()["inputs"]
    changed = {**tensor, **changes}
    return {"inputs": [{key: value for key, value in changed.items() if value is not None}]}


_broken("an empty body", b"")
_broken("no JSON", b"{")
_broken("JSON that is no object", b"[1, 2]")
_broken("a body that is no UTF-8", b'{"id": "\xff\xfe", "inputs": []}')
_broken("a body without inputs", {})
_broken("an input without a name", _tensor(name=None))
_broken("an input without a shape", _tensor(shape=None))
_broken("an input without a datatype", _tensor(datatype=None))
_broken("an input without data", _tensor(data=None))
_broken("an input of an unknown name", _tensor(name="other"))
_broken("an unknown datatype", _tensor(datatype="FP12"))
_broken("a datatype that is not the model's", _tensor(datatype="INT32", data=[1, 2, 3, 4]))
_broken("too few elements", _tensor(data=VALUES[:3]))
_broken("too many elements", _tensor(data=[*VALUES, 1.0]))
_broken("a shape that does not fit the model", _tensor(shape=[1, 3], data=VALUES[:3]))
_broken("a negative axis", _tensor(shape=[1, -4]))
_broken("text in a tensor of floats", _tensor(data=["a", "b", "c", "d"]))
_broken("an output of an unknown name", echo_request(outputs=[{"name": "other"}]))
_broken("the same input twice", {"inputs": echo_request()["inputs"] * 2})


@CASES("errors", "GET of infer is a client's error")
def wrong_method(to: HttpTarget) -> None:
    """405, or at least not a server's failure."""
    reply = to.get(f"/v2/models/{to.needs(MODEL)}/infer")
    expect(400 <= reply.status < 500, "400 to 499", reply.status)


@CASES("errors", "bytes that are no HTTP do no harm")
def no_http(to: HttpTarget) -> None:
    """Whoever comes next is served."""
    to.needs(MODEL)
    to.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64))
    is_echoed(to.infer(MODEL, echo_request()))


# --- connections ----------------------------------------------------------------------------------


@CASES("http", "a connection serves many requests, errors among them")
def kept_alive(to: HttpTarget) -> None:
    """Clients pool them."""
    to.needs(MODEL)
    connection = to.connect()
    try:
        path = f"/v2/models/{MODEL}/infer"
        right, wrong = json.dumps(echo_request()).encode(), b"{"
        for body in (right, wrong, right):
            reply = to.ask("POST", path, body, connection=connection)
            expect((reply.status == 200) == (body is right), "200 for a right one", reply.status)
    finally:
        connection.close()


@CASES("http", "a request needs no Content-Type")
def no_content_type(to: HttpTarget) -> None:
    """Triton's client sends none."""
    is_echoed(to.infer(to.needs(MODEL), echo_request()))


@CASES("http", "Content-Type may be application/json")
def content_type(to: HttpTarget) -> None:
    """KServe's client sends it, and answers in JSON are marked so."""
    headers = {"Content-Type": "application/json"}
    reply = to.infer(to.needs(MODEL), echo_request(), headers=headers)
    is_echoed(reply)
    kind = reply.headers.get("content-type", "")
    expect(kind.startswith("application/json"), "application/json", kind)


@CASES("http", "a body in chunks is read")
def chunked(to: HttpTarget) -> None:
    """Proxies make them."""
    body = json.dumps(echo_request()).encode()
    parts = (body[:20], body[20:])
    data = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    headers = {"Transfer-Encoding": "chunked"}
    is_echoed(to.ask("POST", f"/v2/models/{to.needs(MODEL)}/infer", data, headers))


@CASES("http", "Expect: 100-continue is answered")
def continues(to: HttpTarget) -> None:
    """Some clients, curl among them, send it with large bodies, and wait."""
    to.needs(MODEL)
    body = json.dumps(echo_request()).encode()
    head = (
        f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: {to.host}\r\nConnection: close\r\n"
        f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    found = to.raw(head.encode() + body)
    expect(b" 200 " in found and b'"outputs"' in found, "an answer with 200", found[:200])


@CASES("http", "a compressed request is read")
def compressed_request(to: HttpTarget) -> None:
    """Triton's client can send gzip."""
    body = gzip.compress(json.dumps(echo_request()).encode())
    path = f"/v2/models/{to.needs(MODEL)}/infer"
    is_echoed(to.ask("POST", path, body, {"Content-Encoding": "gzip"}))


@CASES("http", "an answer is compressed when that is asked for")
def compressed_answer(to: HttpTarget) -> None:
    """With Accept-Encoding: gzip, and marked."""
    headers = {"Accept-Encoding": "gzip"}
    reply = to.infer(to.needs(MODEL), echo_request(), headers=headers)
    coding = reply.headers.get("content-encoding")
    expect(coding == "gzip", "Content-Encoding: gzip", coding)
    is_echoed(reply._replace(body=gzip.decompress(reply.body)))


# --- extensions -----------------------------------------------------------------------------------


@CASES("extensions", "statistics count requests")
def statistics(to: HttpTarget) -> None:
    """Before and after one more."""
    to.extends("statistics")

    def count() -> int:
        (stats,) = to.get(f"/v2/models/{to.needs(MODEL)}/stats").json()["model_stats"]
        return int(stats["inference_stats"]["success"]["count"])

    before = count()
    is_echoed(to.infer(MODEL, echo_request()))
    expect((after := count()) == before + 1, f"{before + 1} requests", after)


@CASES("extensions", "configuration tells the batch size and the tensors")
def configuration(to: HttpTarget) -> None:
    """Load generators, as perf_analyzer, need it."""
    to.extends("model_configuration")
    body = to.get(f"/v2/models/{to.needs(MODEL)}/config").json()
    expect("max_batch_size" in body, "max_batch_size", body)
    (tensor,) = body["input"]
    expect(tensor["data_type"] == "TYPE_FP32", "TYPE_FP32", tensor)


@CASES("extensions", "the repository's index needs no body")
def index(to: HttpTarget) -> None:
    """Triton's client sends none."""
    to.extends("model_repository")
    to.needs(MODEL)
    lines = to.ask("POST", "/v2/repository/index", b"").json()
    expect(isinstance(lines, list), "a list", lines)
    (line,) = [each for each in lines if each.get("name") == MODEL]
    expect(line.get("state") == "READY", "the state READY", line)


@CASES("extensions", "a model is unloaded and loaded again")
def reload(to: HttpTarget) -> None:
    """And serves as before."""
    to.extends("model_repository")
    if not to.can_load:
        raise SkippedError("models are left as they are; --reload allows it")
    base = f"/v2/repository/models/{to.needs(MODEL)}"
    expect((reply := to.post(f"{base}/unload", {})).status == 200, "200", reply)
    refused_reply = to.infer(MODEL, echo_request())
    expect(400 <= refused_reply.status < 600, "no answer", refused_reply.status)
    expect((reply := to.post(f"{base}/load", {})).status == 200, "200", reply)
    is_echoed(to.infer(MODEL, echo_request()))


@CASES("extensions", "priority and timeout are accepted")
def scheduling(to: HttpTarget) -> None:
    """As parameters, integers both."""
    to.extends("schedule_policy")
    request = echo_request(parameters={"priority": 1, "timeout": 30_000_000})
    is_echoed(to.infer(to.needs(MODEL), request))


@CASES("extensions", "trace and log settings can be read")
def settings(to: HttpTarget) -> None:
    """As objects."""
    for path in ("/v2/trace/setting", "/v2/logging"):
        reply = to.get(path)
        if 400 <= reply.status < 500:
            raise SkippedError(f"the server has no `{path}`")
        body = reply.json()
        expect(isinstance(body, dict) and body, f"an object of {path}", body)
