"""What a server and the worker of a generator tell each other: frames of msgpack on a socket.

A frame is its length in four bytes, and a message. A stream of bytes and not of packets, as a
prompt may be longer than any packet. Knows messages. Refuses to know who reads them.
"""

import struct
from collections.abc import Iterator
from typing import Final, TypeVar

from msgspec import Struct, field
from msgspec.msgpack import Decoder, Encoder

from headway.core import TenantId
from headway.decoder.model_limits import DecoderLimits
from headway.decoder.words import Message
from headway.errors import InvalidRequestError
from headway.generate import StepSettings, TierTerms

__all__ = [
    "FRAME_BYTES_MAX",
    "ORDERS",
    "REPLIES",
    "Begun",
    "Cancel",
    "Failed",
    "Figures",
    "Frames",
    "Generate",
    "Order",
    "Prompt",
    "Ready",
    "Refused",
    "Reply",
    "Said",
    "Start",
    "Stepped",
    "Stop",
    "TokenLogprob",
    "Wishes",
    "framed",
]

FRAME_BYTES_MAX: Final = 256 << 20
_HEAD: Final = struct.Struct("<I")
_encoder: Final = Encoder()


class Start(Struct, frozen=True, kw_only=True, tag=True):
    """Load a model and be ready."""

    folder: str
    limits: DecoderLimits
    settings: StepSettings
    seed: str
    """Of the chance of answers whose clients give no seed."""
    niceness: int = 0


class Prompt(Struct, frozen=True, kw_only=True):
    """One of its fields: text, tokens, or a conversation."""

    text: str | None = None
    tokens: list[int] | None = None
    messages: list[Message] | None = None


class Wishes(Struct, frozen=True, kw_only=True):
    """How an answer is to be drawn, as a client says it."""

    temperature: float = 1.0
    top_p: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: dict[str, float] = field(default_factory=dict)
    logprobs: int | None = None
    seed: int | None = None
    stops: tuple[str, ...] = ()
    ignores_end: bool = False


class Generate(Struct, frozen=True, kw_only=True, tag=True):
    """Answer these prompts, each so many times."""

    request_id: int
    prompts: list[Prompt]
    choices: int
    """For each prompt."""
    tokens_max: int | None
    """Of each answer; None for all that there is room for."""
    answer_tokens_max: int
    """The server's own limit."""
    wishes: Wishes
    tag: TenantId
    terms: TierTerms
    age_ns: int
    """Since it arrived at the server."""


class Cancel(Struct, frozen=True, kw_only=True, tag=True):
    """Nobody wants it any more."""

    request_id: int


class Stop(Struct, frozen=True, kw_only=True, tag=True):
    """End."""


Order = Start | Generate | Cancel | Stop


class Ready(Struct, frozen=True, kw_only=True, tag=True):
    """The model is loaded."""

    context: int
    kv_tokens: int
    """That there is memory for."""
    is_chat: bool


class Failed(Struct, frozen=True, kw_only=True, tag=True):
    """It could not be loaded; the worker ends."""

    message: str


class Begun(Struct, frozen=True, kw_only=True, tag=True):
    """A request was let in."""

    request_id: int
    prompt_tokens: int
    """Of all its prompts."""


class Refused(Struct, frozen=True, kw_only=True, tag=True):
    """A request was not."""

    request_id: int
    message: str
    hint: str | None = None
    is_full: bool = False
    """It may be sent again later; else it cannot be answered at all."""


class TokenLogprob(Struct, frozen=True, gc=False):
    """How likely a token was."""

    token: bytes
    logprob: float
    top: list[tuple[bytes, float]]


class Said(Struct, frozen=True, kw_only=True):
    """One more token of an answer."""

    request_id: int
    choice: int
    """Of all its prompts, counted through."""
    text: str
    is_end: bool = False
    """It is one that ends answers, and no part of the text."""
    finish: str | None = None
    logprob: TokenLogprob | None = None
    device_ns: int = 0
    """Of steps since its last token, this answer's part."""


class Figures(Struct, frozen=True, kw_only=True):
    """What a step did, and how things stand after it."""

    step_ns: int = 0
    """How long the model ran; 0 where only the state is told."""
    prefill_tokens: int = 0
    decode_tokens: int = 0
    swapped: int = 0
    """Sequences that made room by being copied out."""
    dropped: int = 0
    """Those that will be computed again."""
    running: int = 0
    """Sequences that hold memory."""
    waiting: int = 0
    kv_used_ratio: float = 0.0


class Stepped(Struct, frozen=True, kw_only=True, tag=True):
    """A step was run, or the engine has come to rest."""

    said: list[Said]
    figures: Figures


Reply = Ready | Failed | Begun | Refused | Stepped

ORDERS: Final = Decoder(Order)
REPLIES: Final = Decoder(Reply)
_Message = TypeVar("_Message")


def framed(message: Order | Reply) -> bytes:
    """As it is sent.

    Raises:
        InvalidRequestError: it is longer than any frame may be, or a number in it is.
    """
    try:
        body = _encoder.encode(message)
    except OverflowError as error:
        raise InvalidRequestError(f"the request cannot be passed on: {error}") from error
    if len(body) > FRAME_BYTES_MAX:
        raise InvalidRequestError(
            f"the request cannot be passed on: it has `{len(body)}` bytes",
            hint=f"{FRAME_BYTES_MAX} at most",
        )
    return _HEAD.pack(len(body)) + body


class Frames:
    """Puts messages together from bytes as they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes, decoder: Decoder[_Message]) -> Iterator[_Message]:
        """Whole messages.

        Raises:
            ValueError: a frame is longer than any may be.
        """
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._buffer, at)
            if size > FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {size} bytes")
            if len(self._buffer) - at < _HEAD.size + size:
                break
            begins = at + _HEAD.size
            at = begins + size
            yield decoder.decode(memoryview(self._buffer)[begins:at].tobytes())
        del self._buffer[:at]
