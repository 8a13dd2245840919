"""A layer before an engine that tells of requests as spans, of those that are sampled.

Knows what calls and replies say of a request. Refuses to know how spans are exported, or where. A
request that is not sampled costs a look at its trace context and nothing after it.
"""

import asyncio
from functools import partial

from headway.core import UNKNOWN, Forecast, RequestId
from headway.errors import (
    DeadlineExceededError,
    HeadwayError,
    RejectedError,
    RequestCancelledError,
    RequestError,
    UnavailableError,
)
from headway.observe import AttributeValue, RequestSpan, Sampling, TraceContext, Tracing
from headway.runtime import (
    Engine,
    EngineLayer,
    ExpiredError,
    InferCall,
    InferReply,
    OnEnd,
    outcome_of,
)
from headway.units import NS_PER_MS

__all__ = ["TracedEngine"]


class TracedEngine(EngineLayer):
    """An `Engine` whose requests are told of when they end, however they end.

    Args:
        inner: does the work.
        sampling: decides which requests.
        tracing: takes the spans.
    """

    def __init__(self, inner: Engine, sampling: Sampling, tracing: Tracing) -> None:
        super().__init__(inner)
        self._sampling = sampling
        self._tracing = tracing

    async def infer(self, call: InferCall) -> InferReply:
        """See `Engine.infer`."""
        context = self._sampling.context_of(call.traceparent)
        if context is None:
            return await self.inner.infer(call)
        try:
            reply = await self.inner.infer(call)
        except asyncio.CancelledError:
            self._tell(call, context, RequestCancelledError("its client left"))
            raise
        except HeadwayError as error:
            self._tell(call, context, error)
            raise
        self._tell(call, context, reply)
        return reply

    def submit(self, call: InferCall, on_end: OnEnd) -> RequestId:
        """See `Engine.submit`."""
        context = self._sampling.context_of(call.traceparent)
        if context is None:
            return self.inner.submit(call, on_end)
        try:
            return self.inner.submit(call, partial(self._ended, call, context, on_end))
        except HeadwayError as error:
            self._tell(call, context, error)
            raise

    def _ended(
        self, call: InferCall, context: TraceContext, on_end: OnEnd, end: InferReply | HeadwayError
    ) -> None:
        on_end(end)  # the answer first
        self._tell(call, context, end)

    def _tell(self, call: InferCall, context: TraceContext, end: InferReply | HeadwayError) -> None:
        self._tracing.put(_span_of(call, context, end, self.inner.now_ns()))


def _span_of(
    call: InferCall, context: TraceContext, end: InferReply | HeadwayError, now_ns: int
) -> RequestSpan:
    attributes: dict[str, AttributeValue] = {"headway.model": call.model}
    if call.tenant is not None:
        attributes["headway.tenant"] = call.tenant
    if call.priority is not None:
        attributes["headway.priority"] = call.priority
    queue_delay_ns = service_ns = 0
    is_fault = False
    if isinstance(end, InferReply):
        queue_delay_ns, service_ns = end.queue_delay_ns, end.service_ns
        _say_reply(attributes, end)
    else:
        _say_error(attributes, call, end)
        is_fault = _is_fault(end)
    return RequestSpan(
        context=context,
        name=f"infer {call.model}",
        started_at_ns=call.arrived_at_ns,
        ended_at_ns=now_ns,
        queue_delay_ns=queue_delay_ns,
        service_ns=service_ns,
        attributes=attributes,
        is_fault=is_fault,
    )


def _say_reply(attributes: dict[str, AttributeValue], reply: InferReply) -> None:
    attributes |= {
        "headway.outcome": "completed",
        "headway.version": reply.version,
        "headway.tier": reply.tier,
        "headway.batch_rows": reply.batch_rows,
        "headway.budget_ms": reply.budget_ns / NS_PER_MS,
        "headway.limit": reply.budget_source,
    }
    if reply.request_id:
        attributes["headway.request_id"] = reply.request_id
    if reply.segments > 1:
        attributes["headway.segments"] = reply.segments
    if reply.late_ns:
        attributes["headway.late_ms"] = reply.late_ns / NS_PER_MS
    if reply.stages is not None:
        attributes["headway.transfer_in_ms"] = reply.stages.transfer_in_ns / NS_PER_MS
        attributes["headway.execution_ms"] = reply.stages.execution_ns / NS_PER_MS
        attributes["headway.transfer_out_ms"] = reply.stages.transfer_out_ns / NS_PER_MS
    _say_foreseen(attributes, reply.foreseen)


def _say_error(attributes: dict[str, AttributeValue], call: InferCall, error: HeadwayError) -> None:
    attributes["headway.outcome"] = outcome_of(error)
    attributes["error.type"] = error.code
    if error.request_id:
        attributes["headway.request_id"] = error.request_id
    if call.version:
        attributes["headway.version"] = call.version
    if call.tier is not None:
        attributes["headway.tier"] = call.tier
    if isinstance(error, RejectedError):
        attributes["headway.reason"] = str(error.reason)
    elif isinstance(error, DeadlineExceededError):
        attributes["headway.limit"] = error.limit
        attributes["headway.stage"] = str(error.stage)
        _say_foreseen(attributes, error.foreseen if isinstance(error, ExpiredError) else UNKNOWN)


def _say_foreseen(attributes: dict[str, AttributeValue], foreseen: Forecast) -> None:
    if foreseen.bound_ns:
        attributes["headway.expected_ms"] = foreseen.mean_ns / NS_PER_MS
        attributes["headway.bound_ms"] = foreseen.bound_ns / NS_PER_MS


def _is_fault(error: HeadwayError) -> bool:
    """Whether it is to be seen as an error of the server: as with HTTP, what answers 5xx."""
    is_ours = isinstance(error, UnavailableError | DeadlineExceededError)
    return is_ours or not isinstance(error, RequestError)
