"""What an operator asks of a server over HTTP: what it did, what it does, and the page of it.

| path              | answer                                                                   |
| ----------------- | ------------------------------------------------------------------------ |
| `/admin/records`  | the last seconds as a journal: a header, then a step a line              |
| `/admin/timeline` | the same as a timeline for Perfetto                                      |
| `/admin/board`    | what the page shows, once                                                |
| `/admin/events`   | the same over and over, as server-sent events                            |
| `/ui`             | the page                                                                 |

All but the page's files, which say nothing of this server, ask for what management asks for.

Knows steps and the board, which know the scheduler. Refuses to know it itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Annotated, Final, NamedTuple
from urllib.parse import parse_qs

import msgspec

from headway.errors import InvalidRequestError
from headway.frontends.access import PAGE_HEADERS, Door, Need
from headway.frontends.admin_events import Viewers
from headway.frontends.asgi import (
    Receive,
    Scope,
    Send,
    Stream,
    answer_with,
    headers_of,
    wrong_method,
)
from headway.frontends.client_call import HEADER_NAMES, credential_of, shown
from headway.frontends.disconnect import DisconnectWatch
from headway.frontends.needs import need_of
from headway.frontends.pages import page_answer
from headway.frontends.rest_errors import JSON_TYPE, Answer, HttpError, answer_to
from headway.observe import HeldSteps, JournalHeader, RecentSteps
from headway.units import NS_PER_S

__all__ = ["SECONDS_MAX", "AdminRest", "Insight"]

SECONDS_MAX: Final = 86_400
"""A longer past is not asked for; what is kept is shorter anyway."""
_RECORDS_S: Final = 60.0
_TIMELINE_S: Final = 10.0
_DRAWINGS_MAX: Final = 4
"""Timelines asked for at once; each keeps a thread busy for as long as it is long."""
_RECORDS_AT_ONCE: Final = 200
"""Written before others have their turn: about a millisecond."""
_TAG: Final = b"if-none-match"
_READ_HEADERS: Final = HEADER_NAMES | PAGE_HEADERS | {_TAG}
_UI: Final = "/ui"
_FILE: Final = "/ui/{file}"
_PAGE: Final = "index.html"
_RECORDS_TYPE: Final = (b"content-type", b"application/x-ndjson")
_EVENTS_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy that gathers a stream shows nothing of it
)

_encoder: Final = msgspec.json.Encoder()
_seconds_decoder: Final = msgspec.json.Decoder(
    Annotated[float, msgspec.Meta(gt=0, le=SECONDS_MAX)], strict=True
)


class Insight(NamedTuple):
    """What a server lets its operator see."""

    recent: RecentSteps
    header: JournalHeader
    now_ns: Callable[[], int]
    """The engine's clock."""
    timeline: Callable[[HeldSteps, int], bytes]
    """Draws steps from an instant on, for Perfetto; called in a thread."""
    viewers: Viewers


class _Request(NamedTuple):
    """What an endpoint may look at."""

    scope: Scope
    receive: Receive
    headers: Mapping[bytes, bytes]
    file: str


Endpoint = Callable[[_Request], Awaitable[Answer | Stream]]


class AdminRest:
    """The app.

    Args:
        insight: what is to be seen.
        door: who may ask for what; anyone for everything by default.
        answers: where answers are counted by status; shared with other apps of the same server, as
            is ``watch``.
        watch: notices clients that leave.
    """

    def __init__(
        self,
        insight: Insight,
        *,
        door: Door | None = None,
        answers: MutableMapping[int, int] | None = None,
        watch: DisconnectWatch | None = None,
    ) -> None:
        self._insight = insight
        self._door = door or Door()
        self._answers = {} if answers is None else answers
        self._watch = watch or DisconnectWatch()
        self._drawing = asyncio.Lock()
        self._drawings = 0
        """Timelines that are drawn or wait for it."""
        self.routes: Mapping[str, Mapping[str, Endpoint]] = {
            "/admin/board": {"GET": self._board},
            "/admin/events": {"GET": self._events},
            "/admin/records": {"GET": self._records},
            "/admin/timeline": {"GET": self._timeline},
            _UI: {"GET": self._page},
            _FILE: {"GET": self._page},
        }
        """Every path and its methods."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        answering = self._answer(scope, receive)
        await answer_with(scope, send, self._answers, answering, answer_to)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | Stream:
        path = scope["path"].rstrip("/")
        pattern, file = path, _PAGE
        if path.startswith(f"{_UI}/"):
            pattern, file = _FILE, path.removeprefix(f"{_UI}/")
        methods = self.routes.get(pattern)
        if methods is None:
            raise HttpError(404, "path_not_found", f"there is nothing at `{scope['path'][:200]}`")
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = methods.get(method)
        if endpoint is None:
            raise wrong_method(scope, methods)
        headers = headers_of(scope, _READ_HEADERS)
        need = need_of(pattern, method)
        if need is Need.ADMIN:
            # Only the answer would be kept from it, while the server writes it all the same.
            self._door.refuse_foreign(headers)
        self._door.check(need, credential_of(headers), headers.get(b"host", b""))
        return await endpoint(_Request(scope, receive, headers, file))

    # --- what the server did ---

    async def _records(self, request: _Request) -> Stream:
        held = self._insight.recent.hold(self._from_ns(request, _RECORDS_S))
        return Stream(
            (_RECORDS_TYPE, (b"cache-control", b"no-store")),
            partial(_lines, self._insight.header, held),
            partial(self._watch.over, request.receive),
        )

    async def _timeline(self, request: _Request) -> Answer:
        from_ns = self._from_ns(request, _TIMELINE_S)
        if self._drawings >= _DRAWINGS_MAX:
            raise HttpError(
                503, "unavailable", f"{self._drawings} timelines are being drawn (hint: ask later)"
            )
        self._drawings += 1
        try:
            async with self._drawing:  # a thread that draws slows all others down: one at a time
                held = self._insight.recent.hold(0)  # what runs or waits then began before
                body = await asyncio.to_thread(self._insight.timeline, held, from_ns)
        finally:
            self._drawings -= 1
        return Answer(200, body, (JSON_TYPE, (b"cache-control", b"no-store")))

    def _from_ns(self, request: _Request, default_s: float) -> int:
        seconds = _seconds_of(request.scope, default_s)
        return max(0, self._insight.now_ns() - int(seconds * NS_PER_S))

    # --- what it does ---

    async def _board(self, request: _Request) -> Answer:
        body = await self._insight.viewers.look()
        return Answer(200, body, (JSON_TYPE, (b"cache-control", b"no-store")))

    async def _events(self, request: _Request) -> Stream:
        self._insight.viewers.refuse_more()
        watched = partial(self._watch.over, request.receive)
        return Stream(_EVENTS_HEADERS, self._insight.viewers.watch, watched)

    async def _page(self, request: _Request) -> Answer:
        return page_answer(request.file, request.headers.get(_TAG, b""))


async def _lines(header: JournalHeader, held: HeldSteps) -> AsyncGenerator[bytes, None]:
    """A journal, in pieces that each take a moment to write."""
    yield _encoder.encode(header) + b"\n"
    for start in range(0, len(held), _RECORDS_AT_ONCE):
        yield _encoder.encode_lines(list(held.records(start, start + _RECORDS_AT_ONCE)))
        await asyncio.sleep(0)  # a client that reads fast never has us wait


def _seconds_of(scope: Scope, default_s: float) -> float:
    """How far back a request asks.

    Raises:
        InvalidRequestError: that is no number of seconds.
    """
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    texts = query.get("seconds")
    if texts is None:
        return default_s
    try:
        return _seconds_decoder.decode(texts[0] if len(texts) == 1 else "[]")
    except (msgspec.DecodeError, ValueError):
        raise InvalidRequestError(
            f"`seconds` is `{shown(', '.join(texts))}`, not a number above 0",
            hint=f"at most {SECONDS_MAX} are looked back",
        ) from None
