"""OpenAI's API in this process, against a scripted engine: bodies, errors, and what reaches it."""

import asyncio
import base64
import gzip
import json
import struct

import pytest
from msgspec.structs import replace
from tests.asgi_client import Exchange, call, scope_of
from tests.fakes import FakeEngine, a_reply, a_status
from tests.predictors import a_forecast

from headway.core import Datatype, Tensor, TierName, concat_bytes
from headway.errors import (
    DeadlineExceededError,
    ExecutorError,
    NotAuthenticatedError,
    RejectedError,
    UnavailableError,
    WorkerLostError,
)
from headway.executors import TensorSpec
from headway.frontends import DisconnectWatch, HttpApp, OipRest, OpenAiRest, status_of
from headway.runtime import ModelState

EMBEDDINGS = "/v1/embeddings"
TEXT = TensorSpec(name="text", datatype=Datatype.BYTES, shape=(-1,))
VECTOR = TensorSpec(name="vector", datatype=Datatype.FP32, shape=(-1, 2))
TOKENS = TensorSpec(name="tokens", datatype=Datatype.INT64, shape=(-1,))
ASKED = {"model": "embedder", "input": "one"}


@pytest.fixture
def engine():
    """It has an embedding model, beside one that echoes."""
    engine = FakeEngine()
    serve(engine, [TEXT], [VECTOR, TOKENS])
    return engine


def serve(engine, inputs, outputs):
    """Have `embedder` take and give these."""
    engine.models["embedder"] = a_status("embedder", inputs=inputs, outputs=outputs)
    engine.outcome = lambda asked: _embedded(engine, asked)


async def _embedded(engine, asked):
    """Row r of every output is r, and r plus a half behind it."""
    rows = asked.inputs[0].shape[0]
    declared = {spec.name: spec for spec in engine.models["embedder"].outputs}
    outputs = []
    for name in asked.outputs:
        spec = declared[name]
        if spec.datatype is Datatype.INT64:
            shape = (rows, *spec.shape[1:])
            data = struct.pack(f"<{rows}q", *range(1, rows + 1))
        else:
            shape = (rows, 2)
            numbers = [number for row in range(rows) for number in (row, row + 0.5)]
            code = {"FP16": "e", "FP32": "f", "FP64": "d"}[spec.datatype]
            data = struct.pack(f"<{2 * rows}{code}", *numbers)
        outputs.append(Tensor(name, spec.datatype, shape, data))
    reply = a_reply(*outputs, model="embedder", foreseen=engine.foreseen, late_ns=engine.late_ns)
    return replace(reply, request_id=engine.request_id)


def app_of(engine, **options):
    return OpenAiRest(engine, created_at_s=1_700_000_000, **options)


def ask(engine, value=None, method="POST", path=EMBEDDINGS, headers=None, **options):
    """One request to an app around this engine."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return asyncio.run(call(app_of(engine, **options), method, path, body, headers))


def refused(response, status):
    """The error of a response that must have this status, with the keys of OpenAI's."""
    assert status == response.status
    assert response.headers["content-type"] == "application/json"
    (error,) = response.json.values()
    assert {"message", "type", "param", "code"} <= set(error)
    return error


# --- models ---------------------------------------------------------------------------------------


def test_models_are_listed_with_what_they_can(engine):
    """Every model that serves is there, and says whether it gives embeddings."""
    engine.states = [ModelState(name="broken", version="", state="UNAVAILABLE", reason="why")]
    answer = ask(engine, method="GET", path="/v1/models").json
    assert answer["object"] == "list"
    assert {m["id"]: m["capabilities"] for m in answer["data"]} == {
        "echo": {"embeddings": False, "completions": False, "chat": False},
        "embedder": {"embeddings": True, "completions": False, "chat": False},
    }
    assert {"id", "object", "created", "owned_by", "capabilities"} == set(answer["data"][0])
    assert answer["data"][0]["created"] == 1_700_000_000


def test_a_model_is_described_by_its_name(engine):
    """One that is not served is not found, in OpenAI's words."""
    assert ask(engine, method="GET", path="/v1/models/embedder").json["id"] == "embedder"
    error = refused(ask(engine, method="GET", path="/v1/models/an/other"), 404)
    assert (error["type"], error["code"], error["param"]) == (
        "not_found_error",
        "model_not_found",
        "model",
    )
    assert "an/other" in error["message"]


# --- embeddings -----------------------------------------------------------------------------------


def test_a_text_is_answered_with_its_vector(engine):
    """One text is one embedding, and the tokens that the model counted are the usage."""
    response = ask(engine, ASKED)
    assert response.status == 200
    assert response.json == {
        "object": "list",
        "model": "embedder",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.0, 0.5]}],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }
    (asked,) = engine.calls
    assert asked.inputs[0] == Tensor("text", Datatype.BYTES, (1,), concat_bytes([b"one"]))
    assert asked.outputs == ("vector", "tokens")


def test_texts_are_answered_in_their_order(engine):
    """A list is one call of as many rows."""
    answer = ask(engine, {**ASKED, "input": ["one", "zwölf", ""]}).json
    assert [line["index"] for line in answer["data"]] == [0, 1, 2]
    assert [line["embedding"] for line in answer["data"]] == [[0, 0.5], [1, 1.5], [2, 2.5]]
    assert answer["usage"] == {"prompt_tokens": 6, "total_tokens": 6}
    assert engine.calls[0].inputs[0].data == concat_bytes([b"one", "zwölf".encode(), b""])


@pytest.mark.parametrize("datatype", [Datatype.FP16, Datatype.FP32, Datatype.FP64])
def test_base64_is_little_endian_fp32_whatever_the_model_gives(engine, datatype):
    """Clients of OpenAI decode nothing else."""
    serve(engine, [TEXT], [TensorSpec(name="v", datatype=datatype, shape=(-1, -1))])
    asked = {**ASKED, "input": ["a", "b"], "encoding_format": "base64"}
    texts = [line["embedding"] for line in ask(engine, asked).json["data"]]
    assert [base64.b64decode(text) for text in texts] == [
        struct.pack("<2f", 0, 0.5),
        struct.pack("<2f", 1, 1.5),
    ]


@pytest.mark.parametrize(("shape", "sent"), [((-1,), (2,)), ((-1, 1), (2, 1)), ((-1, -1), (2, 1))])
def test_texts_have_the_shape_that_the_model_takes(engine, shape, sent):
    """One text a row, with or without an axis of columns."""
    serve(engine, [TensorSpec(name="q", datatype=Datatype.BYTES, shape=shape)], [VECTOR])
    assert ask(engine, {**ASKED, "input": ["a", "b"]}).status == 200
    assert sent == engine.calls[0].inputs[0].shape


def test_usage_is_null_where_nobody_counted(engine):
    """A number would be made up."""
    serve(engine, [TEXT], [VECTOR])
    assert ask(engine, ASKED).json["usage"] is None
    assert engine.calls[0].outputs == ("vector",)


def test_of_several_counts_the_one_called_tokens_is_usage(engine):
    """Other whole numbers are none of ours, and without that name none of them is."""
    column = (*TOKENS.shape, 1)
    named = TensorSpec(name="tokens", datatype=Datatype.INT64, shape=column)
    other = TensorSpec(name="other", datatype=Datatype.INT64, shape=(-1,))
    serve(engine, [TEXT], [VECTOR, other, named])
    assert ask(engine, ASKED).json["usage"] == {"prompt_tokens": 1, "total_tokens": 1}
    assert engine.calls[0].outputs == ("vector", "tokens")
    serve(engine, [TEXT], [VECTOR, other, TensorSpec(name="x", datatype="INT8", shape=(-1,))])
    assert ask(engine, ASKED).json["usage"] is None


@pytest.mark.parametrize("shape", [(-1, 2), (-1, -1)])
def test_dimensions_are_those_that_the_model_has(engine, shape):
    """Vectors are not cut: any other number is refused, before or after the model ran."""
    serve(engine, [TEXT], [TensorSpec(name="v", datatype=Datatype.FP32, shape=shape)])
    assert ask(engine, {**ASKED, "dimensions": 2}).status == 200
    error = refused(ask(engine, {**ASKED, "dimensions": 3}), 400)
    assert (error["param"], "have 2" in error["message"]) == ("dimensions", True)
    assert len(engine.calls) == (1 if shape == (-1, 2) else 2)


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        ([TEXT, TensorSpec(name="b", datatype=Datatype.FP32, shape=(-1,))], [VECTOR], "2 inputs"),
        ([TensorSpec(name="x", datatype=Datatype.FP32, shape=(-1,))], [VECTOR], "no BYTES"),
        ([TensorSpec(name="x", datatype=Datatype.BYTES, shape=(-1, 3))], [VECTOR], "one text a"),
        ([TensorSpec(name="x", datatype=Datatype.BYTES, shape=(4,))], [VECTOR], "one text a"),
        ([TEXT], [TOKENS], "0 of its outputs"),
        ([TEXT], [VECTOR, TensorSpec(name="w", datatype="FP64", shape=(-1, 9))], "2 of its"),
        ([TEXT], [TensorSpec(name="w", datatype=Datatype.FP32, shape=(-1, 2, 3))], "0 of its"),
    ],
)
def test_a_model_without_embeddings_is_told_why(engine, inputs, outputs, said):
    """What is missing is said, and so is what an embedding model looks like."""
    serve(engine, inputs, outputs)
    error = refused(ask(engine, ASKED), 400)
    assert (error["param"], error["type"]) == ("model", "invalid_request_error")
    assert said in error["message"]
    assert "BYTES input of shape [-1]" in error["message"]
    assert not engine.calls


@pytest.mark.parametrize(
    ("change", "param", "said"),
    [
        ({"input": [1, 2]}, "input", "tokenizer"),
        ({"input": [[1, 2], [3]]}, "input", "tokenizer"),
        ({"input": []}, "input", "0 texts"),
        ({"input": ["x"] * 2049}, "input", "2049 texts"),
        ({"input": ["x", None]}, "input", "`input` 1"),
        ({"input": ["x", True]}, "input", "`input` 1"),
        ({"input": ["x", {"a": 1}]}, "input", "`input` 1"),
        ({"input": 7}, "input", "input"),
        ({"input": None}, "input", "input"),
        ({"model": 7}, "model", "model"),
        ({"encoding_format": "hex"}, "encoding_format", "hex"),
        ({"dimensions": "2"}, "dimensions", "dimensions"),
        ({"dimensions": 0}, "dimensions", "dimensions"),
    ],
)
def test_a_wrong_key_is_named(engine, change, param, said):
    """`param` is the key of the body that is wrong."""
    error = refused(ask(engine, ASKED | change), 400)
    assert (error["param"], error["code"]) == (param, "invalid_request")
    assert said in error["message"]
    assert not engine.calls


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b'{"model": "embedder"}', "input"),
        (b'{"input": "x"}', "model"),
        (b'{"model": "embedder", "input": "x", "user": "\xff"}', None),
    ],
)
def test_a_body_that_is_no_request_is_refused(engine, body, param):
    """Whatever is wrong with a body is a 400."""
    assert param == refused(ask(engine, body), 400)["param"]


def test_2048_texts_are_taken(engine):
    """As many as OpenAI takes."""
    assert len(ask(engine, {**ASKED, "input": ["x"] * 2048}).json["data"]) == 2048


def test_unknown_keys_are_ignored(engine):
    """`user` and whatever clients send besides changes nothing, and keeps nobody out of a batch."""
    assert ask(engine, ASKED | {"user": "me", "store": True, "metadata": {}}).status == 200
    assert engine.calls[0].parameters == {}


def test_a_number_that_is_not_finite_has_no_json_form(engine):
    """It is told, with the way to have it nevertheless."""
    vector = Tensor("vector", Datatype.FP32, (1, 2), struct.pack("<2f", 1, float("nan")))
    tokens = Tensor("tokens", Datatype.INT64, (1,), struct.pack("<q", 1))
    engine.outcome = a_reply(vector, tokens)
    error = refused(ask(engine, ASKED), 400)
    assert (error["param"], "base64" in error["message"]) == ("encoding_format", True)
    assert ask(engine, ASKED | {"encoding_format": "base64"}).status == 200


def test_a_number_too_large_for_fp32_is_not_made_infinite(engine):
    """Base64 holds FP32: what does not fit is told, and what the model itself made infinite is."""
    serve(engine, [TEXT], [TensorSpec(name="vector", datatype=Datatype.FP64, shape=(-1, 2))])
    data = struct.pack("<4d", 1, float("inf"), 1e300, 1)
    engine.outcome = a_reply(Tensor("vector", Datatype.FP64, (2, 2), data))
    wanted = {"model": "embedder", "input": ["a", "b"], "encoding_format": "base64"}
    error = refused(ask(engine, wanted), 400)
    assert "text 1" in error["message"]
    engine.outcome = a_reply(Tensor("vector", Datatype.FP64, (1, 2), data[:16]))
    assert ask(engine, wanted | {"input": "a"}).status == 200


@pytest.mark.parametrize("rows", [(2, 1), (1, 2)])
def test_a_model_that_gives_another_number_of_rows_has_failed(engine, rows):
    """No vector is handed to a text that it may not be of."""
    vectors, counts = rows
    engine.outcome = a_reply(
        Tensor("vector", Datatype.FP32, (vectors, 2), bytes(8 * vectors)),
        Tensor("tokens", Datatype.INT64, (counts,), bytes(8 * counts)),
    )
    assert refused(ask(engine, ASKED), 500)["code"] == "executor_failed"


# --- who asks, and how urgently -------------------------------------------------------------------

TIERS = {"priority": TierName("gold"), "flex": TierName("bulk"), "silver": TierName("silver")}


@pytest.mark.parametrize(
    ("wanted", "tier"),
    [
        ("priority", "gold"),
        ("flex", "bulk"),
        ("silver", "silver"),
        ("auto", None),
        ("default", None),
        ("nonsense", None),
    ],
)
def test_a_service_tier_is_a_tier(engine, wanted, tier):
    """As the server maps it; whatever it does not map is the model's. It comes back as sent."""
    response = ask(engine, ASKED | {"service_tier": wanted}, service_tiers=TIERS)
    assert response.json["service_tier"] == wanted
    assert tier == engine.calls[0].tier


@pytest.mark.parametrize("wanted", [None, "", 7, {"a": 1}])
def test_no_service_tier_is_refused(engine, wanted):
    """It is a wish: what is none is no error, and does not come back."""
    response = ask(engine, ASKED | {"service_tier": wanted}, service_tiers=TIERS)
    assert (response.status, "service_tier" in response.json) == (200, False)


@pytest.mark.parametrize(
    ("wanted", "priority"),
    [(0, None), (3, 3), (-5, 1), ("4", 4), (2**40, 2**31 - 1)]
    + [(wanted, None) for wanted in (None, 0.5, True, "x", [1], "9" * 5000)],
)
def test_a_priority_is_on_our_scale_or_nothing(engine, wanted, priority):
    """Lower is first, 0 is the default; what no integer is taken for is never an error."""
    assert ask(engine, ASKED | {"priority": wanted}).status == 200
    assert priority == engine.calls[0].priority


def test_headers_mean_what_they_do_elsewhere(engine):
    """Key, trace, tenant, budget; tier and priority of a header win over the body's."""
    headers = {
        "Authorization": "Bearer secret",
        "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "Headway-Tenant": "acme",
        "Headway-Budget-Ms": "50",
        "Headway-Tier": "silver",
        "Headway-Priority": "2",
    }
    wishes = {"service_tier": "flex", "priority": 9}
    assert ask(engine, ASKED | wishes, headers=headers, service_tiers=TIERS).status == 200
    (asked,) = engine.calls
    assert (asked.credential, asked.traceparent) == ("secret", headers["Traceparent"])
    assert (asked.tenant, asked.budget_ns) == ("acme", 50_000_000)
    assert (asked.tier, asked.priority) == ("silver", 2)


def test_an_answer_says_what_was_foreseen_and_that_it_is_late(engine):
    """As an infer request's does."""
    engine.foreseen, engine.late_ns = a_forecast(12_345_678, 98_765_432), 1_500_000
    engine.request_id = 412
    headers = ask(engine, ASKED).headers
    assert headers["headway-request-id"] == "412"
    assert headers["headway-expected-ms"] == "12.346"
    assert headers["headway-late-ms"] == "1.500"


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotAuthenticatedError("who"), "authentication_error"),
        (RejectedError("full", reason="model_queue_full", retry_after_ns=1), "rate_limit_error"),
        (ExecutorError("raised"), "server_error"),
        (UnavailableError("drains"), "server_error"),
        (WorkerLostError("died"), "server_error"),
        (DeadlineExceededError("late", limit="timeout", stage="waiting"), "server_error"),
    ],
)
def test_errors_have_the_status_that_they_have_everywhere(engine, error, kind):
    """One table of statuses and codes; the type follows from the status."""
    engine.outcome = error
    told = refused(ask(engine, ASKED), status_of(error))
    assert (told["type"], told["code"], told["param"]) == (kind, error.code, None)
    assert told["message"] == str(error)


def test_a_refusal_says_when_to_come_back(engine):
    """Seconds for everyone, milliseconds for OpenAI's clients, and the reason in the body."""
    engine.outcome = RejectedError("full", reason="model_queue_full", retry_after_ns=1_200_000)
    response = ask(engine, ASKED)
    assert (response.headers["retry-after"], response.headers["retry-after-ms"]) == ("1", "2")
    error = refused(response, 429)
    assert (error["reason"], error["retry_after_ms"]) == ("model_queue_full", 2)


def test_a_deadline_says_which_limit_it_was(engine):
    """As everywhere."""
    engine.outcome = DeadlineExceededError("late", limit="tier", stage="waiting")
    error = refused(ask(engine, ASKED), 504)
    assert (error["limit"], error["stage"]) == ("tier", "waiting")


def test_a_bug_is_answered_without_its_details(engine, caplog):
    """The log has them."""
    engine.outcome = KeyError("secret")
    assert refused(ask(engine, ASKED), 500)["code"] == "internal"
    assert "secret" in caplog.text


@pytest.mark.parametrize("path", ["/v1/responses"])
def test_generation_is_not_there_yet_and_says_so(engine, path):
    """A path that OpenAI has is told apart from a wrong one, and is not asked for again."""
    response = ask(engine, {"model": "embedder", "messages": []}, path=path)
    assert "generating model" in refused(response, 501)["message"]
    assert response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/engines", "/v1/embeddings/x", "/v1/models/"])
def test_other_paths_are_told_apart(engine, path):
    """A path that means nothing is a 404; a slash at the end is no difference."""
    response = ask(engine, method="GET", path=path)
    if path == "/v1/models/":
        assert response.status == 200
    else:
        assert refused(response, 404)["code"] == "path_not_found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", EMBEDDINGS, "POST"), ("POST", "/v1/models", "GET, HEAD")],
)
def test_a_wrong_method_is_told_the_right_one(engine, method, path, allowed):
    """In OpenAI's form, too."""
    response = ask(engine, method=method, path=path)
    assert refused(response, 405)["code"] == "method_not_allowed"
    assert response.headers["allow"] == allowed


def test_bodies_are_bounded_and_may_be_compressed(engine):
    """As everywhere: 413 above the limit, before and after it is unpacked."""
    body = gzip.compress(json.dumps(ASKED).encode())
    headers = {"Content-Encoding": "gzip"}
    assert ask(engine, body, headers=headers).status == 200
    assert refused(ask(engine, body, headers=headers, body_bytes_max=8), 413)
    refused(ask(engine, ASKED, headers={f"x-{at}": "y" for at in range(101)}), 431)
    refused(ask(engine, ASKED, headers={"Content-Encoding": "br"}), 415)


def test_a_long_list_gives_others_their_turn(engine):
    """More than a mebibyte is read and written in a thread, with the same result."""
    texts = ["x" * 1024] * 1100
    answer = ask(engine, {**ASKED, "input": texts}).json
    assert answer["data"][1099]["embedding"] == [1099, 1099.5]


def test_a_client_that_leaves_cancels_its_request():
    """A hang-up cancels the engine's work, and nothing is sent."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        serve(engine, [TEXT], [VECTOR])
        answers = {}
        app = app_of(engine, answers=answers, watch=DisconnectWatch(tick_s=0.001))
        exchange = Exchange([json.dumps(ASKED).encode()])
        async with asyncio.TaskGroup() as group:
            group.create_task(app(scope_of("POST", EMBEDDINGS), exchange.receive, exchange.send))
            await engine.started.wait()
            exchange.hung_up.set()
        assert engine.cancelled.is_set()
        assert (exchange.response.status, answers) == (0, {499: 1})

    asyncio.run(run())


def test_each_path_goes_to_its_protocol(engine):
    """Errors tell which protocol answered; both count into one table."""
    oip = OipRest(engine, version="1")
    app = HttpApp(oip, app_of(engine, answers=oip.answers))
    assert isinstance(asyncio.run(call(app, "GET", "/v1/none")).json["error"], dict)
    assert isinstance(asyncio.run(call(app, "GET", "/v2/none")).json["error"], str)
    assert isinstance(asyncio.run(call(app, "GET", "/v1")).json["error"], dict)
    assert oip.answers[404] == 3


def test_the_short_way_is_that_of_infer_requests(engine):
    """No look at other protocols stands before it."""
    oip = OipRest(engine, version="1")
    assert oip.direct == HttpApp(oip, app_of(engine)).direct
