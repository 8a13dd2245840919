"""An app of pages alone: the files of the web page, and values for them as JSON.

For whoever shows a page without being a server of models. Knows files and bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headway.frontends.asgi import Receive, Scope, Send, answer_with, wrong_method
from headway.frontends.pages import page_answer, page_policy
from headway.frontends.rest_errors import JSON_TYPE, Answer, answer_to

__all__ = ["PageApp"]

_FILES: Final = "/ui/"


class PageApp:
    """The app.

    Args:
        index: file that is the first page, at `/`.
        values: by path: what gives a JSON value.
        asked: origins that the page's scripts may ask besides this one.
    """

    def __init__(
        self, index: str, values: Mapping[str, Callable[[], bytes]], asked: Sequence[str]
    ) -> None:
        self._index = index
        self._values = values
        self._policy = page_policy(asked)
        self._answers: dict[int, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        await answer_with(scope, send, self._answers, self._answer(scope), answer_to)

    async def _answer(self, scope: Scope) -> Answer:
        if scope["method"] not in {"GET", "HEAD"}:
            raise wrong_method(scope, ["GET"])
        path = scope["path"]
        value = self._values.get(path)
        if value is not None:
            return Answer(200, value(), (JSON_TYPE, (b"cache-control", b"no-store")))
        name = self._index if path == "/" else path.removeprefix(_FILES)
        return page_answer(name, policy=self._policy)
