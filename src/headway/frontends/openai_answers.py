"""Answers of OpenAI's completions and chat completions: tokens in, bytes out, whole or as events.

A stream of a chat begins with the role; each event has what came in one step; the last of an answer
has its `finish_reason`; then, where it was asked for, one event with `usage` and no choices, and
`[DONE]`. An error in the middle is an event with `error`, after which nothing comes: what was said
cannot be taken back, so no status can say it any more.

Pure. Knows the protocol. Refuses to know who answers.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Encoder

from headway.decoder import Said, TokenLogprob
from headway.frontends.openai_errors import openai_answer_to
from headway.frontends.openai_generation import GenerationForm

__all__ = [
    "DONE",
    "ChatAnswer",
    "CompletionAnswer",
    "GenerationAnswer",
    "GenerationUsage",
    "error_event",
]

DONE: Final = b"data: [DONE]\n\n"
_encoder: Final = Encoder()


class GenerationUsage(Struct, kw_only=True):
    """Tokens of all prompts and answers."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class TopLogprob(Struct, kw_only=True):
    """A likely token."""

    token: str
    logprob: float
    bytes: list[int]
    """Of the token, which may be a part of a letter."""


class ContentLogprob(Struct, kw_only=True):
    """A token that was said."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]
    """The likeliest tokens in its place, the likeliest first."""


class ChatLogprobs(Struct, kw_only=True):
    """Those of an answer, or of what is new of it."""

    content: list[ContentLogprob]
    refusal: None = None


class CompletionLogprobs(Struct, kw_only=True):
    """The same as completions have it."""

    text_offset: list[int]
    """Where in the answer's text each token begins."""
    token_logprobs: list[float]
    tokens: list[str]
    top_logprobs: list[dict[str, float]]


class AnswerMessage(Struct, kw_only=True):
    """What the model says."""

    role: str = "assistant"
    content: str
    refusal: None = None


class Delta(Struct, kw_only=True):
    """What is new of it."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChatChoice(Struct, kw_only=True):
    """One answer."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    """`stop` or `length`."""


class ChatChunkChoice(Struct, kw_only=True):
    """What is new of one answer."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None


class CompletionChoice(Struct, kw_only=True):
    """One answer, or what is new of it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None


class ChatAnswer(Struct, kw_only=True):
    """A continued conversation."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: GenerationUsage
    service_tier: str | UnsetType = UNSET
    """As it was sent."""


class CompletionAnswer(Struct, kw_only=True):
    """A continued text."""

    id: str
    object: str = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: GenerationUsage
    service_tier: str | UnsetType = UNSET


class _Chunk(Struct, kw_only=True):
    """An event of a stream."""

    id: str
    object: str
    created: int
    model: str
    choices: Sequence[ChatChunkChoice | CompletionChoice]
    usage: GenerationUsage | UnsetType | None = UNSET
    service_tier: str | UnsetType = UNSET


class _Written:
    """One answer so far."""

    __slots__ = ("chars", "finish", "logprobs", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.chars = 0
        self.finish: str | None = None
        self.logprobs: list[tuple[TokenLogprob, int]] = []
        """Of each token, with where its text begins."""


class GenerationAnswer:
    """Puts one request's answers together, whole or event by event.

    Args:
        form: how it is to be answered.
        answer_id: its own.
        created_s: seconds since the epoch.
        prompt_tokens: of all prompts.
        choices: answers, of all prompts.
    """

    def __init__(
        self, form: GenerationForm, answer_id: str, created_s: int, prompt_tokens: int, choices: int
    ) -> None:
        self._form = form
        self._id = answer_id
        self._created_s = created_s
        self.prompt_tokens = prompt_tokens
        self.answer_tokens = 0
        self.size_bytes = 0
        """Of the text that was given out."""
        self._written = [_Written() for _ in range(choices)]

    @property
    def usage(self) -> GenerationUsage:
        """So far."""
        return GenerationUsage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.answer_tokens,
            total_tokens=self.prompt_tokens + self.answer_tokens,
        )

    # -- whole -------------------------------------------------------------------------------------

    def add(self, batch: Sequence[Said]) -> None:
        """More of it, for `whole`."""
        for said in batch:
            written = self._take(said)
            written.parts.append(said.text)
            written.finish = said.finish

    def whole(self) -> bytes:
        """The body of an answer that is complete."""
        tier = self._tier
        if self._form.is_chat:
            return _encoder.encode(
                ChatAnswer(
                    id=self._id,
                    created=self._created_s,
                    model=self._form.model,
                    choices=[self._chat_choice(*each) for each in enumerate(self._written)],
                    usage=self.usage,
                    service_tier=tier,
                )
            )
        return _encoder.encode(
            CompletionAnswer(
                id=self._id,
                created=self._created_s,
                model=self._form.model,
                choices=[self._completion_choice(*each) for each in enumerate(self._written)],
                usage=self.usage,
                service_tier=tier,
            )
        )

    def _chat_choice(self, index: int, written: _Written) -> ChatChoice:
        return ChatChoice(
            index=index,
            message=AnswerMessage(content="".join(written.parts)),
            logprobs=self._chat_logprobs(written.logprobs),
            finish_reason=written.finish,
        )

    def _completion_choice(self, index: int, written: _Written) -> CompletionChoice:
        return CompletionChoice(
            index=index,
            text="".join(written.parts),
            logprobs=self._completion_logprobs(written.logprobs),
            finish_reason=written.finish,
        )

    # -- as events ---------------------------------------------------------------------------------

    def first(self) -> bytes:
        """The events with which a stream begins."""
        if not self._form.is_chat:
            return b""
        empty = Delta(role="assistant", content="")
        return b"".join(
            [
                self._event([ChatChunkChoice(index=index, delta=empty)])
                for index in range(len(self._written))
            ]
        )

    def events(self, batch: Sequence[Said]) -> bytes:
        """What has come, each token an event, but those that show nothing."""
        return b"".join([self._event_of(said) for said in batch])

    def last(self) -> bytes:
        """The events with which a stream ends."""
        if not self._form.has_usage:
            return DONE
        return self._event([], usage=self.usage) + DONE

    def _event_of(self, said: Said) -> bytes:
        written = self._take(said)
        logprobs = written.logprobs
        written.logprobs = []
        if not said.text and said.finish is None and not logprobs:
            return b""
        index, finish = said.choice, said.finish
        if not self._form.is_chat:
            choice = CompletionChoice(
                index=index,
                text=said.text,
                logprobs=self._completion_logprobs(logprobs),
                finish_reason=finish,
            )
            return self._event([choice])
        events = b""
        found = self._chat_logprobs(logprobs)
        if said.text or logprobs:
            delta = Delta(content=said.text)
            events = self._event([ChatChunkChoice(index=index, delta=delta, logprobs=found)])
        if finish is not None:
            last = ChatChunkChoice(index=index, delta=Delta(), finish_reason=finish)
            events += self._event([last])
        return events

    def _event(
        self,
        choices: Sequence[ChatChunkChoice | CompletionChoice],
        usage: GenerationUsage | None = None,
    ) -> bytes:
        is_chat = self._form.is_chat
        chunk = _Chunk(
            id=self._id,
            object="chat.completion.chunk" if is_chat else "text_completion",
            created=self._created_s,
            model=self._form.model,
            choices=choices,
            usage=usage if self._form.has_usage else UNSET,
            service_tier=self._tier,
        )
        return b"data: %b\n\n" % _encoder.encode(chunk)

    # -- both --------------------------------------------------------------------------------------

    @property
    def _tier(self) -> str | UnsetType:
        return UNSET if self._form.tier is None else self._form.tier

    def _take(self, said: Said) -> _Written:
        written = self._written[said.choice]
        self.answer_tokens += 1
        if said.logprob is not None:
            written.logprobs.append((said.logprob, written.chars))
        written.chars += len(said.text)
        self.size_bytes += len(said.text.encode("utf-8", "replace"))
        return written

    def _chat_logprobs(self, found: Sequence[tuple[TokenLogprob, int]]) -> ChatLogprobs | None:
        if not self._form.has_logprobs:
            return None
        return ChatLogprobs(content=[_content(each) for each, _ in found])

    def _completion_logprobs(
        self, found: Sequence[tuple[TokenLogprob, int]]
    ) -> CompletionLogprobs | None:
        if not self._form.has_logprobs:
            return None
        return CompletionLogprobs(
            text_offset=[at for _, at in found],
            token_logprobs=[each.logprob for each, _ in found],
            tokens=[_text(each.token) for each, _ in found],
            top_logprobs=[
                {_text(token): logprob for token, logprob in each.top} for each, _ in found
            ],
        )


def error_event(error: Exception) -> bytes:
    """An error after the first event."""
    return b"data: %b\n\n" % openai_answer_to(error).body


def _content(each: TokenLogprob) -> ContentLogprob:
    return ContentLogprob(
        token=_text(each.token),
        logprob=each.logprob,
        bytes=list(each.token),
        top_logprobs=[
            TopLogprob(token=_text(token), logprob=logprob, bytes=list(token))
            for token, logprob in each.top
        ],
    )


def _text(token: bytes) -> str:
    return token.decode(errors="replace")
