"""The files of the web page, as they are sent: read once, with what keeps a browser honest.

The page is static and holds nothing of any server: what it shows it asks for. The policy of its
contents allows what comes from the same place, and nothing else: no script but these, no style, no
picture, no request elsewhere.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from headway.frontends.rest_errors import Answer, HttpError

__all__ = ["page_answer", "page_policy"]

_FOLDER: Final = Path(__file__).parent / "dashboard"
_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}
_OTHER_HEADERS: Final = (
    (b"cache-control", b"no-cache"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


def page_policy(also: Sequence[str] = ()) -> bytes:
    """The Content-Security-Policy of a page.

    Args:
        also: origins that its scripts may ask besides its own.
    """
    asked = " ".join(["'self'", *also])
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        f"connect-src {asked}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ).encode()


def page_answer(name: str, asked_tag: bytes = b"", policy: bytes | None = None) -> Answer:
    """A file of the page.

    Args:
        name: of the file, which is one of those that there are.
        asked_tag: what the browser has of it already, by its `etag`.
        policy: instead of `page_policy()`.

    Raises:
        HttpError: 404, there is none of this name.
    """
    content = _files().get(name)
    if content is None:
        raise HttpError(404, "path_not_found", f"there is no file `{name[:200]}` here")
    tag = b'"%b"' % sha256(content).hexdigest()[:32].encode()
    headers = [
        (b"content-type", _TYPES[Path(name).suffix]),
        (b"content-security-policy", policy or page_policy()),
        (b"etag", tag),
        *_OTHER_HEADERS,
    ]
    if asked_tag == tag:
        return Answer(304, b"", headers)
    return Answer(200, content, headers)


@cache
def _files() -> Mapping[str, bytes]:
    """By their names. What is asked for is looked up here: no path of a client's is ever opened."""
    return {
        path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES
    }
