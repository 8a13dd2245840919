"""Encryption: contexts for listeners, whose files may be read again.

Knows certificates, keys and whom to trust. Connections that are open keep what they began with.
"""

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway.errors import ConfigError

__all__ = ["Tls", "TlsFiles"]

_PROTOCOLS: Final = ("http/1.1", "h2")


class TlsFiles(NamedTuple):
    """Where certificate and key are, and the authorities that clients' certificates need."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


Contexts = Mapping[str, ssl.SSLContext]
"""A context for each protocol that is spoken inside."""


class Tls:
    """What a server shows its clients, and asks of them.

    A context cannot be made to forget an authority. So those that listeners have hand every new
    connection to the ones that were built last.

    Invariants: contexts are built from files that were read whole, and never changed.

    Raises:
        ConfigError: a file is missing, or is not what it should be.
    """

    def __init__(self, files: TlsFiles) -> None:
        self.files = files
        self._current = _read(files)

    def read_again(self) -> Callable[[], None]:
        """Read what the files hold now; calling what comes back has it used.

        Raises:
            ConfigError: they do not fit together, as while they are being written.
        """
        found = _read(self.files)

        def use() -> None:
            self._current = found

        return use

    def context(self, protocol: str) -> ssl.SSLContext:
        """For a listener of a protocol, `http/1.1` or `h2`."""

        def hand_over(connection: Any, *_: object) -> None:
            """Asked as every handshake begins, whether the client names a server or not."""
            connection.context = self._current[protocol]

        context = _read(self.files)[protocol]
        context.sni_callback = hand_over
        return context


def _read(files: TlsFiles) -> Contexts:
    client_ca = None
    if files.client_ca is not None:
        client_ca = _bytes_of(files.client_ca, "server.tls.client_ca")
    return {protocol: _context(files, client_ca, protocol) for protocol in _PROTOCOLS}


def _context(files: TlsFiles, client_ca: bytes | None, protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    # A client that resumes a session shows no certificate again, and may have lost its authority.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise _wrong(files.certificate, "server.tls.certificate", error) from error
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cadata=client_ca.decode("ascii"))
        except (OSError, ValueError) as error:
            raise _wrong(files.client_ca, "server.tls.client_ca", error) from error
    return context


def _bytes_of(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _wrong(path, where, error) from error


def _no_password() -> str:
    raise ValueError("the key has a password, and nobody is there to type it")


def _wrong(path: Path | None, where: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"{where}: `{path}` cannot be used: {error}",
        path=where,
        value=str(path),
        hint="it must be PEM; the key must be that of the certificate, and have no password",
    )
