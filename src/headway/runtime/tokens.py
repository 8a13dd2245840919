"""How many tokens a model counted, as it says itself.

A model says so with an output called `tokens`, a whole number a row: shape [-1] or [-1, 1]. It is
read whether the client asks for that output or not, for tenants pay by it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from headway.core import Datatype, Tensor
from headway.executors import TensorSpec

__all__ = ["TOKENS", "is_token_count", "tokens_in"]

TOKENS: Final = "tokens"
TOKENS_MAX: Final = 1 << 40
"""Of one request; a model that says more is not believed."""

_FORMATS: Final[Mapping[Datatype, Literal["i", "q", "I", "Q"]]] = {
    Datatype.INT32: "i",
    Datatype.INT64: "q",
    Datatype.UINT32: "I",
    Datatype.UINT64: "Q",
}


def is_token_count(spec: TensorSpec) -> bool:
    """Whether an output says how many tokens each row has."""
    is_column = spec.shape[:1] == (-1,) and spec.shape[1:] in {(), (1,)}
    return spec.name == TOKENS and spec.datatype in _FORMATS and is_column


def tokens_in(outputs: Sequence[Tensor]) -> int:
    """The sum over the rows of a model's outputs, one of which is such a count."""
    for tensor in outputs:
        if tensor.name == TOKENS and tensor.datatype in _FORMATS:
            counts = memoryview(tensor.data).cast("B").cast(_FORMATS[tensor.datatype])
            return min(TOKENS_MAX, sum([count for count in counts if count > 0]))
    return 0
