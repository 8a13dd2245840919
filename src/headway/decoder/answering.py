"""The worker's logic: orders in, replies out; requests become sequences, and tokens become text.

Knows the engine and messages. Refuses to know sockets.
"""

from collections.abc import Callable

from msgspec.structs import replace

from headway.decoder.engine import DecoderEngine, SequenceAsk, StepReport, TokenOut
from headway.decoder.sampling import Drawn, SamplingParams, bias_of
from headway.decoder.wire import (
    Begun,
    Figures,
    Generate,
    Prompt,
    Refused,
    Said,
    Stepped,
    TokenLogprob,
    Wishes,
)
from headway.decoder.words import Piece
from headway.errors import InvalidRequestError
from headway.generate import PreemptWay, RefuseReason, SequenceId
from headway.generate import Refused as SequenceRefused
from headway.units import format_duration

__all__ = ["Answering"]


class _Place:
    """Which answer of which request a sequence is."""

    __slots__ = ("choice", "device_ns", "request_id")

    def __init__(self, request_id: int, choice: int) -> None:
        self.request_id = request_id
        self.choice = choice
        self.device_ns = 0.0
        """Of steps since its last token was told."""


class Answering:
    """Requests on an engine.

    Args:
        engine: what runs them.
        now_ns: its clock.
        seed: of the chance of requests that bring none.

    Invariants: every sequence in the engine belongs to one request that has not ended.
    """

    def __init__(self, engine: DecoderEngine, now_ns: Callable[[], int], seed: str) -> None:
        self.engine = engine
        self._now_ns = now_ns
        self._seed = seed
        self._places: dict[SequenceId, _Place] = {}
        self._requests: dict[int, list[SequenceId]] = {}
        self._next = 0
        tokenizer = engine.model.tokenizer
        longest = max(len(tokenizer.bytes_of(token)) for token in range(tokenizer.size))
        self._prompt_bytes_max = engine.model.context * max(1, longest)
        """A longer text cannot fit, however well it can be encoded."""

    def generate(self, order: Generate) -> Begun | Refused:
        """Let a request in, whole or not at all."""
        try:
            asks, prompt_tokens = self._asks(order)
        except InvalidRequestError as error:
            return Refused(request_id=order.request_id, message=error.message, hint=error.hint)
        self._requests[order.request_id] = []
        for choice, ask in enumerate(asks):
            answer = self.engine.submit(ask)
            if isinstance(answer, SequenceRefused):
                self.cancel(order.request_id)
                return _refusal(order, answer)
            self._places[ask.sequence_id] = _Place(order.request_id, choice)
            self._requests[order.request_id].append(ask.sequence_id)
        return Begun(request_id=order.request_id, prompt_tokens=prompt_tokens)

    def cancel(self, request_id: int) -> None:
        """Whatever of it has not ended; unknown ones are ignored."""
        for sequence_id in self._requests.pop(request_id, ()):
            if self._places.pop(sequence_id, None) is not None:
                self.engine.cancel(sequence_id)

    def step(self) -> Stepped | None:
        """Run one step; None where there was nothing to do."""
        report = self.engine.step()
        if report is None:
            return None
        self._charge(report)
        said = [self._said(token) for token in report.tokens]
        ways = [each.way for each in report.plan.preempted]
        figures = replace(
            self.figures(),
            step_ns=report.step_ns,
            prefill_tokens=report.plan.prefill_tokens,
            decode_tokens=report.plan.decode_count,
            swapped=ways.count(PreemptWay.SWAP),
            dropped=ways.count(PreemptWay.RECOMPUTE),
        )
        return Stepped(said=said, figures=figures)

    def figures(self) -> Figures:
        """How things stand."""
        roster = self.engine.scheduler.roster
        running = len(roster.decoding) + len(roster.prefilling) + len(roster.loading)
        return Figures(
            running=running,
            waiting=len(roster.sequences) - running,
            kv_used_ratio=self.engine.pool.use_ratio,
        )

    def _charge(self, report: StepReport) -> None:
        """The time of a step to those in it, by their tokens."""
        token_ns = report.step_ns / max(1, report.plan.tokens)
        for work in report.plan.work:
            self._places[work.sequence_id].device_ns += token_ns * work.tokens

    def _said(self, token: TokenOut) -> Said:
        place = self._places[token.sequence_id]
        device_ns, place.device_ns = int(place.device_ns), 0.0
        if token.finish is not None:
            del self._places[token.sequence_id]
            left = self._requests[place.request_id]
            left.remove(token.sequence_id)
            if not left:
                del self._requests[place.request_id]
        return Said(
            request_id=place.request_id,
            choice=place.choice,
            text=token.text,
            is_end=token.is_end,
            finish=token.finish,
            logprob=None if token.is_end else self._logprob(token.drawn),
            device_ns=device_ns,
        )

    def _logprob(self, drawn: Drawn) -> TokenLogprob | None:
        if drawn.logprob is None:
            return None
        bytes_of = self.engine.model.tokenizer.bytes_of
        top = [(bytes_of(token), logprob) for token, logprob in drawn.top]
        return TokenLogprob(bytes_of(drawn.token), drawn.logprob, top)

    # -- requests to sequences ---------------------------------------------------------------------

    def _asks(self, order: Generate) -> tuple[list[SequenceAsk], int]:
        """A sequence for each answer, and the tokens of all prompts."""
        wishes = order.wishes
        sampling = self._sampling(wishes)
        arrived_at_ns = self._now_ns() - order.age_ns
        wanted = order.tokens_max
        if wanted is not None:
            wanted = min(wanted, order.answer_tokens_max)
        asks: list[SequenceAsk] = []
        prompt_tokens = 0
        for prompt in order.prompts:
            ids = tuple(self._ids(prompt))
            prompt_tokens += len(ids)
            tokens_max = self.engine.tokens_max_of(len(ids), wanted)
            for _ in range(order.choices):
                sequence_id = SequenceId(self._next)
                self._next += 1
                own = f"{self._seed}/{order.request_id}" if wishes.seed is None else wishes.seed
                ask = SequenceAsk(
                    sequence_id=sequence_id,
                    prompt=ids,
                    tokens_max=min(tokens_max, order.answer_tokens_max),
                    sampling=sampling,
                    seed=f"{own}/{len(asks)}",
                    tag=order.tag,
                    terms=order.terms,
                    arrived_at_ns=arrived_at_ns,
                    stops=wishes.stops,
                    ignores_end=wishes.ignores_end,
                )
                asks.append(ask)
        return asks, prompt_tokens

    def _sampling(self, wishes: Wishes) -> SamplingParams:
        return SamplingParams(
            temperature=wishes.temperature,
            top_p=wishes.top_p,
            frequency_penalty=wishes.frequency_penalty,
            presence_penalty=wishes.presence_penalty,
            logit_bias=bias_of(wishes.logit_bias, self.engine.model.tokenizer.size),
            logprobs=wishes.logprobs,
        )

    def _ids(self, prompt: Prompt) -> list[int]:
        tokenizer = self.engine.model.tokenizer
        if prompt.tokens is not None:
            odd = next((each for each in prompt.tokens if not 0 <= each < tokenizer.size), None)
            if odd is not None:
                raise InvalidRequestError(
                    f"the prompt has `{odd}`, which is no token of the model",
                    hint=f"they are 0 to {tokenizer.size - 1}",
                )
            return prompt.tokens
        if prompt.messages is not None:
            chat = self.engine.model.card.chat
            if chat is None:
                raise InvalidRequestError(
                    "the model was not taught conversations", hint="send the prompt as a completion"
                )
            pieces = chat.pieces(prompt.messages)
        else:
            pieces = [Piece(prompt.text or "", False)]
        size_bytes = sum([len(piece.text.encode("utf-8", "replace")) for piece in pieces])
        if size_bytes > self._prompt_bytes_max:
            raise InvalidRequestError(
                f"the prompt has `{size_bytes}` bytes, which are more than "
                f"`{self.engine.model.context}` tokens in any case",
                hint="shorten it",
            )
        return tokenizer.encode_pieces(pieces)


def _refusal(order: Generate, answer: SequenceRefused) -> Refused:
    """In words for whoever asked."""
    if answer.reason is RefuseReason.WAITING_FULL:
        message = "as many answers wait as may"
        return Refused(request_id=order.request_id, message=message, is_full=True)
    if answer.reason is RefuseReason.TTFT_UNREACHABLE:
        needed, target = format_duration(answer.ttft_ns_min), order.terms.ttft_ns or 0
        return Refused(
            request_id=order.request_id,
            message=f"the prompt takes {needed} alone, and tier `{order.terms.name}` promises the"
            f" first token within {format_duration(target)}",
            hint="shorten it, or ask for another tier",
        )
    return Refused(
        request_id=order.request_id,
        message="prompt and answer are longer than all memory for keys and values",
        hint="ask for fewer tokens",
    )
