"""The engine as tenants see it: every request passes a gate, and is settled when it ends.

The key says whose a request is; what the client says of that itself is only checked. Its tenant's
tier is the request's where it names none, and it is never more urgent than its tier.

Knows `Engine` and the gate. Refuses to know a wire.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from headway.core import ModelName, RequestId, TierName
from headway.errors import (
    DeadlineExceededError,
    HeadwayError,
    InvalidRequestError,
    ModelNotFoundError,
    NotAllowedError,
    RejectedError,
    RequestCancelledError,
    RequestError,
    UnavailableError,
    UnsupportedError,
)
from headway.runtime import Engine, EngineLayer, InferCall, InferEstimate, InferReply, OnEnd
from headway.tenancy import Ask, Ending, Gate, Outcome, Pass

__all__ = ["GatedEngine", "outcome_of"]

_FAILED: Final = Outcome(Ending.FAILED, is_violation=True)
"""Also of what was refused or made no sense after a part of it had run, as in a pipeline."""
_ENDINGS: Final[tuple[tuple[tuple[type[BaseException], ...], Outcome], ...]] = (
    (
        (InvalidRequestError, ModelNotFoundError, NotAllowedError, UnsupportedError),
        Outcome(Ending.INVALID),
    ),
    ((RejectedError,), Outcome(Ending.REFUSED, is_violation=True)),
    ((UnavailableError,), Outcome(Ending.REFUSED)),
    ((DeadlineExceededError,), Outcome(Ending.EXPIRED, is_violation=True)),
    ((RequestCancelledError, asyncio.CancelledError), Outcome(Ending.CANCELLED)),
    ((BaseException,), _FAILED),
)


class GatedEngine(EngineLayer):
    """An engine behind a gate.

    Args:
        inner: the engine.
        gate: who may pass.
        priorities: of each tier; a request is never served before its tier.

    Invariants: a request that entered leaves once, however it ends.
    """

    def __init__(self, inner: Engine, gate: Gate, priorities: Mapping[TierName, int]) -> None:
        super().__init__(inner)
        self._gate = gate
        self._priorities = dict(priorities)
        self._batches: dict[ModelName, bool] = {}
        """Whether the first axis of a model's inputs counts rows; asked once a load."""

    async def infer(self, call: InferCall) -> InferReply:
        """See `Engine.infer`.

        Raises:
            NotAuthenticatedError: the call has no key, or nobody's.
            NotAllowedError: its tenant may not ask for this.
            RejectedError: a limit of its tenant is reached, or as the engine says.
        """
        held = self._enter(call)
        end: InferReply | BaseException = RequestCancelledError("the request was cancelled")
        try:
            end = await self.inner.infer(self._of_tenant(call, held))
            return end
        except BaseException as error:
            end = error
            raise
        finally:
            self._leave(held, outcome_of(end))

    def submit(self, call: InferCall, on_end: OnEnd) -> RequestId:
        """See `Engine.submit`; raises what `infer` does."""
        held = self._enter(call)
        try:
            return self.inner.submit(
                self._of_tenant(call, held), partial(self._ended, held, on_end)
            )
        except BaseException as error:
            self._leave(held, outcome_of(error))
            raise

    def estimate(self, call: InferCall) -> InferEstimate:
        """See `Engine.estimate`; asks for a key, and uses nothing."""
        now_ns = self.inner.now_ns()
        ask = self._ask_of(call)
        account = self._gate.identify(call.credential, now_ns)
        self._gate.allow(account, ask)
        return self.inner.estimate(self._of_tenant(call, Pass(account, ask, None, 0, now_ns)))

    async def load(self, model: ModelName, overrides: Mapping[str, object]) -> None:
        """See `Engine.load`; what is loaded may take rows where what was before did not."""
        await self.inner.load(model, overrides)
        self._batches.clear()

    def _enter(self, call: InferCall) -> Pass:
        return self._gate.enter(call.credential, self._ask_of(call), self.inner.now_ns())

    def _ask_of(self, call: InferCall) -> Ask:
        shape = call.inputs[0].shape if call.inputs else ()
        rows = shape[0] if shape and self._has_rows(call.model) else 1
        size_bytes = sum([len(tensor.data) for tensor in call.inputs])
        return Ask(call.model, rows, size_bytes, call.tier, call.tenant)

    def _has_rows(self, model: ModelName) -> bool:
        known = self._batches.get(model)
        if known is None:
            try:
                known = self.inner.status(model).can_batch
            except RequestError:
                return False  # the engine says so when it is asked
            self._batches[model] = known
        return known

    def _leave(self, held: Pass, outcome: Outcome) -> None:
        self._gate.leave(held, outcome, self.inner.now_ns())

    def _ended(self, held: Pass, on_end: OnEnd, end: InferReply | HeadwayError) -> None:
        try:
            self._leave(held, outcome_of(end))
        finally:
            on_end(end)

    def _of_tenant(self, call: InferCall, held: Pass) -> InferCall:
        tier = call.tier or held.tier
        if call.tier is not None:
            held.check_tier(call.tier)
        elif tier is None and held.has_tiers:
            held.check_tier(self.inner.status(call.model).tier)
        priority = call.priority
        if priority is not None:
            known = tier or self.inner.status(call.model).tier
            priority = max(priority, self._priorities.get(known, priority))
        return replace(call, tenant=held.tenant, tier=tier, priority=priority)


def outcome_of(end: InferReply | BaseException) -> Outcome:
    """What a gate is told of a request that ended so."""
    if not isinstance(end, InferReply):
        outcome = next(outcome for kinds, outcome in _ENDINGS if isinstance(end, kinds))
        is_worked_for = isinstance(end, HeadwayError) and end.device_ns > 0
        return _FAILED if outcome.ending.is_given_back and is_worked_for else outcome
    return Outcome(
        Ending.COMPLETED,
        rows=end.rows,
        tokens=end.tokens,
        device_ns=end.device_ns,
        bytes_out=sum([len(tensor.data) for tensor in end.outputs]),
        is_violation=end.late_ns > 0,
    )
