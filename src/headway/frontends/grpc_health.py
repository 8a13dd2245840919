"""gRPC's health service: of the server, and of each model.

Knows `Engine`'s health. Refuses to know what carries it.
"""

import asyncio
from contextlib import suppress
from typing import Final

from google.protobuf.message import DecodeError

from headway.core import ModelName
from headway.errors import InvalidRequestError, ModelNotFoundError, RejectedError
from headway.frontends.grpc_service import Call, Method, MethodKind, Methods
from headway.frontends.oip_admin import is_model_ready
from headway.frontends.oip_messages import HEALTH, INFERENCE
from headway.runtime import Engine
from headway.units import NS_PER_S

__all__ = ["Health"]

_WATCH_EVERY_S: Final = 0.5
"""How soon who watches a service's health is told."""
_WATCHERS_MAX: Final = 256


class Health:
    """gRPC's health service: the server for no name or the protocol's, else a model by its name."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_stopping = asyncio.Event()
        self._watchers = 0

    def methods(self) -> Methods:
        """What can be called, by name."""
        return {
            "Check": Method(MethodKind.UNARY, self._check),
            "Watch": Method(MethodKind.WATCH, self._watch),
        }

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

    async def _check(self, request: bytes, call: Call) -> bytes:
        service = _service_of(request)
        status = self._status(service)
        if status == "SERVICE_UNKNOWN":
            raise ModelNotFoundError(f"there is no service `{service[:200]}`")
        return _said(status)

    async def _watch(self, request: bytes, call: Call) -> None:
        service = _service_of(request)
        if self._watchers >= _WATCHERS_MAX:
            raise RejectedError(
                f"{_WATCHERS_MAX} clients watch already",
                reason="watchers_full",
                retry_after_ns=NS_PER_S,
            )
        self._watchers += 1
        try:
            last = ""
            while not self._is_stopping.is_set():
                status = self._status(service)
                if status != last:
                    last = status
                    await call.write(_said(status))
                with suppress(TimeoutError):
                    async with asyncio.timeout(_WATCH_EVERY_S):
                        await self._is_stopping.wait()
            await call.write(_said(self._status(service)))
        finally:
            self._watchers -= 1


def _service_of(request: bytes) -> str:
    """Whose health is asked."""
    try:
        return str(HEALTH["HealthCheckRequest"].FromString(request).service)
    except DecodeError:
        raise InvalidRequestError("the message is no `HealthCheckRequest`") from None


def _said(status: str) -> bytes:
    kind = HEALTH["HealthCheckResponse"]
    return bytes(kind(status=status).SerializeToString())
