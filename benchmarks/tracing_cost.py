"""What tracing adds to a request: on the event loop, and on the thread that sends the spans.

An engine that answers at once is called through the layer that a server has before its own: with
no layer, with requests that are not sampled, and with such that are, below a caller's span and
without one. `loop_us` is the whole call, `added_us` what the layer adds to it. `thread_us` is the
time in which the sender's thread packs the spans of a request; Python runs one thread at a time, so
a busy loop feels that too.

Usage: `python benchmarks/tracing_cost.py [--quick] [--format table|json]`. A full run puts the
document into `benchmarks/results/tracing_cost.json`; the guide on tracing quotes it.
"""

from __future__ import annotations

import sys
import time
import timeit
from random import Random
from typing import Any, cast

import harness
from harness import Row
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headway.core import ModelName, RequestId, TierName
from headway.executors import StageTimes
from headway.frontends import TracedEngine
from headway.observe import Sampling
from headway.observe.spans import SpanExport
from headway.runtime import Engine, InferCall, InferReply, OnEnd

NAME = "tracing_cost"
COLUMNS = ("request", "loop_us", "added_us", "thread_us")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"
ROUNDS = 7
REPLY = InferReply(
    model=ModelName("m"),
    version="1",
    outputs=(),
    queue_delay_ns=1_000_000,
    service_ns=2_000_000,
    batch_rows=4,
    tier=TierName("standard"),
    budget_ns=30_000_000_000,
    budget_source="tier",
    stages=StageTimes(transfer_in_ns=20_000, execution_ns=1_900_000, transfer_out_ns=20_000),
)


class InstantEngine:
    """Answers before `submit` returns."""

    def now_ns(self) -> int:
        """Read, as a real engine's is."""
        return time.monotonic_ns()

    def submit(self, call: InferCall, on_end: OnEnd) -> RequestId:
        """Answer."""
        on_end(REPLY)
        return RequestId(1)


class Nowhere(SpanExporter):
    """Takes all and sends nothing, so that only the loop's part is measured."""

    def export(self, spans: Any) -> SpanExportResult:
        """Forget them."""
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is held."""


def an_export(exporter: SpanExporter) -> SpanExport:
    """Wide enough that nothing is dropped: to drop is cheaper than to take."""
    return SpanExport(
        exporter,
        where="nowhere",
        resource=Resource({"service.name": "headway"}),
        started_at_unix_ns=time.time_ns(),
        chance=Random(1),
        waiting_max=1_000_000,
    )


def loop_us(engine: Engine, traceparent: str, count: int) -> float:
    """The best of some rounds of `submit`, its end included: noise only ever adds."""
    call = InferCall(model=ModelName("m"), inputs=(), arrived_at_ns=0, traceparent=traceparent)

    def one() -> None:
        engine.submit(call, forget)

    return min(timeit.repeat(one, number=count, repeat=ROUNDS)) / count * 1e6


def forget(end: object) -> None:
    """Whoever waits for the answer."""


def thread_us(count: int) -> float:
    """To pack the spans of a request, in batches as large as the sender's."""
    exporter = InMemorySpanExporter()
    export = an_export(exporter)
    layer = TracedEngine(cast("Engine", InstantEngine()), Sampling(1.0, Random(1)), export)
    call = InferCall(model=ModelName("m"), inputs=(), arrived_at_ns=0, traceparent=PARENT + "1")
    for _ in range(512):
        layer.submit(call, forget)
    export.close()
    spans = exporter.get_finished_spans()[:512]
    rounds = max(1, count // 5_000)
    best_s = min(
        timeit.repeat(lambda: encode_spans(spans).SerializeToString(), number=rounds, repeat=ROUNDS)
    )
    return best_s / rounds / len(spans) * 3 * 1e6


def measure(count: int) -> list[Row]:
    """A row for each kind of request."""
    bare = cast("Engine", InstantEngine())
    export = an_export(Nowhere())

    def layer(ratio: float) -> Engine:
        return TracedEngine(bare, Sampling(ratio, Random(1)), export)

    kinds = [
        ("without tracing", bare, "", False),
        ("begins here, not sampled", layer(0.0), "", False),
        ("of a caller, not sampled", layer(0.0), PARENT + "0", False),
        ("begins here, sampled", layer(1.0), "", True),
        ("of a caller, sampled", layer(0.0), PARENT + "1", True),
    ]
    sending_us = thread_us(count)
    rows: list[Row] = []
    for request, engine, traceparent, is_sampled in kinds:
        took_us = loop_us(engine, traceparent, count if not is_sampled else count // 5)
        base_us = rows[0]["loop_us"] if rows else took_us
        rows.append(
            {
                "request": request,
                "loop_us": round(took_us, 2),
                "added_us": round(took_us - cast("float", base_us), 2),
                "thread_us": round(sending_us, 1) if is_sampled else 0.0,
            }
        )
    assert export.lost_count == 0, "what is dropped is not measured"
    export.close()
    return rows


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    arguments = harness.quick_parser(__doc__, "fewer repetitions").parse_args()
    rows = measure(20_000 if arguments.quick else 100_000)
    harness.publish(NAME, rows, COLUMNS, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
