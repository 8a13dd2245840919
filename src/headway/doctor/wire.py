"""What a running server tells: its metrics, its last steps, its models. Only ever read.

Knows HTTP as a client. Refuses to judge what comes back; whoever asks is told why something could
not be had.
"""

import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from headway.errors import ConfigError, HeadwayError

__all__ = ["ServerDoor"]

_TIMEOUT_S: Final = 30.0
_CHUNK_BYTES: Final = 1 << 20
_BYTES_MAX: Final = 1 << 30
_SCHEMES: Final = frozenset({"http", "https"})
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class ServerDoor:
    """A server's port for management, or its only one.

    Args:
        url: as in `http://127.0.0.1:8000`.
        key: of management, where the server asks for one.

    Raises:
        ConfigError: the URL is none.
    """

    def __init__(self, url: str, key: str = "") -> None:
        scheme, host, port = _parts_of(url)
        self._is_encrypted = scheme == "https"
        self._host = host
        self.port = port or (443 if self._is_encrypted else 80)
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self.url = url

    @property
    def is_here(self) -> bool:
        """It is on this machine, as far as its name tells."""
        return self._host in _LOOPBACK

    def text(self, path: str) -> str:
        """GET.

        Raises:
            HeadwayError: it does not answer, or refuses.
        """
        with closing(self._connection()) as connection:
            answer = self._answer(connection, path)
            return self._read(answer, path, _BYTES_MAX).decode(errors="replace")

    def download(self, path: str, to: Path) -> None:
        """GET into a file, a piece at a time.

        Raises:
            HeadwayError: it does not answer, or refuses.
        """
        with closing(self._connection()) as connection, to.open("wb") as file:
            answer = self._answer(connection, path)
            while data := self._read(answer, path, _CHUNK_BYTES):
                file.write(data)

    def rows_max(self) -> Mapping[str, int]:
        """Rows that a batch of each model may have; none where the server does not say here."""
        found = {}
        with suppress(HeadwayError, ValueError, KeyError, TypeError):
            index = json.loads(self._post("/v2/repository/index", b"{}"))
            for line in index:
                config: dict[str, Any] = json.loads(
                    self.text(f"/v2/models/{quote(str(line['name']), safe='')}/config")
                )
                found[str(config["name"])] = max(1, int(config["max_batch_size"]))
        return found

    def _post(self, path: str, body: bytes) -> bytes:
        with closing(self._connection()) as connection:
            return self._read(self._answer(connection, path, body), path, _BYTES_MAX)

    def _read(self, answer: http.client.HTTPResponse, path: str, bytes_max: int) -> bytes:
        """The next bytes. A server may end in the middle; half of an answer is none."""
        try:
            data = answer.read(bytes_max)
            if len(data) < bytes_max and answer.length:
                raise http.client.IncompleteRead(data, answer.length)
        except (OSError, http.client.HTTPException) as error:
            raise HeadwayError(
                f"`{self.url}{path}` did not answer to the end: {error}",
                hint="did the server end meanwhile?",
            ) from error
        return data

    def _connection(self) -> http.client.HTTPConnection:
        if self._is_encrypted:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self._host, self.port, timeout=_TIMEOUT_S, context=context
            )
        return http.client.HTTPConnection(self._host, self.port, timeout=_TIMEOUT_S)

    def _answer(
        self, connection: http.client.HTTPConnection, path: str, body: bytes | None = None
    ) -> http.client.HTTPResponse:
        try:
            connection.request("GET" if body is None else "POST", path, body, self._headers)
            answer = connection.getresponse()
            if answer.status == http.HTTPStatus.OK:
                return answer
            said = answer.read(_CHUNK_BYTES).decode(errors="replace")[:200]
        except (OSError, http.client.HTTPException) as error:
            raise HeadwayError(
                f"`{self.url}{path}` does not answer: {error}", hint="is the server running there?"
            ) from error
        raise HeadwayError(
            f"`{self.url}{path}` answered {answer.status}: {said}",
            hint="management may have a port or keys of its own: --url, --key-file",
        )


def _parts_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port, where a connection can be made of them."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or not host.isprintable() or " " in host or parts.scheme not in _SCHEMES:
        raise ConfigError(
            f"`{url}` is no address of a server", value=url, hint="as http://127.0.0.1:8000"
        )
    return parts.scheme, host, port
