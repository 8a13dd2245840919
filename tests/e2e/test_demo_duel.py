"""`headway demo --ui` as its user runs it: two policies, and a page that tells what changes.

Apart from the other tests of the demo, for its servers live as long as any test here looks at them.
"""

import json
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest
from tests.e2e.browser import contrasts, launched, opened
from tests.e2e.demos import processes_that_name, started_demo, with_models
from tests.e2e.server import wait_until

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models")
pytest.importorskip("aiohttp", reason="aiohttp makes the load")
pytest.importorskip("matplotlib", reason="matplotlib draws the plot")

pytestmark = pytest.mark.timeout(120)

COMPARISON = re.compile("answers? (more|less|as much) in time")
UI = ("--ui", "--seconds", "4", "--seed", "3")


def page_url(demo: "subprocess.Popen[str]") -> str:
    """Where it says that its page is."""
    assert demo.stderr is not None
    for line in demo.stderr:
        if found := re.search(r"The page: (http://\S+)", line):
            return found[1]
    pytest.fail("it never said where its page is")


def story_at(url: str) -> dict:
    with urllib.request.urlopen(f"{url}/story", timeout=20) as answer:
        return json.load(answer)


def has_compared(story: dict) -> bool:
    return bool(story["verdict"]) and all(side["turns"] for side in story["sides"])


@pytest.fixture(scope="module")
def duel_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A demo with a page, for all that look at it; told to end, it does so in order."""
    cache = with_models(tmp_path_factory.mktemp("cache"))
    with started_demo(cache, *UI, "--against", "priority") as demo:
        url = page_url(demo)
        assert story_at(url)["phase"] == "preparing"
        wait_until(lambda: has_compared(story_at(url)), "both have played", within_s=90)
        yield url
        demo.send_signal(signal.SIGTERM)
        _, err = demo.communicate(timeout=30)
    assert demo.returncode == 0, err
    assert COMPARISON.search(err)
    assert processes_that_name(cache) == []


def test_demo_with_a_page_has_both_policies_play(duel_url: str) -> None:
    """Both get requests of every tier, and each request has one fate."""
    story = story_at(duel_url)
    first, second = story["sides"]
    assert (first["policy"], second["policy"]) == ("priority", "headway")
    assert [tier["name"] for tier in story["tiers"]] == ["speech", "standard"]
    for side in story["sides"]:
        for tally in side["tallies"].values():
            kinds = ("in_time", "late", "refused", "given_up", "failed")
            assert sum(tally[kind] for kind in kinds) == tally["requests"] > 0


def test_page_of_the_demo_tells_what_changes(duel_url: str) -> None:
    """In a browser: two policies with their tiers and slots, and a sentence that compares them."""
    with launched() as browser, opened(browser, duel_url, origins=3) as page:
        page.locator("#verdict", has_text=COMPARISON).wait_for()
        for index, policy in enumerate(("priority", "headway")):
            side = page.locator(f"#side-{index}")
            assert side.get_by_role("heading", name=policy).is_visible()
            assert re.search(r"speech\s+[\d.]+ %\s+[\d\s]+ in time", side.inner_text())
            assert side.get_by_role("img", name="Timeline of the slots").count() == 1
            assert side.get_by_role("link").get_attribute("href").endswith("/ui")
        page.wait_for_selector(".bounds strong")
        assert min(contrasts(page).values()) >= 4.5
