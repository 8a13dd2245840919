"""Which models give embeddings, as their signatures tell.

An embedding model takes one input of texts, BYTES of shape [-1] or [-1, 1], and gives one vector a
text: an output of FP32, FP16 or FP64 of shape [-1, n]. It may give one more that matters here: how
many tokens each text has, an integer output called `tokens` of shape [-1] or [-1, 1]. Whatever else
it gives is not asked for.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headway.core import Datatype
from headway.errors import HeadwayError
from headway.executors import TensorSpec
from headway.frontends.openai_errors import ParameterError
from headway.runtime import ModelStatus, is_token_count

__all__ = ["Embedder", "embedder_of", "is_embedder"]

_VECTORS: Final = frozenset({Datatype.FP16, Datatype.FP32, Datatype.FP64})
_HINT: Final = (
    "an embedding model takes one BYTES input of shape [-1] or [-1, 1], and gives one FP32, FP16 or"
    " FP64 output of shape [-1, n]"
)


class Embedder(NamedTuple):
    """The tensors of an embedding model."""

    texts: TensorSpec
    vectors: TensorSpec
    tokens: TensorSpec | None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of those that are asked for."""
        return (
            (self.vectors.name,) if self.tokens is None else (self.vectors.name, self.tokens.name)
        )

    @property
    def dimensions(self) -> int | None:
        """Numbers of a vector; None where only an answer tells."""
        return self.vectors.shape[1] if self.vectors.shape[1] >= 0 else None


def embedder_of(status: ModelStatus) -> Embedder:
    """The tensors of a model that gives embeddings.

    Raises:
        ParameterError: it gives none, and why it is thought so.
    """
    if len(status.inputs) != 1:
        raise _no_embedder(status, f"it has {len(status.inputs)} inputs, not one of texts")
    texts = status.inputs[0]
    if texts.datatype is not Datatype.BYTES:
        raise _no_embedder(status, f"its input {_shown(texts)} is no BYTES")
    if not _is_column(texts):
        raise _no_embedder(status, f"its input {_shown(texts)} is not one text a row")
    vectors = [spec for spec in status.outputs if _is_vectors(spec)]
    if len(vectors) != 1:
        outputs = ", ".join(_shown(spec) for spec in status.outputs) or "none declared"
        raise _no_embedder(
            status, f"{len(vectors)} of its outputs ({outputs}) are vectors, not one"
        )
    return Embedder(texts, vectors[0], _tokens_among(status.outputs))


def is_embedder(status: ModelStatus) -> bool:
    """Whether a model gives embeddings."""
    try:
        embedder_of(status)
    except HeadwayError:
        return False
    return True


def _is_column(spec: TensorSpec) -> bool:
    """One value a row, any number of rows."""
    return spec.shape[:1] == (-1,) and spec.shape[1:] in {(), (1,), (-1,)}


def _is_vectors(spec: TensorSpec) -> bool:
    return spec.datatype in _VECTORS and len(spec.shape) == 2 and spec.shape[0] == -1


def _tokens_among(outputs: Sequence[TensorSpec]) -> TensorSpec | None:
    return next((spec for spec in outputs if is_token_count(spec)), None)


def _shown(spec: TensorSpec) -> str:
    return f"`{spec.name}` {spec.datatype}{list(spec.shape)}"


def _no_embedder(status: ModelStatus, why: str) -> ParameterError:
    return ParameterError(
        f"model `{status.name}` gives no embeddings: {why}", param="model", hint=_HINT
    )
