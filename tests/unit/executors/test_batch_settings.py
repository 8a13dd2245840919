"""What is asked of a model under `batch`: refused at its load where it cannot be done."""

import pytest

from headway.core import Datatype
from headway.errors import LoadError
from headway.executors import AxisBuckets, ModelSpec, RaggedInputs, Signature, TensorSpec
from headway.executors.batch_settings import bucket_shapes, check_settings, pad_bytes

IDS = TensorSpec(name="ids", datatype=Datatype.INT64, shape=(-1, -1))
FLAT = TensorSpec(name="flat", datatype=Datatype.FP32, shape=(-1,))
SIZES = TensorSpec(name="sizes", datatype=Datatype.INT64, shape=(-1,))
WORDS = TensorSpec(name="words", datatype=Datatype.BYTES, shape=(-1, -1))
FIXED = TensorSpec(name="fixed", datatype=Datatype.FP32, shape=(-1, 4))


def a_signature(*, can_batch=True):
    return Signature(
        platform="scripted",
        inputs=(IDS, FLAT, SIZES, WORDS, FIXED),
        outputs=(TensorSpec(name="hidden", datatype=Datatype.FP32, shape=(-1, -1, 3)),),
        can_batch=can_batch,
    )


def a_spec(**settings):
    return ModelSpec(name="m", backend="python", path="m.py:M", **settings)


def lengths(**more):
    return AxisBuckets(**{"sizes": (4, 8), "inputs": {"ids": 1}} | more)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buckets": (lengths(inputs={"x": 1}),)}, "the model has no input `x`"),
        ({"buckets": (lengths(outputs={"y": 1}),)}, "the model has no output `y`"),
        ({"buckets": (lengths(inputs={"fixed": 1}),)}, "axis 1 of input `fixed` is not free"),
        ({"buckets": (lengths(inputs={"ids": 2}),)}, "axis 2 of input `ids` is not free"),
        ({"buckets": (lengths(outputs={"hidden": 2}),)}, "axis 2 of output `hidden` is not free"),
        ({"buckets": (lengths(pads={"ids": 0.5}),)}, "INT64 cannot hold the pad `0.5`"),
        (
            {"buckets": (lengths(inputs={"words": 1}, pads={"words": 1}),)},
            "BYTES cannot hold the pad `1`",
        ),
        ({"ragged": RaggedInputs(inputs=("x",), lengths="sizes")}, "the model has no input `x`"),
        ({"ragged": RaggedInputs(inputs=("flat",), lengths="n")}, "the model has no input `n`"),
        (
            {"ragged": RaggedInputs(inputs=("flat",), lengths="fixed")},
            "input `fixed` is FP32\\[-1, 4\\]",
        ),
    ],
)
def test_settings_that_do_not_fit_the_model_are_refused(settings, message):
    """Each names the setting and what the model has instead."""
    with pytest.raises(LoadError, match=message):
        check_settings(a_signature(), a_spec(**settings))


def test_settings_that_fit_are_accepted():
    """All at once, as they are for one model with several inputs."""
    check_settings(
        a_signature(),
        a_spec(
            needs_batch=True,
            buckets=(lengths(outputs={"hidden": 1}, pads={"ids": -1}),),
            ragged=RaggedInputs(inputs=("flat",), lengths="sizes"),
        ),
    )


def test_batches_asked_of_a_model_without_a_batch_axis_are_refused():
    """They would silently not happen; without being asked for, the model is fine (kserve#2275)."""
    check_settings(a_signature(can_batch=False), a_spec())
    with pytest.raises(LoadError, match="model `m` has no batch axis"):
        check_settings(a_signature(can_batch=False), a_spec(needs_batch=True))


@pytest.mark.parametrize(
    ("datatype", "value"),
    [(Datatype.UINT8, -1), (Datatype.INT8, 128), (Datatype.BOOL, 2), (Datatype.FP16, 1e6)],
    ids=str,
)
def test_pad_that_a_datatype_cannot_hold_is_refused(datatype, value):
    """It would be another number in the model."""
    with pytest.raises(LoadError, match="cannot hold the pad"):
        pad_bytes(datatype, value)


def test_every_combination_of_sizes_is_warmed_up():
    """The largest first, so that what it needs is there before the rest; with a bound."""
    fixed = {"x": (2, 3, 1, 1), "z": (2, 5)}
    tall = AxisBuckets(sizes=(4, 8), inputs={"x": 2})
    wide = AxisBuckets(sizes=(6, 7), inputs={"x": 3})
    found = bucket_shapes([tall, wide], fixed)
    assert [shapes["x"] for shapes in found] == [
        (2, 3, 8, 7),
        (2, 3, 8, 6),
        (2, 3, 4, 7),
        (2, 3, 4, 6),
    ]
    assert {shapes["z"] for shapes in found} == {(2, 5)}
    assert bucket_shapes([], fixed) == [fixed]
    many = AxisBuckets(sizes=tuple(range(1, 65)), inputs={"x": 2})
    assert len(bucket_shapes([many, wide], fixed)) == 64
