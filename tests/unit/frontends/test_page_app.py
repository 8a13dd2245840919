"""An app of pages alone, as the demo shows one."""

import asyncio

import pytest
from tests.asgi_client import call

from headway.frontends import PageApp

ELSEWHERE = "http://127.0.0.1:8001"


def get(path: str, method: str = "GET"):
    values = iter((b'{"turn": 1}', b'{"turn": 2}'))
    app = PageApp("duel.html", {"/story": lambda: next(values)}, [ELSEWHERE])
    return asyncio.run(call(app, method, path))


def test_first_page_is_at_the_root_and_may_ask_the_origins_it_names() -> None:
    """Its scripts ask its own server and those of the list, and nobody else."""
    answer = get("/")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"duel.js" in answer.body
    policy = answer.headers["content-security-policy"]
    assert f"connect-src 'self' {ELSEWHERE};" in policy


def test_values_are_made_when_they_are_asked_for_and_kept_by_nobody() -> None:
    """Each time anew."""
    answer = get("/story")
    assert (answer.json, answer.headers["cache-control"]) == ({"turn": 1}, "no-store")


@pytest.mark.parametrize("path", ["/nothing", "/ui/", "/ui/none.js", "/ui/../pages.py"])
def test_path_that_is_none_is_not_found(path: str) -> None:
    """And opens nothing."""
    assert get(path).status == 404


def test_page_is_only_looked_at() -> None:
    """There is nothing to be changed."""
    assert get("/story", "POST").status == 405
    assert (get("/ui/style.css", "HEAD").status, get("/ui/style.css", "HEAD").body) == (200, b"")
