"""The gRPC listener: one port, the protocol's service and gRPC's own health service.

Knows ports and limits. Refuses to know models.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import grpc
import grpc.aio

from headway.core import ModelName
from headway.errors import ModelNotFoundError
from headway.frontends.oip_admin import is_model_ready
from headway.frontends.oip_grpc import OipGrpc
from headway.frontends.oip_messages import HEALTH, INFERENCE
from headway.runtime import Engine

__all__ = ["GrpcServer"]

_WATCH_EVERY_S: Final = 0.5
"""How soon who watches a service's health is told."""
_WATCHERS_MAX: Final = 256


class GrpcServer:
    """Listens, serves and stops.

    Args:
        service: the protocol.
        engine: whose health is told.
        host: address to listen on.
        port: to listen on; 0 lets the system choose.
        message_bytes_max: of one message, either way.
        keep_alive_s: a client that says nothing for so long is asked whether it is there.
    """

    def __init__(
        self,
        service: OipGrpc,
        engine: Engine,
        *,
        host: str,
        port: int,
        message_bytes_max: int,
        keep_alive_s: float,
    ) -> None:
        self._service = service
        self._health = _Health(engine)
        self._host = host
        self.port = port
        """Where it listens, once it does."""
        self._options = [
            ("grpc.max_receive_message_length", message_bytes_max),
            ("grpc.max_send_message_length", message_bytes_max),
            ("grpc.keepalive_time_ms", int(keep_alive_s * 1000)),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ("grpc.so_reuseport", 0),
        ]
        self._server: Any = None

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken.
        """
        server = grpc.aio.server(options=self._options)
        server.add_generic_rpc_handlers((self._service.handler(), self._health.handler()))
        host = f"[{self._host}]" if ":" in self._host else self._host
        try:
            self.port = server.add_insecure_port(f"{host}:{self.port}")
        except RuntimeError as error:
            raise OSError(str(error)) from error
        await server.start()
        self._server = server

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, and give those under way so long to end."""
        self._health.stop()
        if self._server is not None:
            await self._server.stop(grace_s)


class _Health:
    """gRPC's health service: the server for no name or the protocol's, else a model by its name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_stopping = asyncio.Event()
        self._watchers = 0

    def handler(self) -> Any:
        """What a gRPC server serves."""
        return grpc.method_handlers_generic_handler(
            HEALTH.service,
            {
                "Check": grpc.unary_unary_rpc_method_handler(
                    self._check, request_deserializer=HEALTH["HealthCheckRequest"].FromString
                ),
                "Watch": grpc.unary_stream_rpc_method_handler(
                    self._watch, request_deserializer=HEALTH["HealthCheckRequest"].FromString
                ),
            },
        )

    def stop(self) -> None:
        """Whoever watches is told, and let go."""
        self._is_stopping.set()

    def _status(self, service: str) -> str:
        if self._is_stopping.is_set():
            return "NOT_SERVING"
        if service in {"", INFERENCE.service}:
            return "SERVING" if self._engine.is_ready else "NOT_SERVING"
        try:
            is_ready = is_model_ready(self._engine, ModelName(service), "")
        except ModelNotFoundError:
            return "SERVICE_UNKNOWN"
        return "SERVING" if is_ready else "NOT_SERVING"

    async def _check(self, request: Any, context: Any) -> bytes:
        status = self._status(request.service)
        if status == "SERVICE_UNKNOWN":
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"there is no service `{request.service[:200]}`"
            )
        return _said(status)

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[bytes]:
        if self._watchers >= _WATCHERS_MAX:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{_WATCHERS_MAX} clients watch already"
            )
        self._watchers += 1
        try:
            last = ""
            while not self._is_stopping.is_set():
                status = self._status(request.service)
                if status != last:
                    last = status
                    yield _said(status)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_WATCH_EVERY_S):
                        await self._is_stopping.wait()
            yield _said(self._status(request.service))
        finally:
            self._watchers -= 1


def _said(status: str) -> bytes:
    kind = HEALTH["HealthCheckResponse"]
    return bytes(kind(status=status).SerializeToString())
