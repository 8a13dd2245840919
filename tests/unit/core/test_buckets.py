"""Keys of buckets: what is written into them can be told apart again."""

import pytest

from headway.core import BucketDifference, bucket_difference, bucket_key

X4, X8 = "x FP32 (4,)", "x FP32 (8,)"
BEAM, SEED = repr([("beam", 2)]), repr([("seed", "|[(")])


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (("", [X4]), ("2", [X4]), BucketDifference.VERSION),
        (("", [X4]), ("2", [X8]), BucketDifference.VERSION),
        (("", [X4]), ("", [X8]), BucketDifference.SHAPE),
        (("", [X4]), ("", [X4, "z FP32 ()"]), BucketDifference.SHAPE),
        (("", [X4], BEAM), ("", [X8], SEED), BucketDifference.SHAPE),
        (("", [X4], BEAM), ("", [X4]), BucketDifference.PARAMETERS),
        (("1", [X4], BEAM), ("1", [X4], SEED), BucketDifference.PARAMETERS),
        (("", [], BEAM), ("", []), BucketDifference.PARAMETERS),
    ],
)
def test_difference_is_the_first_thing_that_differs(one, other, difference):
    """Version before shape before parameters, whichever of the two is asked first."""
    keys = bucket_key(*one), bucket_key(*other)
    assert bucket_difference(*keys) is difference
    assert bucket_difference(*reversed(keys)) is difference


def test_parameters_are_added_to_a_key_that_is_there():
    """A key that was made for the shapes grows by the parameters of one request."""
    assert bucket_key(bucket_key("1", [X4]), (), BEAM) == bucket_key("1", [X4], BEAM)
