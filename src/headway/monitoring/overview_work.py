"""The overview's lower half: what waits, how batches and pipelines fare, the scheduler."""

from headway.monitoring.dashboard import Kind, Panel, Query, Row, Unit, lines
from headway.monitoring.queries import (
    CHOSEN,
    MODEL,
    OVER,
    SERVER,
    averages,
    gauges,
    legend_of,
    quantiles,
    rate,
    rates,
    shares,
)

__all__ = ["batch_row", "pipeline_row", "queue_row", "scheduler_row"]


def queue_row() -> Row:
    """What waits, what comes, what is in flight."""
    labels = "model, tier"
    return Row(
        "What waits?",
        [
            lines(
                "Queue depth by model and tier",
                "Requests that wait now.",
                Unit.COUNT,
                gauges("headway_queue_depth", labels),
                is_stacked=True,
                alerts=["HeadwayQueueOld"],
            ),
            lines(
                "Oldest waiting request",
                "How long it has waited, and how long ago the oldest in flight came, waiting or "
                "running. Both move at once when something stalls; latencies move only when "
                "something ends.",
                Unit.SECONDS,
                gauges("headway_queue_oldest_age_seconds", labels, how="max"),
                gauges(
                    "headway_requests_oldest_age_seconds", labels, how="max", prefix="in flight "
                ),
                alerts=["HeadwayQueueOld"],
            ),
            lines(
                "Estimated wait now",
                "What a request of one row that came now is expected to wait.",
                Unit.SECONDS,
                gauges("headway_estimated_wait_seconds", labels, how="max"),
            ),
            lines(
                "Arrivals and requests in flight",
                "What comes in a second, and what has not ended.",
                Unit.COUNT,
                rates("headway_requests_arrived_total", "tier", prefix="arrivals "),
                gauges("headway_requests_in_flight", "tier", prefix="in flight "),
            ),
            lines(
                "Promotions of the starved",
                "Requests that waited so long that they moved to a higher place.",
                Unit.REQUESTS_PER_SECOND,
                rates("headway_promotions_total", labels),
            ),
            lines(
                "Answers by status",
                "Of all paths, with what never reached the scheduler.",
                Unit.REQUESTS_PER_SECOND,
                rates("headway_http_answers_total", "status", SERVER, prefix="HTTP "),
                rates("headway_grpc_answers_total", "code", SERVER, prefix="gRPC "),
            ),
        ],
    )


def batch_row() -> Row:
    """How large batches are, and what keeps them small."""
    low = ["HeadwayBatchFillLow"]
    return Row(
        "How do batches form?",
        [
            Panel(
                title="Rows of a batch",
                says="Batches by their size.",
                queries=[Query(rate("headway_batch_rows_bucket", "le", MODEL), legend_of("le"))],
                unit=Unit.COUNT,
                kind=Kind.HEATMAP,
                alerts=low,
            ),
            lines(
                "Batch fill",
                "Rows over what the model takes at most, on average.",
                Unit.RATIO,
                averages("headway_batch_fill_ratio", "model", MODEL),
                alerts=low,
            ),
            lines(
                "Batches that left some waiting, by reason",
                "Smaller than they could be while more of the model waited, by what kept it out: "
                "another shape, other parameters, or rows that did not fit.",
                Unit.PER_SECOND,
                rates("headway_batches_cut_total", "model, reason", MODEL),
                alerts=low,
            ),
            lines(
                "Padding",
                "Part of the bytes that batches ran with and nobody sent.",
                Unit.RATIO,
                shares(
                    "headway_batch_padding_bytes_total",
                    "headway_batch_input_bytes_total",
                    "model",
                    MODEL,
                ),
            ),
            lines(
                "Batches started and failed",
                "Started a second, and those that raised or were lost.",
                Unit.PER_SECOND,
                rates("headway_batches_total", "model", MODEL),
                rates("headway_batches_failed_total", "model", MODEL, prefix="failed "),
            ),
            lines(
                "Replicas by state",
                "A model without a ready one refuses everything.",
                Unit.COUNT,
                gauges("headway_replicas", "model, state", MODEL),
            ),
        ],
    )


def pipeline_row() -> Row:
    """Calls of pipelines, which clients wait for; everything above is about their steps."""
    chosen = f'{{{CHOSEN},tier=~"$tier"}}'
    answers = f'{{{CHOSEN},tier=~"$tier",outcome!="cancelled"}}'
    by = "pipeline, tier"
    violations = rate("headway_pipeline_violations_total", by, chosen)
    calls = rate("headway_pipeline_calls_total", by, answers)
    return Row(
        "How do pipelines fare?",
        [
            lines(
                "Attainment by pipeline and tier",
                "Part of the calls that were answered within their budget. Attainment by tier is "
                "about requests, and a call makes one for each step.",
                Unit.RATIO,
                Query(f"1 - {violations} / {calls}", legend_of(by)),
            ),
            lines(
                "Latency of calls",
                "Wall time from arrival to reply, of completed calls.",
                Unit.SECONDS,
                *quantiles("headway_pipeline_latency_seconds", "pipeline", chosen),
            ),
            lines(
                "Slots that calls take, and calls under way",
                "Slots' time of the steps a second; branches that run side by side take more of it "
                "than the call lasts.",
                Unit.COUNT,
                rates("headway_pipeline_busy_seconds_total", "pipeline", SERVER, prefix="slots "),
                gauges("headway_pipeline_calls_running", "pipeline", SERVER, prefix="calls "),
            ),
        ],
    )


def scheduler_row() -> Row:
    """What the scheduler itself costs."""
    slow = ["HeadwaySchedulerSlow"]
    return Row(
        "Does the scheduler keep up?",
        [
            lines(
                "Decision time",
                "How long it takes over one event.",
                Unit.SECONDS,
                *quantiles("headway_decision_seconds", "instance", SERVER),
                alerts=slow,
            ),
            lines(
                "Lag of the loop",
                "How late it is woken: whatever else the process does is in its way.",
                Unit.SECONDS,
                *quantiles("headway_loop_lag_seconds", "instance", SERVER),
                alerts=slow,
            ),
            lines(
                "Cores that the server's own process uses",
                "One is all that the scheduler can use. Workers are on the page of devices.",
                Unit.COUNT,
                Query(f"rate(process_cpu_seconds_total{SERVER}[{OVER}])", legend_of("instance")),
                alerts=slow,
            ),
        ],
    )
