"""The way to what needs h2 and protobuf, which are an extra and loaded only by who asks for them.

Knows what is behind it by name.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from headway.errors import ConfigError
from headway.frontends.access import Door
from headway.frontends.shared_memory import Regions
from headway.runtime import Engine

if TYPE_CHECKING:
    from headway.frontends.oip_messages import Messages

__all__ = ["Listener", "grpc_listener", "grpc_messages"]


class Listener(Protocol):
    """An interface of the server."""

    port: int

    @property
    def answers(self) -> Mapping[str, int]:
        """Live: answers so far by the name of their status code."""

    def streamed(self) -> int:
        """Requests of streams that have no answer yet."""

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken.
        """

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, and give those under way so long to end."""


def grpc_listener(
    engine: Engine,
    *,
    version: str,
    regions: Regions,
    can_load: bool,
    door: Door,
    **how: Any,
) -> Listener:
    """The gRPC interface; the rest are `GrpcServer`'s arguments.

    Raises:
        ConfigError: they are not installed.
    """
    try:
        from headway.frontends.grpc_server import GrpcServer
        from headway.frontends.oip_grpc import OipGrpc
    except ImportError as error:
        raise ConfigError(
            f"the gRPC interface needs a library that is not installed: {error}",
            path="server.grpc",
            hint="pip install 'headway[grpc]', or leave server.grpc out",
        ) from error
    service = OipGrpc(engine, version=version, regions=regions, can_load=can_load, door=door)
    return GrpcServer(service, engine, **how)


def grpc_messages(service: str) -> "Messages":
    """The message classes of a gRPC service, `inference.GRPCInferenceService` or the health one.

    Raises:
        ImportError: protobuf is not installed.
    """
    from headway.frontends.oip_messages import Messages

    return Messages(service)
