"""The pictures of the web page in the documentation, taken of a real run.

Starts `headway demo --ui`, waits until both policies have played, and takes pictures of its page
and of the page of the server that plays, in both themes. Needs the extra `demo`, Playwright and the
system's Chromium.

Usage: python tools/screenshots.py [--seconds 30] [--seed 1] [--folder docs/images]
"""

import argparse
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS: Final = 240_000
VERDICT: Final = re.compile("answers? (more|less|as much) in time")
WIDTH, HEIGHT = 1320, 900


@contextmanager
def demo(seconds: int, seed: int) -> Iterator[str]:
    """The demo, and where its page is."""
    command = [sys.executable, "-m", "headway", "demo", "--ui"]
    command += ["--seconds", str(seconds), "--seed", str(seed)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"The page: (http://\S+)", line):
                    yield found[1]
                    return
            raise SystemExit("the demo ended before it had a page")
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def browser() -> Iterator[Browser]:
    """The system's own; none is fetched."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise SystemExit("no Chromium here: apt-get install chromium")
    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


def opened(window: Browser, url: str, theme: str) -> Page:
    """A page, in a context of its own."""
    size = {"width": WIDTH, "height": HEIGHT}
    page = window.new_context(viewport=size, color_scheme=theme).new_page()  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    return page


def plays(duel: Page, seconds: int) -> None:
    """Wait until headway's turn is so old."""
    duel.wait_for_function(
        """(seconds) => {
          const said = document.querySelector('#side-1 .chip.now')?.innerText ?? '';
          return Number(said.match(/plays, (\\d+) of/)?.[1] ?? 0) >= seconds;
        }""",
        arg=seconds,
    )


def shoot(window: Browser, url: str, folder: Path, turn_s: int) -> list[Path]:
    """All pictures."""
    taken = []
    duel = opened(window, url, "light")
    duel.get_by_text(VERDICT).wait_for()
    plays(duel, turn_s // 3)
    taken.append(picture(duel, folder / "ui-duel.png"))
    server_url = duel.get_by_role("link", name="headway").get_attribute("href")
    assert server_url is not None
    for theme in ("light", "dark"):
        page = opened(window, server_url, theme)
        page.wait_for_selector("#whatif-model option", state="attached")
        plays(duel, turn_s - 3)
        page.select_option("#whatif-model", index=0)
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector("#whatif-answer p")
        taken.append(picture(page, folder / f"ui-{theme}.png"))
    return taken


def picture(page: Page, path: Path) -> Path:
    """The whole page."""
    page.screenshot(path=path, full_page=True)
    return path


def main() -> int:
    """Take them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30, help="as of headway demo")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("docs/images"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with demo(arguments.seconds, arguments.seed) as url, browser() as window:
        for path in shoot(window, url, arguments.folder, arguments.seconds // 2):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
