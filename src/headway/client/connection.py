"""Between httpx and the pure core: requests put to httpx, what it raises told as a loss.

Knows httpx and nothing of what is sent. Both clients are built from these pieces.
"""

import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import httpx

from headway.client.answers import Answer
from headway.client.failures import Lost
from headway.client.patience import Patience, Retries, Send
from headway.client.terms import Duration, duration_ns
from headway.errors import ConfigError, HeadwayError, InvalidRequestError
from headway.units import NS_PER_S

__all__ = ["AnswerParts", "lost", "patience_of", "request_arguments", "session_arguments"]

CONNECTIONS_MAX: Final = 100
"""Open at once; further calls wait for one of them."""
REPLY_BYTES_MAX: Final = 2 << 30
_KEEP_ALIVE_S: Final = 60.0
"""Below the 75 s of a server, so that the client is the one to close an idle connection."""
_ALIGNMENT_BYTES: Final = 16


def session_arguments(
    url: str, *, tls: ssl.SSLContext | None, connections_max: int
) -> dict[str, Any]:
    """What httpx is told for all requests of a client.

    The environment's proxies and `.netrc` are not read: a key must not be replaced unseen.

    Raises:
        ConfigError: the URL is none.
    """
    try:
        base = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise _no_url(url) from error
    if base.scheme not in ("http", "https") or not base.host:
        raise _no_url(url)
    return {
        "base_url": base,
        "headers": {"accept-encoding": "identity"},
        # To read the system's certificates takes 80 ms, which nobody needs without TLS.
        "verify": base.scheme == "https" if tls is None else tls,
        "trust_env": False,
        "limits": httpx.Limits(
            max_connections=connections_max,
            max_keepalive_connections=connections_max,
            keepalive_expiry=_KEEP_ALIVE_S,
        ),
    }


def patience_of(retries: int | Retries, timeout: Duration, grace: Duration) -> Patience:
    """How long a client waits, from what it was told."""
    return Patience(
        retries=retries if isinstance(retries, Retries) else Retries(count_max=retries),
        timeout_ns=duration_ns(timeout, "timeout"),
        grace_ns=duration_ns(grace, "grace"),
    )


def request_arguments(step: Send, now_ns: Callable[[], int]) -> dict[str, Any]:
    """What httpx is told for one request that is sent now."""
    request = step.request
    return {
        "method": request.method,
        "url": request.path,
        "headers": dict(request.headers),
        "content": request.body or None,
        "extensions": {"timeout": _TimeLeft(now_ns() + step.timeout_ns, now_ns)},
    }


class _TimeLeft(Mapping[str, float]):
    """Seconds that a phase of a request may take, as httpx asks at its start: all that is left.

    A number would be granted to each anew: to the wait for a connection, to connecting, to sending
    and to the answer.
    """

    def __init__(self, ends_at_ns: int, now_ns: Callable[[], int]) -> None:
        self._ends_at_ns = ends_at_ns
        self._now_ns = now_ns

    def __getitem__(self, phase: str) -> float:
        return max(self._ends_at_ns - self._now_ns(), 1) / NS_PER_S

    def __iter__(self) -> Iterator[str]:
        return iter(("pool", "connect", "write", "read"))

    def __len__(self) -> int:
        return 4


def lost(error: Exception, step: Send) -> Lost:
    """What it means that httpx raised.

    Raises:
        InvalidRequestError: it was we who would have broken HTTP; to send it again will not help.
    """
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
        raise InvalidRequestError(f"the request cannot be sent: {error}") from error
    is_late = isinstance(error, httpx.TimeoutException | TimeoutError)
    return Lost(error, step.timeout_ns if is_late else None)


class AnswerParts:
    """An answer as it comes, in one buffer, whose tensors lie where their numbers are aligned.

    Args:
        response: its head.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._status = response.status_code
        self._headers = {name.lower(): value for name, value in response.headers.items()}
        json_bytes = self._headers.get("inference-header-content-length", "")
        self._lead = -int(json_bytes) % _ALIGNMENT_BYTES if json_bytes.isdigit() else 0
        self._buffer = bytearray(self._lead)

    def add(self, piece: bytes) -> None:
        """The next piece of its body.

        Raises:
            HeadwayError: there is no end to it.
        """
        if len(self._buffer) + len(piece) > REPLY_BYTES_MAX:
            raise HeadwayError(f"the answer has more than {REPLY_BYTES_MAX} bytes")
        self._buffer += piece

    def whole(self) -> Answer:
        """The answer, once all of it is there."""
        return Answer(self._status, self._headers, memoryview(self._buffer)[self._lead :])


def _no_url(url: str) -> ConfigError:
    return ConfigError(
        f"`{url}` is no address of a server",
        path="url",
        value=url,
        hint="write http://host:port or https://host:port",
    )
