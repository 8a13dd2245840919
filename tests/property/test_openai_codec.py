"""Laws of OpenAI's embeddings and of Triton's generate: no input is more than wrong."""

import base64
import json
import struct
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fakes import a_reply, a_status

from headway.core import Datatype, Tensor
from headway.errors import InvalidRequestError
from headway.executors import TensorSpec
from headway.frontends.oip_generate import decode_generate, encode_generate
from headway.frontends.openai_embedder import embedder_of
from headway.frontends.openai_embeddings import call_for, decode_embeddings, encode_embeddings

TEXT = TensorSpec(name="text", datatype=Datatype.BYTES, shape=(-1, 1))
VECTOR = TensorSpec(name="vector", datatype=Datatype.FP32, shape=(-1, -1))
EMBEDDER = embedder_of(a_status("embedder", inputs=[TEXT], outputs=[VECTOR]))
MODEL = a_status(
    inputs=[
        TensorSpec(name="a", datatype=Datatype.INT8, shape=(-1,)),
        TensorSpec(name="b", datatype=Datatype.BYTES, shape=(-1, 2)),
        TensorSpec(name="c", datatype=Datatype.FP16, shape=(-1, -1, 3)),
    ]
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def a_call(body):
    wanted = decode_embeddings(body)
    return wanted, call_for(wanted, EMBEDDER, tiers={}, arrived_at_ns=0, headers={})


def embeddings_like():
    """Objects with the keys of an embeddings request, of any values."""
    keys = st.sampled_from(
        ["model", "input", "encoding_format", "dimensions", "service_tier", "priority", "user"]
    )
    return st.dictionaries(keys, json_values | st.lists(st.text()), max_size=7).map(
        lambda value: {"model": "embedder", "input": "x"} | value
    )


@given(st.binary(max_size=60) | embeddings_like().map(lambda value: json.dumps(value).encode()))
@example(b'{"model":"m","input":"x","priority":"' + b"9" * 5000 + b'"}')
@example(b"[" * 10_000)
def test_any_body_is_embeddings_or_a_bad_request(body):
    """Nothing but a call and the one error comes of a body, whatever is in it."""
    with suppress(InvalidRequestError):
        _, call = a_call(body)
        assert call.inputs[0].shape[1:] == (1,)


@given(
    st.lists(
        st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=5,
    )
)
def test_vectors_come_back_as_they_are_in_both_forms(rows):
    """Numbers and base64 are the same vectors, bit for bit, each with its text."""
    data = b"".join(struct.pack("<3f", *row) for row in rows)
    reply = a_reply(Tensor("vector", Datatype.FP32, (len(rows), 3), data), model="embedder")
    asked = {"model": "embedder", "input": ["x"] * len(rows)}
    found = {}
    for encoding in ("float", "base64"):
        wanted, _ = a_call(json.dumps(asked | {"encoding_format": encoding}).encode())
        lines = json.loads(encode_embeddings(reply, wanted.form, EMBEDDER))["data"]
        assert [line["index"] for line in lines] == list(range(len(rows)))
        found[encoding] = [line["embedding"] for line in lines]
    assert found["float"] == rows
    assert b"".join(base64.b64decode(text) for text in found["base64"]) == data


def flat_like():
    """Objects with the names of the inputs, of any values."""
    keys = st.sampled_from(["a", "b", "c", "id", "parameters", "priority", "other"])
    return st.dictionaries(keys, json_values, max_size=7)


@given(st.binary(max_size=60) | flat_like().map(lambda value: json.dumps(value).encode()))
@example(b'{"c":' + b"[" * 10_000)
@example(b'{"a":' + b"9" * 5000 + b"}")
def test_any_body_is_a_generate_request_or_a_bad_one(body):
    """Nothing but a call and the one error comes of a body, and a call's tensors are whole."""
    with suppress(InvalidRequestError):
        call = decode_generate(body, status=MODEL, arrived_at_ns=0, headers={}).call
        for tensor in call.inputs:
            size_bytes = tensor.datatype.item_bytes
            count = 1
            for size in tensor.shape:
                count *= size
            assert size_bytes is None or len(tensor.data) == count * size_bytes


@given(st.lists(st.text(max_size=5), max_size=4))
def test_texts_come_back_flat(texts):
    """What goes in as a key comes back as a key: one element as itself, any other number a list."""
    status = a_status(inputs=[TensorSpec(name="t", datatype=Datatype.BYTES, shape=(-1,))])
    body = json.dumps({"t": texts}).encode()
    (tensor,) = decode_generate(body, status=status, arrived_at_ns=0, headers={}).call.inputs
    answer = json.loads(encode_generate(a_reply(tensor), None))
    assert answer["t"] == (texts[0] if len(texts) == 1 else texts)


def test_a_lone_surrogate_is_a_bad_request():
    """JSON can spell half a character; UTF-8 cannot."""
    with pytest.raises(InvalidRequestError):
        a_call(b'{"model": "m", "input": "\\ud800"}')
    with pytest.raises(InvalidRequestError):
        decode_generate(b'{"b": ["\\ud800", "x"]}', status=MODEL, arrived_at_ns=0, headers={})
