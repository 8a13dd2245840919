"""Spans of requests to OpenTelemetry: the one file that knows it.

A request becomes three spans: the request itself, a child of its caller's span, and below it how
long it was queued and how long it was executed. They are told when all of it is over, so they are
made as finished spans and handed to the SDK's batch processor. That costs the event loop an eighth
of what the SDK's tracer would, which is made for spans that are begun, carried about and ended.

A collector that is down costs its spans and nothing else: what waits is bounded, sending has a
thread of its own, and the log has a line when it fails and another when it is mended.
"""

import logging
from collections.abc import Sequence
from random import Random
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from headway.observe.tracing import RequestSpan

__all__ = ["SpanExport", "otlp_export"]

WAITING_MAX: Final = 6144
"""Spans, three a request: at 1,000 sampled requests a second two seconds of them."""
_BATCH_MAX: Final = 512
_DELAY_MS: Final = 1000
_TIMEOUT_S: Final = 3.0
"""For one batch, its retries included; the server's end may wait for two of them."""
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_FAULT: Final = Status(StatusCode.ERROR)
_NO_FAULT: Final = Status(StatusCode.UNSET)
_SCOPE: Final = InstrumentationScope("headway")

_log = logging.getLogger("headway.observe")


class SpanExport:
    """A `Tracing` into any exporter of the SDK.

    Args:
        exporter: delivers.
        where: it delivers to, for the log.
        resource: who we are.
        started_at_unix_ns: wall clock at instant 0 of the spans.
        chance: makes the ids of spans.
        waiting_max: spans that may wait; further ones are dropped.

    Invariants: `put` is called on one thread; at most `waiting_max` and two spans wait.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        where: str,
        resource: Resource,
        started_at_unix_ns: int,
        chance: Random,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._delivery = _Delivery(exporter, where)
        self._processor = BatchSpanProcessor(
            self._delivery,
            max_queue_size=2 * waiting_max,
            schedule_delay_millis=_DELAY_MS,
            max_export_batch_size=min(_BATCH_MAX, waiting_max),
        )
        self._resource = resource
        self._origin_ns = started_at_unix_ns
        self._chance = chance
        self._waiting_max = waiting_max
        self._taken_count = 0
        self.dropped_count = 0
        """Spans that there was no room for."""

    @property
    def lost_count(self) -> int:
        """Spans that could not be delivered, for whatever reason."""
        return self.dropped_count + self._delivery.failed_count

    def put(self, span: RequestSpan) -> None:
        """Take the spans of a request; see `Tracing.put`. Cost: `benchmarks/tracing_cost.py`."""
        if self._taken_count - self._delivery.ended_count >= self._waiting_max:
            self.dropped_count += 3 if span.service_ns else 1
            return
        parent_id, trace_id = span.context.parent_id, span.context.trace_id
        context = self._context(trace_id)
        parent = None
        if parent_id is not None:
            parent = SpanContext(trace_id, parent_id, is_remote=True, trace_flags=_SAMPLED)
        began_ns = span.started_at_ns + self._origin_ns
        if span.service_ns:
            starts_ns = began_ns + span.queue_delay_ns
            self._end("queue", began_ns, starts_ns, self._context(trace_id), context)
            ends_ns = starts_ns + span.service_ns
            self._end("execute", starts_ns, ends_ns, self._context(trace_id), context)
        self._taken_count += 1
        self._processor.on_end(
            ReadableSpan(
                span.name,
                context,
                parent,
                self._resource,
                span.attributes,
                kind=SpanKind.SERVER,
                status=_FAULT if span.is_fault else _NO_FAULT,
                start_time=began_ns,
                end_time=span.ended_at_ns + self._origin_ns,
                instrumentation_scope=_SCOPE,
            )
        )

    def close(self) -> None:
        """Deliver what waits, if that can be done, and end; see `Tracing.close`."""
        self._delivery.conclude()
        self._processor.shutdown()  # type: ignore[no-untyped-call]
        if self.lost_count:
            _log.warning("%d spans were never delivered", self.lost_count)

    def _context(self, trace_id: int) -> SpanContext:
        span_id = self._chance.getrandbits(64) or 1
        return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)

    def _end(
        self, name: str, began_ns: int, ended_ns: int, context: SpanContext, parent: SpanContext
    ) -> None:
        """A part of a request."""
        self._taken_count += 1
        self._processor.on_end(
            ReadableSpan(
                name,
                context,
                parent,
                self._resource,
                start_time=began_ns,
                end_time=ended_ns,
                instrumentation_scope=_SCOPE,
            )
        )


class _Delivery(SpanExporter):
    """An exporter whose failures are counted, and told once until they end."""

    def __init__(self, inner: SpanExporter, where: str) -> None:
        self._inner = inner
        self._where = where
        self._has_failed = False
        self._is_closing = False
        self._is_shut = False
        self.ended_count = 0
        self.failed_count = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Deliver a batch, on the processor's thread."""
        if self._is_closing and self._has_failed:
            result = SpanExportResult.FAILURE
        else:
            result = self._tried(spans)
        self.ended_count += len(spans)
        if result is not SpanExportResult.SUCCESS:
            self.failed_count += len(spans)
        return result

    def conclude(self) -> None:
        """What fails from now on fails for good; where it does already, the rest is not tried."""
        self._is_closing = True
        if self._has_failed:
            self.shutdown()  # which also ends the pause between two tries

    def shutdown(self) -> None:
        """End the exporter."""
        if not self._is_shut:
            self._is_shut = True
            self._inner.shutdown()

    def _tried(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._inner.export(spans)
        except Exception as error:  # noqa: BLE001 (whatever an exporter raises, the server goes on)
            _log.debug("an exporter of spans raised", exc_info=error)
            result = SpanExportResult.FAILURE
        has_failed = result is not SpanExportResult.SUCCESS
        if has_failed and not self._has_failed:
            _log.warning(
                "spans cannot be delivered to `%s`; they are dropped until they can be", self._where
            )
        elif self._has_failed and not has_failed:
            _log.info("spans are delivered to `%s` again", self._where)
        self._has_failed = has_failed
        return result


def otlp_export(url: str, *, service: str, version: str, started_at_unix_ns: int) -> SpanExport:
    """Export to an OTLP receiver over HTTP.

    Headers, certificates and further attributes of the resource are taken from OpenTelemetry's own
    environment variables, which the library reads by itself.
    """
    # It has a line for each retry of each batch; ours say the same once.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    return SpanExport(
        OTLPSpanExporter(endpoint=url, timeout=_TIMEOUT_S),
        where=url,
        resource=Resource.create({SERVICE_NAME: service, SERVICE_VERSION: version}),
        started_at_unix_ns=started_at_unix_ns,
        chance=Random(),  # of the system's own entropy: two servers must not agree
    )
