"""Triton's generate, in this process: flat objects in and out, and events of one answer."""

import asyncio
import json

import pytest
from tests.asgi_client import Exchange, call, scope_of
from tests.conformance import oip_schema as schema
from tests.fakes import FakeEngine, a_reply, a_status

from headway.core import Datatype, Tensor, concat_bytes
from headway.errors import RejectedError
from headway.executors import TensorSpec
from headway.frontends import DisconnectWatch, OipRest

GENERATE = "/v2/models/echo/generate"
STREAM = "/v2/models/echo/generate_stream"


@pytest.fixture
def engine():
    return FakeEngine()


def takes(engine, *specs):
    """Have the model take these inputs: (name, datatype, shape)."""
    engine.models["echo"] = a_status(
        inputs=[TensorSpec(name=name, datatype=kind, shape=shape) for name, kind, shape in specs]
    )


def ask(engine, value, path=GENERATE, headers=None):
    """POST a value, or bytes as they are."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return asyncio.run(call(OipRest(engine, version="1"), "POST", path, body, headers))


def refused(response, status):
    assert status == response.status
    return schema.check(schema.Error, response.body).error


def test_a_flat_object_is_answered_flat(engine):
    """Keys are inputs by name, and outputs come back as keys."""
    takes(engine, ("INPUT_A", Datatype.BYTES, (-1, -1)), ("INPUT_B", Datatype.INT64, (-1,)))
    response = ask(engine, {"id": "7", "INPUT_A": "zwölf", "INPUT_B": [1, 2**53 + 1]})
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert response.json == {
        "id": "7",
        "model_name": "echo",
        "model_version": "1",
        "OUTPUT_A": "zwölf",
        "OUTPUT_B": [1, 2**53 + 1],
    }


@pytest.mark.parametrize(
    ("declared", "value", "shape"),
    [
        ((-1,), 1.5, (1,)),
        ((-1,), [1, 2, 3], (3,)),
        ((-1, 3), [1, 2, 3], (1, 3)),
        ((-1, -1), 1, (1, 1)),
        ((-1, 1), [1, 2, 3], (3, 1)),
        ((-1, 2), [[1, 2], [3, 4]], (2, 2)),
        ((-1, -1, -1), [1, 2], (1, 1, 2)),
        ((-1, -1, -1), [[[1], [2]]], (1, 2, 1)),
        ((-1,), [], (0,)),
    ],
)
def test_a_value_takes_the_shape_that_its_input_wants(engine, declared, value, shape):
    """Axes that a value does not show have size 1; as many as the input has are taken as sent."""
    takes(engine, ("INPUT", Datatype.FP32, declared))
    ask(engine, {"INPUT": value})
    assert shape == engine.calls[0].inputs[0].shape


def test_what_names_no_input_is_a_parameter(engine):
    """Keys without an input, and those of `parameters`, reach the model; reserved ones end here."""
    value = {"INPUT": 1, "top": 3, "timeout": 5000, "nothing": None}
    ask(engine, value | {"parameters": {"top": 1, "deep": "x", "priority": 4}})
    (asked,) = engine.calls
    assert asked.parameters == {"top": 3, "deep": "x"}
    assert (asked.budget_ns, asked.priority) == (5_000_000, 4)


def test_an_input_may_have_the_name_of_a_key(engine):
    """Where a model has an input `id` or `parameters`, the key is the input."""
    takes(engine, ("id", Datatype.INT64, (-1,)), ("parameters", Datatype.BYTES, (-1,)))
    response = ask(engine, {"id": 3, "parameters": ["a", "b"]})
    assert (response.json["id"], response.json["parameters"]) == (3, ["a", "b"])


def test_headers_and_versions_mean_what_they_do_elsewhere(engine):
    """A version in the path and headway's headers reach the engine."""
    path = "/v2/models/echo/versions/1/generate"
    headers = {"Headway-Tier": "gold", "Headway-Budget-Ms": "50"}
    assert ask(engine, {"INPUT": 1}, path, headers).status == 200
    (asked,) = engine.calls
    assert (asked.version, asked.tier, asked.budget_ns) == ("1", "gold", 50_000_000)
    refused(ask(engine, {"INPUT": 1}, "/v2/models/echo/versions/9/generate"), 404)


def test_a_stream_of_one_answer_is_one_event(engine):
    """A model that does not stream gives one event, which holds what `generate` would answer."""
    once, streamed = ask(engine, {"INPUT": [1, 2]}), ask(engine, {"INPUT": [1, 2]}, STREAM)
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert streamed.body == b"data: " + once.body + b"\n\n"


def test_an_error_before_the_first_event_is_a_status(engine):
    """Nothing has been said yet, so the status can still tell."""
    engine.outcome = RejectedError("full", reason="model_queue_full", retry_after_ns=1)
    for path in (GENERATE, STREAM):
        response = ask(engine, {"INPUT": 1}, path)
        assert "full" in refused(response, 429)
        assert response.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"{", "no generate request"),
        (b"[1]", "no generate request"),
        (b'{"INPUT": "\xff"}', "no generate request"),
        ({"INPUT": "x"}, "INPUT"),
        ({"INPUT": True}, "INPUT"),
        ({"INPUT": {"a": 1}}, "INPUT"),
        ({"INPUT": [[1, 2], [3]]}, "shape"),
        ({"INPUT": [[[1]]]}, "3 deep"),
        ({"INPUT": 1, "id": 7}, "`id`"),
        ({"INPUT": 1, "parameters": 7}, "`parameters`"),
        ({"INPUT": 1, "other": [1]}, "`other`"),
    ],
)
def test_what_cannot_be_mapped_is_refused(engine, value, said):
    """Whatever is wrong with a body is a 400 that says where."""
    assert said in refused(ask(engine, value), 400)
    assert not engine.calls


def test_an_answer_without_a_json_form_is_refused(engine):
    """An output that JSON has no word for is not answered as something else."""
    nan = Tensor("OUTPUT", Datatype.FP32, (1,), b"\x00\x00\xc0\x7f")
    engine.outcome = a_reply(nan)
    assert "nan" in refused(ask(engine, {"INPUT": 1}), 400)
    engine.outcome = a_reply(Tensor("OUTPUT", Datatype.BYTES, (1,), concat_bytes([b"\xff"])))
    assert "UTF-8" in refused(ask(engine, {"INPUT": 1}), 400)


def test_a_client_that_leaves_cancels_its_request():
    """A hang-up cancels the engine's work, and nothing is sent."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        app = OipRest(engine, version="1", watch=DisconnectWatch(tick_s=0.001))
        exchange = Exchange([b'{"INPUT": 1}'])
        async with asyncio.TaskGroup() as group:
            group.create_task(app(scope_of("POST", STREAM), exchange.receive, exchange.send))
            await engine.started.wait()
            exchange.hung_up.set()
        assert engine.cancelled.is_set()
        assert exchange.response.status == 0
        assert app.answers[499] == 1

    asyncio.run(run())
