"""A browser that looks at the pages of a real server, and all that a test may ask of it.

The browser is the system's own Chromium, never one that is fetched; without it, or without
Playwright, the tests that need it are skipped and say why.
"""

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

__all__ = ["contrasts", "launched", "opened"]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1400, 1000


@contextlib.contextmanager
def launched() -> Iterator[Any]:
    """A browser without a window; the test is skipped where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright drives the browser: pip install playwright"
    )
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # A sandbox needs rights that containers do not give; only our own pages are opened.
        browser = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(
    browser: Any, url: str, *, expected: tuple[str, ...] = (), origins: int = 1, **options: Any
) -> Iterator[Any]:
    """A page; in the end it must have had no error, and have asked nobody but its own server.

    Args:
        browser: in which it is opened.
        url: of the page.
        expected: parts of messages that are no error here.
        origins: servers that it may ask.
        options: of the browser's context.
    """
    options = {"viewport": {"width": WIDTH, "height": HEIGHT}} | options
    context = browser.new_context(**options)
    problems: list[str] = []
    asked: set[str] = set()
    try:
        page = context.new_page()
        page.on(
            "console",
            lambda said: problems.append(said.text) if said.type in {"error", "warning"} else None,
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
        page.goto(url)
        yield page
    finally:
        context.close()
    assert [text for text in problems if not any(part in text for part in expected)] == []
    assert urlsplit(url).netloc in asked
    assert len(asked - {""}) <= origins, asked


def contrasts(page: Any) -> dict[str, float]:
    """The contrast of each piece of text that is seen, by its beginning, as WCAG counts it."""
    return dict(page.evaluate(_CONTRASTS))


_CONTRASTS = """() => {
  const channels = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    const [r, g, b] = found.slice(0, 3).map((value) => value * scale);
    return { rgb: [r, g, b], alpha: found.length > 3 ? found[3] : 1 };
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((value) => {
      const part = value / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const { rgb, alpha } = channels(getComputedStyle(each).backgroundColor);
      if (alpha > 0.99) return rgb;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility()) continue;
    if (element.closest("script, :disabled, .hidden, .skip")) continue;
    const style = getComputedStyle(element);
    const [one, other] = [light(channels(style.color).rgb), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    found.push([`${element.tagName} ${text.slice(0, 40)}`, ratio]);
  }
  return found;
}"""
