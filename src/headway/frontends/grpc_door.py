"""The way to what needs the gRPC library, which is an extra and is loaded only by who asks for it.

Knows what is behind it by name.
"""

from typing import TYPE_CHECKING, Any, Protocol

from headway.errors import ConfigError
from headway.frontends.shared_memory import Regions
from headway.runtime import Engine

if TYPE_CHECKING:
    from headway.frontends.oip_messages import Messages

__all__ = ["Listener", "grpc_listener", "grpc_messages"]


class Listener(Protocol):
    """An interface of the server."""

    port: int

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
    **how: Any,
) -> Listener:
    """The gRPC interface; the rest are `GrpcServer`'s arguments.

    Raises:
        ConfigError: the library is not installed.
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
    service = OipGrpc(engine, version=version, regions=regions, can_load=can_load)
    return GrpcServer(service, engine, **how)


def grpc_messages(service: str) -> "Messages":
    """The message classes of a gRPC service, `inference.GRPCInferenceService` or the health one.

    Raises:
        ImportError: protobuf is not installed.
    """
    from headway.frontends.oip_messages import Messages

    return Messages(service)
