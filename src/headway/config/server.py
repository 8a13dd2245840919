"""The interfaces: the section `server`.

Knows where clients come in and what is asked of them there. Refuses to know models.
"""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from headway.config.quantities import Duration, PositiveSize
from headway.config.section import Count, Name, Section
from headway.config.tenancy import KeyConfig
from headway.units import NS_PER_S

__all__ = ["AdminConfig", "GrpcConfig", "OpenAiConfig", "ServerConfig", "TlsConfig"]


def _read_origin(value: object) -> object:
    """Browsers send an origin as it is here; with anything more it would never be the same."""
    if isinstance(value, str) and not _ORIGIN.fullmatch(value):
        raise ValueError(f"`{value}` is no origin such as `https://app.example.com`, and not `*`")
    return value


_ORIGIN: Final = re.compile(r"\*|https?://[a-z0-9.-]+(:[0-9]+)?|https?://\[[0-9a-f:]+\](:[0-9]+)?")
Origin = Annotated[str, BeforeValidator(_read_origin)]


def _read_host(value: object) -> object:
    if isinstance(value, str) and not _HOST.fullmatch(value):
        raise ValueError(f"`{value}` is no name such as `gpu-1.example.com`, without a port")
    return value


_HOST: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
Host = Annotated[str, BeforeValidator(_read_host)]


class AdminConfig(Section):
    """Management: loading and unloading, metrics. It may have a port or keys of its own.

    With neither, whoever can reach the server can manage it; where there are tenants, nobody can.
    """

    can_load: bool = True
    """Models of this file may be loaded, reloaded and unloaded while the server runs."""
    can_override: bool = False
    """A load may also bring settings of its own, a path included: whoever can reach the server
    can then run code on it."""
    port: int | None = Field(default=None, ge=0, le=65535, strict=True)
    """Port where management is answered, and nowhere else; 0 lets the system choose one."""
    host: str = "127.0.0.1"
    """Address of that port."""
    hosts: tuple[Host, ...] = ()
    """Names by which management is answered where it asks for no key and is not encrypted, such as
    `gpu-1.example.com`; addresses, `localhost` and names without a dot always are. Any other is
    refused: whoever owns a name may have it lead here, and a browser then shows its pages all that
    this server's own may see."""
    keys: tuple[KeyConfig, ...] = ()
    """Keys for management, sent as tenants send theirs; empty asks for none, but where there are
    tenants and management has no port of its own."""


class TlsConfig(Section):
    """Encryption, of every port. The files are read again when they change."""

    certificate: str
    """Certificate chain, PEM. Relative paths start at this file's folder."""
    key: str
    """Its private key, PEM, without a password."""
    client_ca: str | None = None
    """Authorities, PEM, one of which must have signed the certificate that each client then has to
    show; without it clients show none."""


class GrpcConfig(Section):
    """The gRPC interface. Needs the extra `grpc`."""

    port: int = Field(default=8001, ge=0, le=65535, strict=True)
    """Port to listen on, at the server's `host`; 0 lets the system choose one, which is printed."""
    message_max: PositiveSize = 64 << 20
    """Largest message, either way; a larger request is refused, a larger reply is an error."""
    keep_alive: Duration = 75 * NS_PER_S
    """A client that has said nothing for so long is asked whether it is still there."""


class OpenAiConfig(Section):
    """OpenAI's API, under `/v1`."""

    service_tiers: dict[str, Name] = Field(default_factory=dict)
    """Tiers that a request's `service_tier` stands for. A tier of this file is also found by its
    own name; `priority` is else the tier of the lowest priority number, `flex` that of the highest.
    Any other, such as `auto`, leaves the request to its model's tier."""


class ServerConfig(Section):
    """The interfaces."""

    host: str = "127.0.0.1"
    """Address to listen on; `0.0.0.0` is every interface."""
    port: int = Field(default=8000, ge=0, le=65535, strict=True)
    """Port to listen on; 0 lets the system choose one, which is printed."""
    admin: AdminConfig = AdminConfig()
    """Management."""
    grace: Duration = 30 * NS_PER_S
    """After SIGTERM, how long admitted requests may take to finish."""
    body_max: PositiveSize = 64 << 20
    """Largest request body; a larger one is refused with 413 before it is read."""
    keep_alive: Duration = 75 * NS_PER_S
    """How long an idle connection is kept open. Above the 60 s of most load balancers, so that
    they and not the server are the ones to close it."""
    connections_max: Count = 16384
    """Connections open at once, of each port; further ones are closed as they come."""
    cors_origins: tuple[Origin, ...] = ()
    """Origins whose pages in a browser may call the HTTP interface, such as
    `https://app.example.com`; `*` is any. Empty answers none of them."""
    tls: TlsConfig | None = None
    """Encryption; without it none."""
    grpc: GrpcConfig | None = None
    """The same over gRPC, on another port; left out for HTTP alone."""
    openai: OpenAiConfig = OpenAiConfig()
    """OpenAI's API."""
    shared_memory: bool = False
    """Clients on this machine may register shared memory, and leave tensors there. Whoever may do
    that can read and write every shared memory object of the server's user; so tenants, who share
    nothing, may not have it."""
