"""The door to generators: who may ask, on which terms, until when, and what it came to.

Every request passes the gate, where there are tenants, and is settled when it ends: by its tokens
and the part of the steps' time that was spent on it. Its tier gives priority, targets and budget;
it may ask for less, never for more.

Knows generators and the gate. Refuses to know a wire.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from headway.core import ModelName, TenantId, TierName
from headway.decoder import Begun, Generate, Generation, Generator, Said
from headway.errors import (
    DeadlineExceededError,
    HeadwayError,
    InvalidRequestError,
    ModelNotFoundError,
    NotAuthenticatedError,
    RequestCancelledError,
)
from headway.frontends.gate import outcome_of
from headway.generate import TierTerms
from headway.runtime import InferCall
from headway.tenancy import Ask, Ending, Gate, LimitState, Outcome, Pass

__all__ = ["AnswerObserver", "AnswerTimes", "Capabilities", "Generating", "ServedGenerator"]

_NOBODY = TenantId("anonymous")


class Capabilities(Struct):
    """What a model can be asked for here."""

    embeddings: bool
    completions: bool
    chat: bool


class ServedGenerator(Struct, frozen=True, kw_only=True):
    """A generator, and what its clients are promised."""

    generator: Generator
    tier: TierName
    """Of requests that name none."""
    terms: Mapping[TierName, TierTerms]
    budgets_ns: Mapping[TierName, int]
    answer_tokens_max: int


class AnswerTimes(Struct, frozen=True, kw_only=True):
    """What one request came to."""

    model: ModelName
    tier: TierName
    tenant: TenantId
    outcome: Outcome
    arrived_at_ns: int
    ended_at_ns: int
    first_at_ns: int | None
    """When its first token came; None where none did."""
    prompt_tokens: int
    answer_tokens: int
    tpot_ns: float | None
    """Of its tokens after the first, on average; None where there are none."""


class AnswerObserver(Protocol):
    """Is told of every request that ended."""

    def answered(self, times: AnswerTimes) -> None:
        """One has."""


class Generating:
    """All generators of a server.

    Args:
        served: by the names under which clients ask.
        now_ns: the server's clock.
        gate: who may pass; None where there are no tenants.
        observer: is told what requests came to.
    """

    def __init__(
        self,
        served: Mapping[ModelName, ServedGenerator],
        now_ns: Callable[[], int],
        gate: Gate | None = None,
        observer: AnswerObserver | None = None,
    ) -> None:
        self._served = served
        self._now_ns = now_ns
        self._gate = gate
        self._observer = observer

    def names(self) -> list[ModelName]:
        """Those that can be asked now."""
        return [name for name, one in self._served.items() if one.generator.ready is not None]

    def find(self, name: ModelName) -> ServedGenerator | None:
        """A generator by its name; None where there is none."""
        return self._served.get(name)

    def capabilities_of(self, name: ModelName) -> Capabilities | None:
        """What one can be asked for; None where there is none, or it is not loaded now."""
        found = self._served.get(name)
        if found is None or found.generator.ready is None:
            return None
        is_chat = found.generator.ready.is_chat
        return Capabilities(embeddings=False, completions=True, chat=is_chat)

    def limits(self, call: InferCall) -> list[LimitState]:
        """What is left to whoever asks; nothing where nobody is known by that key any more."""
        if self._gate is None:
            return []
        now_ns = self._now_ns()
        try:
            account = self._gate.identify(call.credential, now_ns)
        except NotAuthenticatedError:
            return []
        return list(self._gate.limits(account, now_ns))

    def demand(self, name: str) -> ServedGenerator:
        """A generator by its name.

        Raises:
            ModelNotFoundError: there is none.
        """
        found = self._served.get(ModelName(name))
        if found is None:
            names = ", ".join(self._served) or "none"
            raise ModelNotFoundError(
                f"there is no generating model `{name}`", hint=f"generating models: {names}"
            )
        return found

    async def begin(
        self,
        call: InferCall,
        rows: int,
        size_bytes: int,
        order: Callable[[ServedGenerator, TenantId, TierTerms, int], Generate],
    ) -> Generation:
        """Have a request let in.

        Args:
            call: who asks, how urgently, until when; without tensors.
            rows: answers that it asks for.
            size_bytes: of what it sends.
            order: makes the order, of the generator, tenant, terms and age of the request.

        Raises:
            HeadwayError: why it was not; it is settled then.
        """
        served = self.demand(call.model)
        ask = Ask(call.model, rows, size_bytes, call.tier, call.tenant)
        held: Pass | None = None
        if self._gate is not None:
            held = self._gate.enter(call.credential, ask, self._now_ns())
        tenant = held.tenant if held is not None else call.tenant or _NOBODY
        settling = _Settling(self._gate, held, self._observer, self._now_ns, call, tenant)
        settling.choices = rows
        try:
            terms, budget_ns, limit = self._terms(served, call, held)
            settling.terms = terms
            age_ns = max(0, self._now_ns() - call.arrived_at_ns)
            generation = served.generator.open(
                order(served, tenant, terms, age_ns), budget_ns - age_ns, limit, settling
            )
        except BaseException as error:
            settling.failed(error)
            raise
        try:
            await generation.wait_begun()
        except BaseException:
            generation.close()
            raise
        return generation

    def _terms(
        self, served: ServedGenerator, call: InferCall, held: Pass | None
    ) -> tuple[TierTerms, int, str]:
        """What it is served on, its budget, and the setting that this came from."""
        tier = call.tier or (held.tier if held is not None else None) or served.tier
        terms = served.terms.get(tier)
        if terms is None:
            names = ", ".join(served.terms)
            raise InvalidRequestError(f"there is no tier `{tier}`", hint=f"tiers: {names}")
        if held is not None and held.has_tiers:
            held.check_tier(tier)
        if call.priority is not None:
            terms = replace(terms, priority=max(call.priority, terms.priority))
        budget_ns, limit = served.budgets_ns[tier], f"tiers.{tier}.budget"
        if call.budget_ns is not None and call.budget_ns < budget_ns:
            budget_ns, limit = call.budget_ns, call.budget_source
        return terms, budget_ns, limit


class _Settling:
    """What is owed for one request when it ends, which it does once."""

    def __init__(
        self,
        gate: Gate | None,
        held: Pass | None,
        observer: AnswerObserver | None,
        now_ns: Callable[[], int],
        call: InferCall,
        tenant: TenantId,
    ) -> None:
        self._gate = gate
        self._held = held
        self._observer = observer
        self._now_ns = now_ns
        self._call = call
        self._tenant = tenant
        self._is_settled = False
        self.terms: TierTerms | None = None
        self.prompt_tokens = 0
        self.choices = 0
        self.answer_tokens = 0
        self.device_ns = 0
        self.bytes_out = 0
        self.first_at_ns: int | None = None
        self.last_at_ns = 0

    def begun(self, begun: Begun) -> None:
        """See `GenerationListener`."""
        self.prompt_tokens = begun.prompt_tokens

    def said(self, said: Said) -> None:
        """See `GenerationListener`."""
        self.last_at_ns = self._now_ns()
        if self.first_at_ns is None:
            self.first_at_ns = self.last_at_ns
        self.answer_tokens += 1
        self.device_ns += said.device_ns
        self.bytes_out += len(said.text.encode("utf-8", "replace"))

    def ended(self, error: HeadwayError | None) -> None:
        """See `GenerationListener`."""
        if error is not None:
            self.failed(error)
            return
        outcome = Outcome(
            Ending.COMPLETED,
            rows=self.choices,
            tokens=self.prompt_tokens + self.answer_tokens,
            device_ns=self.device_ns,
            bytes_out=self.bytes_out,
            is_violation=self._is_late(),
        )
        self._settle(outcome)

    def failed(self, error: BaseException) -> None:
        """It ended otherwise. What a client had before it broke off, it owes."""
        outcome = outcome_of(error)
        if self.answer_tokens and self._is_broken_off(error):
            outcome = replace(
                outcome,
                tokens=self.prompt_tokens + self.answer_tokens,
                device_ns=self.device_ns,
                bytes_out=self.bytes_out,
            )
        self._settle(outcome)

    def _is_broken_off(self, error: BaseException) -> bool:
        """Whether its client ended it: by leaving, or by a budget of its own."""
        if isinstance(error, DeadlineExceededError):
            return error.limit == self._call.budget_source
        return isinstance(error, RequestCancelledError)

    def _is_late(self) -> bool:
        """Whether a target of its tier was missed."""
        terms, first_at_ns = self.terms, self.first_at_ns
        if terms is None or first_at_ns is None:
            return False
        if terms.ttft_ns is not None and first_at_ns - self._call.arrived_at_ns > terms.ttft_ns:
            return True
        tpot_ns = self._tpot_ns()
        return terms.tpot_ns is not None and tpot_ns is not None and tpot_ns > terms.tpot_ns

    def _tpot_ns(self) -> float | None:
        """Of its answers' tokens after the first, on average; None where there are none."""
        gaps = -(-self.answer_tokens // max(1, self.choices)) - 1
        if self.first_at_ns is None or gaps < 1:
            return None
        return (self.last_at_ns - self.first_at_ns) / gaps

    def _settle(self, outcome: Outcome) -> None:
        if self._is_settled:
            return
        self._is_settled = True
        now_ns = self._now_ns()
        if self._gate is not None and self._held is not None:
            self._gate.leave(self._held, outcome, now_ns)
        if self._observer is not None and self.terms is not None:
            times = AnswerTimes(
                model=self._call.model,
                tier=self.terms.name,
                tenant=self._tenant,
                outcome=outcome,
                arrived_at_ns=self._call.arrived_at_ns,
                ended_at_ns=now_ns,
                first_at_ns=self.first_at_ns,
                prompt_tokens=self.prompt_tokens,
                answer_tokens=self.answer_tokens,
                tpot_ns=self._tpot_ns(),
            )
            self._observer.answered(times)
