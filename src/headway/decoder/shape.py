"""What a decoder is made of: the sizes of a Llama-like transformer, and what follows from them.

Knows sizes. Refuses to know weights, files and what runs them.
"""

from typing import Final

from msgspec import Struct

from headway.errors import LoadError

__all__ = ["DecoderShape"]

_HEAD_SIZE_STEP: Final = 16
"""The attention operator takes heads whose size is a multiple of this."""
_FLOAT_BYTES: Final = 4


class DecoderShape(Struct, frozen=True, kw_only=True):
    """Sizes, all of them of the model as it was trained.

    Raises:
        LoadError: sizes that do not go together, or that the attention operator does not take.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    """Of the two matrices between which the activation stands."""
    vocabulary: int
    context: int
    """Tokens of prompt and answer together, at most."""
    rope_base: float = 10_000.0
    norm_epsilon: float = 1e-5

    def __post_init__(self) -> None:
        sizes = (self.layers, self.hidden, self.heads, self.kv_heads, self.inner, self.context)
        if min(*sizes, self.vocabulary, self.head_size) < 1:
            raise LoadError("a decoder has no size below 1")
        if self.heads % self.kv_heads:
            raise LoadError(f"`{self.heads}` heads do not share `{self.kv_heads}` of keys evenly")
        if self.head_size % _HEAD_SIZE_STEP:
            raise LoadError(
                f"heads of `{self.head_size}` numbers cannot be computed",
                hint=f"the attention operator takes multiples of {_HEAD_SIZE_STEP}",
            )

    @property
    def query_size(self) -> int:
        """Numbers of a token's queries, all heads together."""
        return self.heads * self.head_size

    @property
    def kv_size(self) -> int:
        """Numbers of a token's keys in one layer; its values are as many."""
        return self.kv_heads * self.head_size

    @property
    def kv_token_bytes(self) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.kv_size * _FLOAT_BYTES
