"""An OTLP receiver on loopback: keeps the spans that are sent to it, or refuses them.

Knows http.server and OpenTelemetry's messages.
"""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

__all__ = ["Receiver", "receiving"]


class Receiver:
    """What has come so far."""

    def __init__(self) -> None:
        self.port = 0
        self.status = 200
        """What the next requests are answered with."""
        self.requests = 0
        self.spans: list[Any] = []
        self.resource: dict[str, str] = {}

    @property
    def url(self) -> str:
        """What a server is told."""
        return f"http://127.0.0.1:{self.port}/v1/traces"

    def take(self, path: str, body: bytes) -> int:
        """A request; the status that it gets."""
        assert path == "/v1/traces"
        self.requests += 1
        if self.status == 200:
            for part in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resource = {a.key: a.value.string_value for a in part.resource.attributes}
                self.spans += [span for scope in part.scope_spans for span in scope.spans]
        return self.status

    def named(self, name: str) -> list[Any]:
        """Its spans of this name, in the order of their beginning."""
        found = [span for span in self.spans if span.name == name]
        return sorted(found, key=lambda span: span.start_time_unix_nano)


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that listens, gone afterwards."""
    receiver = Receiver()

    class _Exchange(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(receiver.take(self.path, body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing is said of it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), _Exchange) as server:
        receiver.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
