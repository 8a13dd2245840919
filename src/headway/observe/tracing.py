"""What is told of a request once it is over, and the way to whoever exports it.

OpenTelemetry is an extra and is loaded only by who asks for it; it lives in `spans`.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from headway.errors import ConfigError
from headway.observe.trace_context import TraceContext

__all__ = ["AttributeValue", "RequestSpan", "Tracing", "open_tracing"]

AttributeValue = str | int | float | bool


class RequestSpan(Struct, frozen=True, kw_only=True, gc=False):
    """One request, from the first byte seen to its answer; instants count from the engine's start.

    Where it was executed, its queue delay and its service time follow each other from its arrival.
    """

    context: TraceContext
    name: str
    started_at_ns: int
    ended_at_ns: int
    queue_delay_ns: int = 0
    service_ns: int = 0
    """0 where no batch of it ended."""
    attributes: Mapping[str, AttributeValue]
    is_fault: bool = False
    """It failed, and not by what its client asked."""


class Tracing(Protocol):
    """Takes spans and sees to their delivery, sooner or later or not at all."""

    def put(self, span: RequestSpan) -> None:
        """Take one; never blocks and never raises. What there is no room for is dropped."""

    def close(self) -> None:
        """Deliver what waits, for some seconds at most, and end. Blocks."""


def open_tracing(url: str, *, service: str, version: str, started_at_unix_ns: int) -> Tracing:
    """Export to an OTLP receiver over HTTP.

    Args:
        url: of its traces, as in `http://localhost:4318/v1/traces`.
        service: what the server is called there.
        version: of headway.
        started_at_unix_ns: wall clock at instant 0 of the spans.

    Raises:
        ConfigError: the library is not installed.
    """
    try:
        from headway.observe.spans import otlp_export
    except ImportError as error:
        raise ConfigError(
            f"tracing needs OpenTelemetry, which is not installed: {error}",
            path="tracing.otlp",
            value=url,
            hint="pip install 'headway[otel]', or leave `tracing.otlp` out",
        ) from error
    return otlp_export(url, service=service, version=version, started_at_unix_ns=started_at_unix_ns)
