"""Requests as spans, into the exporters of the SDK: ids, times, bounds, a collector that fails."""

import sys
import threading
from random import Random

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headway.errors import ConfigError
from headway.observe import RequestSpan, TraceContext, open_tracing
from headway.observe.spans import SpanExport

pytestmark = pytest.mark.usefixtures("no_leaks")
ORIGIN_NS = 1_700_000_000_000_000_000


def a_span(**fields) -> RequestSpan:
    """A request that was queued for 2 and executed for 3 of its 6."""
    given = {
        "context": TraceContext(5, 7),
        "name": "infer m",
        "started_at_ns": 10,
        "ended_at_ns": 16,
        "queue_delay_ns": 2,
        "service_ns": 3,
        "attributes": {"headway.model": "m", "headway.batch_rows": 4, "headway.expected_ms": 1.5},
    }
    return RequestSpan(**given | fields)


def an_export(exporter: SpanExporter, **settings) -> SpanExport:
    return SpanExport(
        exporter,
        where="http://collector",
        resource=Resource({"service.name": "here"}),
        started_at_unix_ns=ORIGIN_NS,
        chance=Random(1),
        **settings,
    )


class Broken(SpanExporter):
    """Fails while it is told to; a gate may hold it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.fails = True
        self.gate = threading.Event()
        self.gate.set()
        self.error = error
        self.count = 0

    def export(self, spans):
        self.gate.wait(10)
        if self.fails and self.error is not None:
            raise self.error
        self.count += len(spans)
        return SpanExportResult.FAILURE if self.fails else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is held."""


def test_request_is_three_spans_below_its_caller():
    """The request under the caller's span, queue and execution under it, with their own times."""
    exporter = InMemorySpanExporter()
    export = an_export(exporter)
    export.put(a_span())
    export.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"infer m", "queue", "execute"}
    root = spans["infer m"]
    assert root.kind is SpanKind.SERVER
    assert (root.context.trace_id, root.parent.span_id, root.parent.is_remote) == (5, 7, True)
    assert (root.start_time - ORIGIN_NS, root.end_time - ORIGIN_NS) == (10, 16)
    assert root.attributes["headway.batch_rows"] == 4
    assert root.status.status_code is StatusCode.UNSET
    assert root.resource.attributes["service.name"] == "here"
    for name, times in (("queue", (10, 12)), ("execute", (12, 15))):
        part = spans[name]
        assert part.parent == root.context
        assert (part.start_time - ORIGIN_NS, part.end_time - ORIGIN_NS) == times
    assert len({span.context.span_id for span in spans.values()}) == 3
    assert export.lost_count == 0


def test_request_that_did_not_run_is_one_span():
    """Nothing is made up of times that nobody knows; a fault is marked as one."""
    exporter = InMemorySpanExporter()
    export = an_export(exporter)
    export.put(a_span(context=TraceContext(5, None), service_ns=0, is_fault=True))
    export.close()
    (span,) = exporter.get_finished_spans()
    assert span.parent is None
    assert span.status.status_code is StatusCode.ERROR


def test_spans_can_be_encoded():
    """What the SDK's exporters make of them is whole: ids, parent, kind and attributes."""
    exporter = InMemorySpanExporter()
    export = an_export(exporter)
    export.put(a_span())
    export.close()
    encoded = encode_spans(exporter.get_finished_spans())
    (scope,) = encoded.resource_spans[0].scope_spans
    root = next(span for span in scope.spans if span.name == "infer m")
    assert root.trace_id == (5).to_bytes(16, "big")
    assert root.parent_span_id == (7).to_bytes(8, "big")
    assert root.kind == 2
    assert {one.key for one in root.attributes} == set(a_span().attributes)


def test_what_there_is_no_room_for_is_dropped():
    """With a collector that hangs, a bounded number waits, the rest is counted, and none blocks."""
    exporter = Broken()
    exporter.fails = False
    exporter.gate.clear()
    export = an_export(exporter, waiting_max=9)
    for _ in range(1000):
        export.put(a_span())
    assert export.dropped_count == 3 * 997
    exporter.gate.set()
    export.close()
    assert exporter.count == 9
    assert export.lost_count == 3 * 997


@pytest.mark.parametrize("error", [None, OSError("no route")])
def test_collector_that_is_down_is_told_once(caplog, error):
    """One warning however many batches fail, and the end says how many spans were lost."""
    exporter = Broken(error)
    export = an_export(exporter, waiting_max=30)
    with caplog.at_level("INFO", logger="headway.observe"):
        for _ in range(10):
            export.put(a_span())
        export._processor.force_flush()
        export.put(a_span())
        export._processor.force_flush()
        exporter.fails = False
        export.put(a_span())
        export._processor.force_flush()
        export.close()
    words = [record.message for record in caplog.records if record.levelname != "DEBUG"]
    assert words == [
        "spans cannot be delivered to `http://collector`; they are dropped until they can be",
        "spans are delivered to `http://collector` again",
        "33 spans were never delivered",
    ]
    assert exporter.count >= 3


def test_end_does_not_wait_for_a_collector_that_fails():
    """Once one batch has failed at the end, the others are given up without a try."""
    exporter = Broken()
    export = an_export(exporter, waiting_max=900)
    exporter.gate.clear()
    for _ in range(300):
        export.put(a_span())
    exporter.gate.set()
    export.close()
    assert export.lost_count == 900
    assert exporter.count <= 512 + 512


def test_library_that_is_missing_is_told_with_its_extra(monkeypatch):
    """Asked to trace without OpenTelemetry, the server does not start, and says what to install."""
    monkeypatch.setitem(sys.modules, "headway.observe.spans", None)
    with pytest.raises(ConfigError, match=r"headway\[otel\]"):
        open_tracing("http://c/v1/traces", service="s", version="0", started_at_unix_ns=0)
