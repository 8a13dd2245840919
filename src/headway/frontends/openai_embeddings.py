"""`POST /v1/embeddings` of OpenAI's API: texts to a call, vectors to an answer.

What OpenAI has and headway gives a meaning of its own:

| key            | meaning                                                                      |
| -------------- | ---------------------------------------------------------------------------- |
| `service_tier` | a tier, by its name or as the server maps it; any other is the model's own   |
| `priority`     | as the header `headway-priority`, which wins; below 0 is 1, no integer is 0  |
| `dimensions`   | only what the model has: vectors are not cut                                 |

Both of the first are wishes, and no wish is an error. `usage` is what the model counted, and null
for one that does not count: a number would be made up. Keys that are not known are ignored.

Pure: bytes in, values out.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import numpy as np
from msgspec import UNSET, DecodeError, Meta, Raw, Struct, UnsetType, structs
from msgspec.json import Decoder, Encoder

from headway.core import Datatype, ModelName, Tensor, TierName
from headway.errors import ExecutorError
from headway.frontends.client_call import PRIORITY_MAX, call_of, shown
from headway.frontends.oip_tensors import pack_values
from headway.frontends.openai_embedder import Embedder
from headway.frontends.openai_errors import ParameterError
from headway.runtime import InferCall, InferReply

__all__ = [
    "TEXTS_MAX",
    "EmbeddingsAnswer",
    "EmbeddingsForm",
    "EmbeddingsRequest",
    "call_for",
    "decode_embeddings",
    "encode_embeddings",
    "priority_of",
]

TEXTS_MAX: Final = 2048
"""Of one request, as OpenAI has it."""

_DTYPES: Final = {Datatype.FP16: "<f2", Datatype.FP32: "<f4", Datatype.FP64: "<f8"}
_KEY: Final = re.compile(r"`\$\.(\w+)|required field `(\w+)`")
"""Where the decoder says which key it is about."""
_TIER_CHARS_MAX: Final = 256


class EmbeddingsForm(NamedTuple):
    """How a client wants its answer."""

    texts: int
    is_base64: bool
    dimensions: int | None
    tier: str | None


class EmbeddingsRequest(Struct, kw_only=True):
    """What a client asks for."""

    model: str
    input: str | list[Any]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    service_tier: Any = None
    priority: Any = None

    @property
    def texts(self) -> list[str]:
        """Those to be embedded, in their order."""
        return [self.input] if isinstance(self.input, str) else self.input

    @property
    def tier(self) -> str | None:
        """The service tier that was named."""
        wanted = self.service_tier
        return wanted[:_TIER_CHARS_MAX] if isinstance(wanted, str) and wanted else None

    @property
    def form(self) -> "EmbeddingsForm":
        """How it is to be answered: all that is kept of it while it waits."""
        is_base64 = self.encoding_format == "base64"
        return EmbeddingsForm(len(self.texts), is_base64, self.dimensions, self.tier)


class Usage(Struct):
    """Tokens, as the model counted them."""

    prompt_tokens: int
    total_tokens: int


class Embedding(Struct, kw_only=True):
    """One vector."""

    object: str = "embedding"
    index: int
    embedding: Sequence[float] | str
    """Numbers, or their bytes as little-endian FP32 in base64."""


class EmbeddingsAnswer(Struct, kw_only=True):
    """One vector a text, in the order of the texts."""

    object: str = "list"
    model: str
    data: Sequence[Embedding]
    usage: Usage | None
    """Null where the model does not count tokens."""
    service_tier: str | UnsetType = UNSET
    """As it was sent."""


Vectors = np.ndarray[Any, np.dtype[Any]]  # (text, dimension)

_decoder: Final = Decoder(EmbeddingsRequest)
_encoder: Final = Encoder()


def decode_embeddings(body: bytes) -> EmbeddingsRequest:
    """Decode a body, decompressed.

    Raises:
        ParameterError: what is wrong, and with which key.
    """
    try:
        if not body.isascii():
            body.decode()  # what nobody reads is not looked at below, yet bad text is bad text
        wanted = _decoder.decode(body)
    except (DecodeError, ValueError, RecursionError) as error:
        found = _KEY.search(str(error))
        raise ParameterError(
            f"the body is no embeddings request: {error}",
            param=(found[1] or found[2]) if found else None,
            hint="it is an object with `model` and `input`",
        ) from None
    _check_texts(wanted.texts)
    return wanted


def call_for(
    wanted: EmbeddingsRequest,
    embedder: Embedder,
    *,
    tiers: Mapping[str, TierName],
    arrived_at_ns: int,
    headers: Mapping[bytes, bytes],
) -> InferCall:
    """The call that a request comes to.

    Args:
        wanted: what is asked for.
        embedder: the tensors of the model that is asked.
        tiers: the tiers that service tiers stand for.
        arrived_at_ns: when the request's first bytes were seen.
        headers: those of `HEADER_NAMES` that it has.

    Raises:
        ParameterError: vectors of another size are wanted.
        InvalidRequestError: a header is not what it should be.
    """
    if embedder.dimensions is not None:
        _check_dimensions(wanted.dimensions, embedder.dimensions, wanted.model)
    texts = [text.encode() for text in wanted.texts]
    shape = (len(texts),) if len(embedder.texts.shape) == 1 else (len(texts), 1)
    name = embedder.texts.name
    packed = pack_values(name, Datatype.BYTES, shape, texts)
    call = call_of(
        ModelName(wanted.model),
        "",
        [Tensor(name, Datatype.BYTES, shape, packed)],
        embedder.outputs,
        arrived_at_ns,
        {"priority": priority_of(wanted.priority)},
        headers,
    )
    tier = tiers.get(wanted.tier or "")
    return call if tier is None or call.tier is not None else structs.replace(call, tier=tier)


def encode_embeddings(reply: InferReply, form: EmbeddingsForm, embedder: Embedder) -> bytes:
    """The body of an answer.

    Raises:
        ParameterError: vectors of another size are wanted, or a form that some numbers do not have.
        ExecutorError: the model gave not one vector, or not one count, a text.
    """
    by_name = {tensor.name: tensor for tensor in reply.outputs}
    vectors = _vectors_of(by_name[embedder.vectors.name], form.texts)
    _check_dimensions(form.dimensions, vectors.shape[1], reply.model)
    tokens = None
    if embedder.tokens is not None:
        tokens = _sum_of(by_name[embedder.tokens.name], form.texts)
    rows = _rows_of(vectors, is_base64=form.is_base64)
    return _encoder.encode(
        EmbeddingsAnswer(
            model=reply.model,
            data=[Embedding(index=at, embedding=row) for at, row in enumerate(rows)],
            usage=None if tokens is None else Usage(tokens, tokens),
            service_tier=UNSET if form.tier is None else form.tier,
        )
    )


def _check_texts(texts: Sequence[Any]) -> None:
    if not 1 <= len(texts) <= TEXTS_MAX:
        raise ParameterError(
            f"`input` has {len(texts)} texts",
            param="input",
            hint=f"send 1 to {TEXTS_MAX} in one request",
        )
    if {str}.issuperset(map(type, texts)):
        return
    at, odd = next((at, text) for at, text in enumerate(texts) if type(text) is not str)
    if type(odd) is int or (type(odd) is list and {int}.issuperset(map(type, odd))):
        raise ParameterError(
            "`input` has token numbers, which mean nothing without the tokenizer they are of",
            param="input",
            hint="send texts; LangChain does with `check_embedding_ctx_length=False`",
        )
    raise ParameterError(f"`input` {at} is `{shown(odd)}`, not a text", param="input")


def _check_dimensions(wanted: int | None, found: int, model: str) -> None:
    if wanted not in {None, found}:
        raise ParameterError(
            f"`dimensions` is `{shown(wanted)}`, but vectors of `{model}` have {found}",
            param="dimensions",
            hint=f"leave it out, or send {found}",
        )


def priority_of(wished: object) -> int:
    """In headway's own scale; 0 leaves it to the tier."""
    if isinstance(wished, str) and len(wished) <= 20:
        try:
            wished = int(wished)
        except ValueError:
            return 0
    if type(wished) is not int:
        return 0
    return 1 if wished < 0 else min(wished, PRIORITY_MAX)


def _vectors_of(tensor: Tensor, count: int) -> Vectors:
    if len(tensor.shape) != 2 or tensor.shape[0] != count:
        raise ExecutorError(
            f"the model gave `{tensor.name}` of shape {list(tensor.shape)} for {count} texts"
        )
    return np.frombuffer(tensor.data, _DTYPES[tensor.datatype]).reshape(tensor.shape)


def _sum_of(tensor: Tensor, count: int) -> int:
    numbers = np.frombuffer(tensor.data, tensor.datatype.lower())
    if len(numbers) != count:
        raise ExecutorError(f"the model gave {len(numbers)} counts of tokens for {count} texts")
    return int(numbers.sum())


def _rows_of(vectors: Vectors, *, is_base64: bool) -> Sequence[Sequence[float] | str]:
    if is_base64:
        return [b64encode(row).decode() for row in _fp32_of(vectors)]
    return _numbers_of(vectors)


def _fp32_of(vectors: Vectors) -> Vectors:
    """Rounded to the nearest FP32; a finite number that it cannot hold is not made infinite."""
    with np.errstate(over="ignore"):
        rounded = vectors.astype("<f4")
    if vectors.dtype.itemsize > rounded.dtype.itemsize:
        lost = np.isinf(rounded) & np.isfinite(vectors)
        if lost.any():
            raise ParameterError(
                f"the vector of text {int(np.argmax(lost.any(axis=1)))} has a number that is too"
                " large for FP32, which is what base64 holds",
                param="encoding_format",
                hint="ask for `float`",
            )
    return rounded


def _numbers_of(vectors: Vectors) -> list[Sequence[float]]:
    finite = np.isfinite(vectors)
    if not finite.all():
        row = int(np.argmin(finite.all(axis=1)))
        raise ParameterError(
            f"the vector of text {row} has a number that is not finite, which JSON has no word for",
            param="encoding_format",
            hint="ask for `base64`",
        )
    # Row by row, for one that is done in a thread must let the others go on between.
    return [cast("Sequence[float]", Raw(_encoder.encode(row.tolist()))) for row in vectors]
