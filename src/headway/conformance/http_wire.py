"""A server over HTTP, as a client of any make would reach it.

Knows sockets and JSON. Refuses to know what an answer should be.
"""

import http.client
import json
import socket
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from headway.conformance.case import FailedError, SkippedError, expect, told

__all__ = ["HttpTarget", "Reply"]

_TIMEOUT_S: Final = 20.0
_RAW_TIMEOUT_S: Final = 5.0
"""After which a server that keeps silent has nothing more to say."""
_LENGTH: Final = "Inference-Header-Content-Length"


class Reply(NamedTuple):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes

    def json(self) -> Any:
        """The body's value.

        Raises:
            FailedError: it is no JSON.
        """
        try:
            return json.loads(self.body)
        except ValueError:
            raise FailedError(f"expected JSON; got {told(self.body)}") from None

    def parts(self) -> tuple[Any, bytes]:
        """The JSON, and the binary data behind it."""
        length = self.headers.get(_LENGTH.lower())
        if length is None:
            return self.json(), b""
        expect(length.isdigit() and int(length) <= len(self.body), "a length of JSON", length)
        head = Reply(self.status, self.headers, self.body[: int(length)])
        return head.json(), self.body[int(length) :]


class HttpTarget:
    """The server that is asked.

    Args:
        url: its address, `http://host:port`.
        can_load: whether models may be unloaded and loaded again.
    """

    def __init__(self, url: str, *, can_load: bool) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.can_load = can_load
        self._known: dict[str, bool] = {}

    def connect(self) -> http.client.HTTPConnection:
        """A connection of one's own."""
        return http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        connection: http.client.HTTPConnection | None = None,
    ) -> Reply:
        """One request and its answer, on a new connection unless one is given."""
        to = connection or self.connect()
        try:
            to.putrequest(method, path)  # unlike `request`, it adds no header of its own
            given = dict(headers or {})
            if body is not None and "Transfer-Encoding" not in given:
                given.setdefault("Content-Length", str(len(body)))
            for name, value in given.items():
                to.putheader(name, value)
            to.endheaders(body)
            # It has the socket too, and keeps it where the server closes within a body.
            with closing(to.getresponse()) as response:
                found = {name.lower(): value for name, value in response.getheaders()}
                return Reply(response.status, found, response.read())
        finally:
            if connection is None:
                to.close()

    def get(self, path: str) -> Reply:
        """GET."""
        return self.ask("GET", path)

    def post(self, path: str, value: object, headers: Mapping[str, str] | None = None) -> Reply:
        """POST of a value as JSON."""
        return self.ask("POST", path, json.dumps(value).encode(), headers)

    def infer(
        self,
        model: str,
        value: object,
        binary: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """An infer request, with binary data behind its JSON where there is any."""
        body = json.dumps(value).encode()
        given = dict(headers or {})
        if binary is not None:
            given[_LENGTH] = str(len(body))
            body += binary
        return self.ask("POST", f"/v2/models/{model}/infer", body, given)

    def raw(self, data: bytes) -> bytes:
        """Bytes as they are, and what comes back until the server closes or says no more."""
        found = b""
        with socket.create_connection((self.host, self.port), timeout=_RAW_TIMEOUT_S) as to:
            to.sendall(data)
            with suppress(TimeoutError, ConnectionError):
                while part := to.recv(65536):
                    found += part
        return found

    def needs(self, model: str) -> str:
        """A model of the suite.

        Raises:
            SkippedError: the server does not have it.
        """
        if model not in self._known:
            self._known[model] = self.get(f"/v2/models/{model}").status == 200
        if not self._known[model]:
            raise SkippedError(f"the server has no model `{model}`")
        return model

    def extends(self, *names: str) -> None:
        """See that the server says it has one of some extensions.

        Raises:
            SkippedError: it does not.
        """
        extensions = self.get("/v2").json().get("extensions") or []
        if not any(name in extension for name in names for extension in extensions):
            raise SkippedError(f"the server has no extension `{names[0]}`")
