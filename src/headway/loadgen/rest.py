"""Open Inference Protocol over HTTP, as a client: the one file that knows aiohttp."""

import warnings
from collections.abc import Hashable, Iterable
from types import TracebackType
from typing import Final, Self

import aiohttp
import msgspec
from aiohttp.payload import BytesPayload
from msgspec import Struct
from yarl import URL

from headway.core import ModelName
from headway.errors import ConfigError
from headway.loadgen.bodies import ModelMetadata
from headway.loadgen.wire import HEADER_LENGTH, Answer, Body, parse_answer, request_headers
from headway.workload import Arrival, Outcome

__all__ = ["RestClient"]

_LARGE_BYTES: Final = 1 << 20
"""Above this aiohttp warns that one write takes long; we know, and have nothing to await."""
_UNUSED_HEADERS: Final = ("User-Agent", "Accept", "Accept-Encoding")
_METADATA_SECONDS: Final = 10.0
_ROUTES_MAX: Final = 1024
"""Kept; a workload has a handful."""


class _ServerError(Struct):
    error: str = ""


class RestClient:
    """Sends requests to one server over as many connections as are needed at once.

    Use it as an async context manager, which closes the connections.
    """

    def __init__(self, url: str) -> None:
        self._models_url = URL(url.rstrip("/") + "/v2/models/")
        self._session: aiohttp.ClientSession | None = None
        self._routes: dict[Hashable, tuple[URL, dict[str, str]]] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            skip_auto_headers=_UNUSED_HEADERS,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()
        self._session = None

    async def send(self, arrival: Arrival, body: Body) -> Answer:
        """Send one request; see `loadgen.player.Send`."""
        assert self._session is not None, "use the client as an async context manager"
        url, headers = self._route(arrival)
        headers = {**headers, HEADER_LENGTH: str(body.json_bytes)}
        try:
            async with self._session.post(url, data=_payload(body), headers=headers) as reply:
                data = await reply.read()
        except (aiohttp.ClientError, OSError):
            return Answer(Outcome.FAILED)
        json_bytes = reply.headers.get(HEADER_LENGTH)
        json = data if json_bytes is None else data[: int(json_bytes)]
        return parse_answer(reply.status, json, reply.headers)

    async def metadata(self, models: Iterable[ModelName]) -> dict[ModelName, ModelMetadata]:
        """Ask the server what each model takes.

        Raises:
            ConfigError: the server does not answer, or does not serve a model.
        """
        return {model: await self._metadata_of(model) for model in models}

    async def _metadata_of(self, model: ModelName) -> ModelMetadata:
        assert self._session is not None, "use the client as an async context manager"
        url = self._models_url / model
        timeout = aiohttp.ClientTimeout(total=_METADATA_SECONDS)
        try:
            async with self._session.get(url, timeout=timeout) as reply:
                data = await reply.read()
            if reply.status == 200:
                return msgspec.json.decode(data, type=ModelMetadata)
            reason = msgspec.json.decode(data, type=_ServerError).error
        except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            message = f"`{url}` does not say what `{model}` takes: {error}"
            raise ConfigError(
                message, path="url", value=str(url), hint="is the server running there?"
            ) from error
        message = f"the server does not serve `{model}` ({reply.status}): {reason}"
        raise ConfigError(message, path="model", value=model)

    def _route(self, arrival: Arrival) -> tuple[URL, dict[str, str]]:
        """URL and headers, made once for all requests that agree in what these say."""
        key = (arrival.model, arrival.tier, arrival.tenant, arrival.budget_ns, arrival.priority)
        route = self._routes.get(key)
        if route is None:
            if len(self._routes) >= _ROUTES_MAX:
                self._routes.clear()
            headers = request_headers(arrival) | {"Content-Type": "application/octet-stream"}
            route = (self._models_url / arrival.model / "infer", headers)
            self._routes[key] = route
        return route


def _payload(body: Body) -> bytes | BytesPayload:
    if len(body.data) <= _LARGE_BYTES:
        return body.data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        return BytesPayload(body.data)
