"""How the key of a bucket is written, and what keeps two buckets apart.

A key is the version asked for, the inputs with their shapes, and the parameters that change the
computation, in this order. Knows the text. Refuses to know tensors, or who waits in a bucket.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from headway.core.names import BucketKey

__all__ = ["BucketDifference", "bucket_difference", "bucket_key"]

_SEPARATOR: Final = "|"
_PARAMETERS: Final = "|[("
"""How the parameters begin: they are the text of a sorted list of pairs."""


class BucketDifference(StrEnum):
    """What two requests of one model differ in, so that they may not share a batch."""

    VERSION = "version"
    SHAPE = "shape"
    PARAMETERS = "parameters"
    __hash__ = str.__hash__


def bucket_key(version: str, kinds: Iterable[str], parameters: str = "") -> BucketKey:
    """The key of requests that may share a batch.

    Args:
        version: the one asked for; empty for whichever is current.
        kinds: name, datatype and shape of each input, the batch axis left out.
        parameters: text of the sorted list of pairs; empty for none.
    """
    parts = (version, *kinds, parameters) if parameters else (version, *kinds)
    return BucketKey(_SEPARATOR.join(parts))


def bucket_difference(one: BucketKey, other: BucketKey) -> BucketDifference:
    """The first thing in which two keys differ that are not equal."""
    version = one.partition(_SEPARATOR)[0]
    if version != other.partition(_SEPARATOR)[0]:
        return BucketDifference.VERSION
    # Not split off behind the separator: of a model without inputs the parameters begin with it.
    one_rest, other_rest = one[len(version) :], other[len(version) :]
    is_shape = one_rest.partition(_PARAMETERS)[0] != other_rest.partition(_PARAMETERS)[0]
    return BucketDifference.SHAPE if is_shape else BucketDifference.PARAMETERS
