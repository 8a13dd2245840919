"""The listeners of a server: HTTP, management's own port, gRPC.

Knows which frontend stands behind which port. Decides nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from headway import __version__
from headway.app.front import Front
from headway.config import Config, ServerConfig, service_tiers
from headway.frontends import (
    Access,
    AdminRest,
    Cors,
    Door,
    Generating,
    HttpApp,
    HttpLimits,
    HttpServer,
    Insight,
    Listener,
    OipRest,
    OpenAiRest,
    Regions,
    Tls,
    TlsFiles,
    Viewers,
    grpc_listener,
)
from headway.runtime import Engine
from headway.units import NS_PER_S

__all__ = ["Doors", "tls_of"]


@dataclass(slots=True)
class Doors:
    """Where clients come in."""

    http: HttpServer
    admin: HttpServer | None
    grpc: Listener | None
    viewers: Viewers
    """Who watches, of all ports."""
    answers: dict[int, int]
    """HTTP answers so far, by status, of all ports."""
    urls_before_ports: tuple[str, str]
    """Scheme and host of the HTTP interface, and of gRPC."""
    admin_url_before_port: str

    @classmethod
    def build(
        cls,
        config: Config,
        front: Front,
        generating: Generating,
        insight: Insight,
        tls: Tls | None,
        *,
        started_at_unix_ns: int,
    ) -> "Doors":
        """Wire them; nothing listens yet.

        Args:
            config: what is configured.
            front: what answers, and who may ask for what.
            generating: the door to generators.
            insight: what operators see.
            tls: encryption; None for none.
            started_at_unix_ns: when the server started, which OpenAI's clients are told.

        Raises:
            ConfigError: what the gRPC interface needs is not installed.
        """
        server, engine, access = config.server, front.engine, front.tenants.access
        created_at_s = started_at_unix_ns // NS_PER_S
        regions = Regions(is_allowed=server.shared_memory, request_bytes_max=server.body_max)
        answers, admin = dict[int, int](), server.admin
        names = None if tls is not None else _names(server)

        def listener(host: str, port: int, *, is_admin: bool) -> HttpServer:
            origins = () if is_admin else server.cors_origins
            door = Door(access, is_admin=is_admin, origins=origins, names=names)
            oip = OipRest(
                engine,
                regions=regions,
                version=__version__,
                body_bytes_max=server.body_max,
                can_load=server.admin.can_load,
                door=door,
                answers=answers,
            )
            openai = OpenAiRest(
                engine,
                created_at_s=created_at_s,
                door=door,
                service_tiers=service_tiers(config),
                generating=generating,
                body_bytes_max=server.body_max,
                answers=answers,
                watch=oip.watch,
            )
            shown = AdminRest(insight, door=door, answers=answers, watch=oip.watch)
            app = HttpApp(oip, openai, shown)
            is_public = server.cors_origins and not is_admin
            shown_app = Cors(app, server.cors_origins) if is_public else app
            return HttpServer(shown_app, host=host, port=port, limits=_limits(server), tls=tls)

        return cls(
            http=listener(server.host, server.port, is_admin=False),
            admin=None if admin.port is None else listener(admin.host, admin.port, is_admin=True),
            grpc=_grpc(config, engine, regions, access, tls),
            viewers=insight.viewers,
            answers=answers,
            urls_before_ports=_schemes(server.host, is_encrypted=tls is not None),
            admin_url_before_port=_schemes(admin.host, is_encrypted=tls is not None)[0],
        )

    @property
    def urls(self) -> list[str]:
        """Where each interface that clients use listens."""
        http, grpc = self.urls_before_ports
        found = [f"{http}:{self.http.port}"]
        return found if self.grpc is None else [*found, f"{grpc}:{self.grpc.port}"]

    @property
    def admin_url(self) -> str | None:
        """Where management listens, if not with the rest."""
        if self.admin is None:
            return None
        return f"{self.admin_url_before_port}:{self.admin.port}"

    @property
    def page_url(self) -> str:
        """Where the page for operators is: with management."""
        return f"{self.admin_url or self.urls[0]}/ui"

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: an address is taken.
        """
        await self.http.start()
        if self.admin is not None:
            await self.admin.start()
        if self.grpc is not None:
            await self.grpc.start()

    async def stop(self, grace_s: float) -> None:
        """Write the answers that are due, each interface for so long at most, and close."""
        self.viewers.close()  # a stream that goes on is no answer that is due
        await self.http.stop(grace_s)
        if self.grpc is not None:
            await self.grpc.stop(grace_s)
        if self.admin is not None:
            await self.admin.stop(grace_s)


def tls_of(config: Config) -> Tls | None:
    """Encryption as it is configured.

    Raises:
        ConfigError: a file cannot be used.
    """
    section = config.server.tls
    if section is None:
        return None
    client_ca = None if section.client_ca is None else Path(section.client_ca)
    return Tls(TlsFiles(Path(section.certificate), Path(section.key), client_ca))


def _names(server: ServerConfig) -> set[str]:
    """By which management may be asked for without a key."""
    return {*server.admin.hosts, server.admin.host.lower(), server.host.lower()}


def _limits(server: ServerConfig) -> HttpLimits:
    return HttpLimits(
        keep_alive_s=max(1, server.keep_alive // NS_PER_S),
        connections_max=server.connections_max,
    )


def _schemes(host: str, *, is_encrypted: bool) -> tuple[str, str]:
    shown = f"[{host}]" if ":" in host else host
    suffix = "s" if is_encrypted else ""
    return f"http{suffix}://{shown}", f"grpc{suffix}://{shown}"


def _grpc(
    config: Config, engine: Engine, regions: Regions, access: Access, tls: Tls | None
) -> Listener | None:
    section = config.server.grpc
    if section is None:
        return None
    return grpc_listener(
        engine,
        version=__version__,
        regions=regions,
        can_load=config.server.admin.can_load,
        door=Door(access),
        host=config.server.host,
        port=section.port,
        message_bytes_max=section.message_max,
        keep_alive_s=section.keep_alive / NS_PER_S,
        connections_max=config.server.connections_max,
        tls=tls,
    )
