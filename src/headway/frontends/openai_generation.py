"""OpenAI's completions and chat completions, as they are asked for: bytes in, orders out.

A key that would change the answer is obeyed or refused by its name, never overlooked; so is one
that nobody knows. Keys that change nothing here, such as `user`, are accepted and left alone.

Pure. Knows the protocol. Refuses to know who answers.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from msgspec import DecodeError, Meta, Struct, structs
from msgspec.json import Decoder

from headway.core import ModelName, TenantId, TierName
from headway.decoder import Generate, Message, Prompt, Wishes
from headway.frontends.client_call import call_of, shown
from headway.frontends.generating import ServedGenerator
from headway.frontends.openai_embeddings import priority_of
from headway.frontends.openai_errors import ParameterError
from headway.generate import TierTerms
from headway.runtime import InferCall

__all__ = [
    "CHOICES_MAX",
    "ChatRequest",
    "CompletionRequest",
    "GenerationForm",
    "GenerationRequest",
    "StreamOptions",
    "choices_of",
    "decode_chat",
    "decode_completion",
    "form_of",
    "generation_call",
    "order_of",
]

CHOICES_MAX: Final = 128
"""Answers of one request, of all its prompts together."""
_STOPS_MAX: Final = 4
_STOP_CHARS_MAX: Final = 1_000
_COMPLETION_TOKENS: Final = 16
"""Of a completion whose client does not say, as OpenAI has it."""
_COMPLETION_LOGPROBS_MAX: Final = 5
_BIASES_MAX: Final = 1_000
_MESSAGES_MAX: Final = 1 << 14
_PROMPT_TOKENS_MAX: Final = 1 << 18
"""Of all prompts that are sent as tokens: what is looked through before a worker is asked."""
_NUMBER_MAX: Final = (1 << 63) - 1
_KEY: Final = re.compile(r"unknown field `([^`]*)`|required field `([^`]*)`|at `\$\.([^.`\[]*)")

Choices = Annotated[int, Meta(ge=1, le=CHOICES_MAX)]
Tokens = Annotated[int, Meta(ge=1, le=_NUMBER_MAX)]
Seed = Annotated[int, Meta(ge=-_NUMBER_MAX - 1, le=_NUMBER_MAX)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]


class StreamOptions(Struct, kw_only=True):
    """What a stream has besides."""

    include_usage: bool = False
    """One more event before the last, with the tokens of all."""
    include_obfuscation: bool | None = None
    """Accepted; there is none."""


class TextPart(Struct, tag="text", tag_field="type"):
    """A part of a message; only text is known here."""

    text: str


class ChatMessage(Struct, kw_only=True):
    """Somebody's turn."""

    role: str
    content: str | list[TextPart] | None = None
    name: str | None = None
    """Accepted; the form that models were taught has no place for it."""
    refusal: str | None = None
    """Accepted, as what a client got as an answer it sends back."""
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None
    annotations: Any = None
    """Accepted, likewise."""
    tool_call_id: str | None = None


class _Common(Struct, kw_only=True, forbid_unknown_fields=True):
    """What both kinds of request have."""

    model: str
    max_tokens: Tokens | None = None
    """Of an answer; more than the server's own limit is cut to that."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """0 for the likeliest token, always."""
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    n: Choices | None = None
    """Answers for each prompt."""
    stop: str | list[str] | None = None
    """Texts before which an answer ends; four at most."""
    seed: Seed | None = None
    """The same seed gives the same answer."""
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    service_tier: Any = None
    """A tier of the server, or `priority` or `flex`."""
    priority: Any = None
    """Lower is served first; never before the tier's own."""
    ignore_eos: bool | None = None
    """Not of OpenAI: go on to the last token, whatever the model says."""
    user: Any = None
    """Accepted, and changes nothing, as do the next ones."""
    metadata: Any = None
    store: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None


class ChatRequest(_Common, kw_only=True, forbid_unknown_fields=True):
    """A conversation that is to be continued."""

    messages: list[ChatMessage]
    max_completion_tokens: Tokens | None = None
    """As `max_tokens`, over which it wins."""
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    parallel_tool_calls: Any = None
    """Accepted: there are no tools."""
    verbosity: Any = None
    tools: Any = None
    """Refused, unless empty; as are the next ones, unless they ask for nothing."""
    tool_choice: Any = None
    functions: Any = None
    function_call: Any = None
    response_format: Any = None
    modalities: Any = None
    audio: Any = None
    prediction: Any = None
    reasoning_effort: Any = None
    web_search_options: Any = None


class CompletionRequest(_Common, kw_only=True, forbid_unknown_fields=True):
    """A text that is to be continued."""

    prompt: str | list[Any]
    """A text, several, or tokens of one or several."""
    logprobs: Annotated[int, Meta(ge=0, le=_COMPLETION_LOGPROBS_MAX)] | None = None
    echo: bool | None = None
    """Refused if true."""
    best_of: int | None = None
    """Refused unless it is `n`."""
    suffix: str | None = None
    """Refused."""


GenerationRequest = ChatRequest | CompletionRequest
Kind = TypeVar("Kind", ChatRequest, CompletionRequest)


class GenerationForm(NamedTuple):
    """How a request is to be answered: all that is kept of it while it runs."""

    model: str
    is_chat: bool
    is_stream: bool
    has_usage: bool
    """In the stream."""
    has_logprobs: bool
    tier: str | None
    """The service tier that was named."""


_NOTHING: Final[dict[str, Sequence[object]]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "reasoning_effort": ("none",),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "echo": (False,),
    "suffix": ("",),
}
"""Keys that are not done here, and what of them asks for nothing."""


class _Form(Generic[Kind]):
    """A kind of request, and how it is called."""

    def __init__(self, kind: type[Kind], words: str, hint: str) -> None:
        self.decoder: Decoder[Kind] = Decoder(kind)
        self.words = words
        self.hint = hint

    def decode(self, body: bytes) -> Kind:
        """Raises `ParameterError`: what is wrong, and with which key."""
        try:
            if not body.isascii():
                body.decode()  # what nobody reads is not looked at below, yet bad text is bad text
            wanted = self.decoder.decode(body)
        except (DecodeError, ValueError, RecursionError) as error:
            found = _KEY.search(str(error))
            key = next((each for each in found.groups() if each), None) if found else None
            is_unknown = "unknown field" in str(error)
            raise ParameterError(
                f"`{shown(key)}` is not known here"
                if is_unknown
                else f"the body is no {self.words} request: {error}",
                param=key,
                hint="leave it out: whatever it asks for would not be done"
                if is_unknown
                else self.hint,
            ) from None
        _refuse_unsupported(wanted)
        return wanted


_CHAT: Final = _Form(ChatRequest, "chat completion", "it is an object with `model` and `messages`")
_COMPLETION: Final = _Form(
    CompletionRequest, "completion", "it is an object with `model` and `prompt`"
)


def decode_chat(body: bytes) -> ChatRequest:
    """Decode a body, decompressed.

    Raises:
        ParameterError: what is wrong, and with which key.
    """
    wanted = _CHAT.decode(body)
    if len(wanted.messages) > _MESSAGES_MAX:
        raise ParameterError(
            f"`{len(wanted.messages)}` messages are too many",
            param="messages",
            hint=f"a conversation has {_MESSAGES_MAX} at most",
        )
    return wanted


def decode_completion(body: bytes) -> CompletionRequest:
    """As `decode_chat`."""
    wanted = _COMPLETION.decode(body)
    if wanted.best_of not in {None, wanted.n or 1}:
        raise ParameterError(
            "`best_of` is not done here", param="best_of", hint="ask for `n`, and choose yourself"
        )
    if isinstance(wanted.prompt, list):
        _demand_short(wanted.prompt)
    return wanted


def _demand_short(prompt: list[Any]) -> None:
    """See that there is little to look through, without looking through it."""
    size = len(prompt)
    if size <= _PROMPT_TOKENS_MAX:
        size = sum([len(each) if isinstance(each, list) else 1 for each in prompt])
    if size > _PROMPT_TOKENS_MAX:
        raise ParameterError(
            f"`prompt` has `{size}` tokens or texts, which are too many",
            param="prompt",
            hint=f"{_PROMPT_TOKENS_MAX} at most, of all prompts of a request",
        )


def form_of(wanted: GenerationRequest) -> GenerationForm:
    """How it is to be answered."""
    options = wanted.stream_options
    if options is not None and not wanted.stream:
        raise ParameterError(
            "`stream_options` is for streams", param="stream_options", hint="set `stream` to true"
        )
    logprobs = wanted.logprobs
    tier = wanted.service_tier
    return GenerationForm(
        model=wanted.model,
        is_chat=isinstance(wanted, ChatRequest),
        is_stream=bool(wanted.stream),
        has_usage=options is not None and options.include_usage,
        has_logprobs=logprobs is not None and logprobs is not False,
        tier=tier[:64] if isinstance(tier, str) and tier else None,
    )


def choices_of(wanted: GenerationRequest) -> int:
    """Answers that a request asks for, before it is looked at closely."""
    prompts = 1
    if isinstance(wanted, CompletionRequest) and isinstance(wanted.prompt, list):
        prompts = 1 if _are_tokens(wanted.prompt) else len(wanted.prompt)
    return max(1, prompts) * (wanted.n or 1)


def generation_call(
    wanted: GenerationRequest,
    form: GenerationForm,
    *,
    tiers: Mapping[str, TierName],
    arrived_at_ns: int,
    headers: Mapping[bytes, bytes],
) -> InferCall:
    """Who asks, how urgently, and until when.

    Raises:
        InvalidRequestError: a header is not what it should be.
    """
    parameters = {"priority": priority_of(wanted.priority)}
    name = ModelName(wanted.model)
    call = call_of(name, "", (), (), arrived_at_ns, parameters, headers)
    tier = tiers.get(form.tier or "")
    return call if tier is None or call.tier is not None else structs.replace(call, tier=tier)


def order_of(
    wanted: GenerationRequest,
    served: ServedGenerator,
    tenant: TenantId,
    terms: TierTerms,
    age_ns: int,
) -> Generate:
    """The order that a request comes to.

    Raises:
        ParameterError: a value that no order has.
    """
    prompts = _prompts_of(wanted)
    choices = wanted.n or 1
    if len(prompts) * choices > CHOICES_MAX:
        raise ParameterError(
            f"`{len(prompts)}` prompts with `{choices}` answers each are too many",
            param="n",
            hint=f"a request has {CHOICES_MAX} answers at most",
        )
    return Generate(
        request_id=0,
        prompts=prompts,
        choices=choices,
        tokens_max=_tokens_max_of(wanted),
        answer_tokens_max=served.answer_tokens_max,
        wishes=_wishes_of(wanted),
        tag=tenant,
        terms=terms,
        age_ns=age_ns,
    )


def _refuse_unsupported(wanted: GenerationRequest) -> None:
    for key, nothing in _NOTHING.items():
        value = getattr(wanted, key, None)
        if value is not None and not any(value == each for each in nothing):
            raise ParameterError(
                f"`{key}` is not done here", param=key, hint="leave it out: no answer would heed it"
            )


def _wishes_of(wanted: GenerationRequest) -> Wishes:
    usual = Wishes()
    return Wishes(
        temperature=_or(wanted.temperature, usual.temperature),
        top_p=_or(wanted.top_p, usual.top_p),
        frequency_penalty=_or(wanted.frequency_penalty, usual.frequency_penalty),
        presence_penalty=_or(wanted.presence_penalty, usual.presence_penalty),
        logit_bias=_biases_of(wanted.logit_bias or {}),
        logprobs=_logprobs_of(wanted),
        seed=wanted.seed,
        stops=_stops_of(wanted.stop),
        ignores_end=bool(wanted.ignore_eos),
    )


def _biases_of(given: dict[str, float]) -> dict[str, float]:
    if len(given) > _BIASES_MAX:
        raise ParameterError(
            f"`logit_bias` has `{len(given)}` tokens",
            param="logit_bias",
            hint=f"{_BIASES_MAX} at most",
        )
    return given


def _or(value: float | None, usual: float) -> float:
    return usual if value is None else value


def _tokens_max_of(wanted: GenerationRequest) -> int | None:
    if isinstance(wanted, CompletionRequest):
        return wanted.max_tokens or _COMPLETION_TOKENS
    return wanted.max_completion_tokens or wanted.max_tokens


def _logprobs_of(wanted: GenerationRequest) -> int | None:
    if isinstance(wanted, CompletionRequest):
        return wanted.logprobs
    if wanted.top_logprobs is not None and not wanted.logprobs:
        raise ParameterError(
            "`top_logprobs` needs `logprobs`", param="top_logprobs", hint="set it to true"
        )
    return (wanted.top_logprobs or 0) if wanted.logprobs else None


def _stops_of(stop: str | list[str] | None) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    if len(stops) > _STOPS_MAX or any(not 0 < len(each) <= _STOP_CHARS_MAX for each in stops):
        raise ParameterError(
            "`stop` is too much, or empty",
            param="stop",
            hint=f"{_STOPS_MAX} texts at most, of 1 to {_STOP_CHARS_MAX} characters",
        )
    return tuple(stops)


def _prompts_of(wanted: GenerationRequest) -> list[Prompt]:
    if isinstance(wanted, ChatRequest):
        return [Prompt(messages=[_message_of(each) for each in wanted.messages])]
    prompt = wanted.prompt
    if isinstance(prompt, str):
        return [Prompt(text=prompt)]
    if _are_tokens(prompt):
        return [Prompt(tokens=_small(prompt))]
    found = []
    for each in prompt:
        if isinstance(each, str):
            found.append(Prompt(text=each))
        elif isinstance(each, list) and _are_tokens(each):
            found.append(Prompt(tokens=_small(each)))
        else:
            raise ParameterError(
                f"`prompt` has `{shown(each)}`, which is neither text nor tokens", param="prompt"
            )
    if not found:
        raise ParameterError("`prompt` is empty", param="prompt", hint="send a text")
    return found


def _are_tokens(values: list[Any]) -> bool:
    """Whether all are whole numbers, and there are any."""
    return set(map(type, values)) == {int}


def _small(tokens: list[int]) -> list[int]:
    """Tokens that a message can hold; whether the model has them is seen where it is known."""
    for odd in (min(tokens), max(tokens)):
        if abs(odd) > _NUMBER_MAX:
            raise ParameterError(f"`prompt` has `{shown(odd)}`, which is no token", param="prompt")
    return tokens


def _message_of(message: ChatMessage) -> Message:
    for key in ("tool_calls", "function_call", "audio"):
        if getattr(message, key):
            raise ParameterError(
                f"a message has `{key}`, which the model was not taught", param="messages"
            )
    content = message.content
    if content is None:
        raise ParameterError("a message has no `content`", param="messages")
    if not isinstance(content, str):
        content = "".join([part.text for part in content])
    role = "system" if message.role == "developer" else message.role
    return Message(role, content)
