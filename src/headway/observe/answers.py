"""What the frontends count, as Prometheus sees it: answers of each protocol.

Knows live tables by name. Refuses to know protocols.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["AnswerFamilies"]


class AnswerFamilies:
    """Makes the metric families when they are asked for."""

    def __init__(self) -> None:
        self.http: Mapping[int, int] = {}
        """Answers by status."""
        self.grpc: Mapping[str, int] = {}
        """Answers by the name of their status code."""
        self.streamed: Callable[[], int] = int
        """How many requests of gRPC streams have no answer yet."""

    def __call__(self) -> Iterator[Metric]:
        """Every family."""
        http = CounterMetricFamily(
            "headway_http_answers",
            "HTTP answers by status, of all paths; 499 for clients that left before theirs.",
            labels=("status",),
        )
        for status, count in sorted(self.http.items()):
            http.add_metric((str(status),), count)
        yield http
        grpc = CounterMetricFamily(
            "headway_grpc_answers",
            "gRPC answers by status code, of all methods; a stream counts, and each request of it.",
            labels=("code",),
        )
        for code, count in sorted(self.grpc.items()):
            grpc.add_metric((code,), count)
        yield grpc
        yield GaugeMetricFamily(
            "headway_grpc_stream_requests",
            "Requests of gRPC streams that have no answer yet.",
            value=self.streamed(),
        )
