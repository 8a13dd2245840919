"""The page of a real server in a real browser: what it shows, and what can be done on it.

The server's devices are emulated, so that a busy one costs this machine little.
"""

import contextlib
import re
import signal
import subprocess
import sys

import pytest
from tests.e2e import busy
from tests.e2e.browser import contrasts, launched, opened
from tests.e2e.server import free_port, serving, wait_until

from headway.tenancy import hash_of

pytestmark = pytest.mark.timeout(120)

ADMIN_KEY = "hwk_page_admin"
CONTRAST_MIN = 4.5
"""Of text on its background, as WCAG's level AA has it."""
LOST = "net::ERR"
"""What a browser says of a server that is away."""


def a_model(name, solo, **settings):
    return {
        "name": name,
        "options": {"solo": solo, "row": "1ms"},
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
        **settings,
    }


CONFIG = {
    "server": {"port": 0, "grace": "1s"},
    "devices": [{"name": "gpu:0", "kind": "emulated", "accelerator": "small"}],
    "tiers": {
        "live": {"priority": 0, "budget": "500ms"},
        "bulk": {"priority": 5, "budget": "2s", "slot_class": "low"},
    },
    "policy": {"kind": "headway", "shares": {"night-job": 2.0}},
    "models": [
        a_model("quick", "4ms", tier="live", batch={"rows_max": 4}),
        a_model("slow", "60ms", tier="bulk", batch={"rows_max": 1}, queue={"requests_max": 1}),
    ],
}


@pytest.fixture(scope="module")
def browser():
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One that is busy, for all that only look at it."""
    with serving(tmp_path_factory.mktemp("busy"), CONFIG) as found:
        load = subprocess.Popen([sys.executable, busy.__file__, str(found.port)])
        try:
            yield found
        finally:
            load.kill()
            load.wait()


@contextlib.contextmanager
def looking(server, browser, **options):
    """Its page, which is live."""
    with opened(browser, f"http://127.0.0.1:{server.port}/ui", **options) as page:
        is_live(page)
        yield page


def text_of(page, selector):
    return page.locator(selector).inner_text()


def has_text(page, selector, pattern):
    """Until an element says so."""
    page.wait_for_function(
        "([selector, pattern]) =>"
        " new RegExp(pattern).test(document.querySelector(selector)?.innerText ?? '')",
        arg=[selector, pattern],
        timeout=20_000,
    )


def is_live(page):
    has_text(page, "#status-words", "^Live$")


def test_page_shows_what_a_busy_server_does(server, browser):
    """Tiers, queues, slots, predictions, tenants and refusals, each with what the load does."""
    assert f"page on http://127.0.0.1:{server.port}/ui" in server.log()
    with looking(server, browser) as page:
        has_text(page, '[data-tier="live"] .value', r"^\d.* %$")
        has_text(page, "#reasons", "the model's queue is full")
        assert "bulk" in text_of(page, "#tiers")
        assert page.locator("#emulated").is_visible()
        has_text(page, "#queues", r"slow\s+bulk\s+\d")
        has_text(page, "#refusals", r"slow\s+bulk\s+the model's queue is full")
        has_text(page, "#tenants", r"night-job\s+[\d.]+ %\s+50\.0 %")
        has_text(page, "#coverage", r"Batches\s+[\d.]+ % of \d+ bounds held")
        page.wait_for_selector("#calibration canvas")
        page.wait_for_selector("#history canvas")
        wait_until(lambda: "took longer" in label_of(page, "#calibration"), "it is told")
        wait_until(lambda: painted(page, "#slots canvas") > 8, "batches are drawn")
        assert busy.MARKUP in text_of(page, "#tenants"), "a name is shown as it is"
        page.get_by_text("What runs now, as a table").click()
        has_text(page, "#running", r"gpu:0 \d\s+slow\s+bulk\s+1")


def label_of(page, selector):
    return page.locator(selector).get_attribute("aria-label")


def painted(page, selector):
    """How many colours a picture has."""
    return page.eval_on_selector(
        selector,
        """(canvas) => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const seen = new Set();
          for (let at = 0; at < data.length; at += 4) seen.add(data.slice(at, at + 3).join());
          return seen.size;
        }""",
    )


def test_slots_move_and_can_be_stopped(server, browser):
    """The picture changes by itself; paused it does not, and says that it is."""
    with looking(server, browser) as page:
        picture = "() => document.querySelector('#slots canvas').toDataURL()"
        wait_until(lambda: painted(page, "#slots canvas") > 8, "batches are drawn")
        first = page.evaluate(picture)
        wait_until(lambda: page.evaluate(picture) != first, "it moves")
        page.get_by_role("button", name="Pause").click()
        assert page.locator("#slots-pause").get_attribute("aria-pressed") == "true"
        frames = "() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 100))"
        page.evaluate(frames)
        first = page.evaluate(picture)
        page.evaluate(frames)
        assert page.evaluate(picture) == first


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(server, browser, theme):
    """As the system says at first; every text stands out from what is behind it."""
    with looking(server, browser, color_scheme=theme) as page:
        has_text(page, "#reasons", "full")
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        page.fill("#whatif-budget", "0.5")
        page.get_by_role("button", name="Ask").click()
        has_text(page, "#whatif-answer", ".")
        found = contrasts(page)
        assert len(found) > 60
        assert {text: ratio for text, ratio in found.items() if ratio < CONTRAST_MIN} == {}


def test_theme_that_was_chosen_is_kept(server, browser):
    """Also after the page is opened anew."""
    with looking(server, browser, color_scheme="light") as page:
        page.get_by_role("button", name="Dark").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.locator("#theme").get_attribute("aria-pressed") == "true"


def test_page_is_used_with_the_keyboard_alone(server, browser):
    """Every control is reached in turn and is seen to be; a question is asked without a mouse."""
    with looking(server, browser) as page:
        has_text(page, "#models", "quick")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        reached = []
        for _ in range(80):
            page.keyboard.press("Tab")
            at = page.evaluate(
                """() => {
                  const at = document.activeElement;
                  const { action, model } = at.dataset;
                  const name = at.id || (action ? `${action} ${model}` : at.textContent.trim());
                  return [at.tagName, name, getComputedStyle(at).outlineStyle];
                }"""
            )
            if at[0] == "BODY":
                break
            reached.append(at)
        assert {style for _, _, style in reached} == {"solid"}
        names = [name for _, name, _ in reached]
        wanted = ["theme", "slots-span", "slots-pause", "reload quick", "unload quick"]
        wanted += ["whatif-model", "whatif-budget", "Ask", "Metrics", "Timeline for Perfetto"]
        assert [name for name in names if name in wanted] == wanted
        page.locator("#whatif-model").focus()
        page.keyboard.type("slow")
        for _ in range(3):
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "whatif-budget"
        page.keyboard.type("1900")
        page.keyboard.press("Enter")
        has_text(page, "#whatif-answer", "(let in|no place)")
        assert page.evaluate("document.activeElement.id") == "whatif-budget"


def test_page_says_what_it_is_to_who_does_not_see_it(server, browser):
    """Regions, tables, pictures and fields have names, and what changes is told."""
    with looking(server, browser) as page:
        for name in (
            "Deadlines kept",
            "Slots",
            "Queues",
            "Predictions",
            "Tenants",
            "No answer",
            "Models",
            "What if this request came now?",
        ):
            assert page.get_by_role("region", name=name, exact=True).count() >= 1, name
            assert page.get_by_role("heading", name=name, exact=True).count() == 1, name
        for field in ("Admin key", "Model", "Rows", "Tier", "Budget, ms", "Priority", "Show"):
            assert page.get_by_label(field, exact=True).count() == 1, field
        assert page.get_by_role("img", name="Timeline of the slots").count() == 1
        assert page.get_by_role("button", name="Unload quick").count() == 1
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("button, input, select, a, [role=img]")]
              .filter((each) => !(each.textContent.trim() || each.labels?.length
                || each.getAttribute("aria-label"))).map((each) => each.outerHTML)"""
        )
        assert unnamed == []
        assert page.locator("html").get_attribute("lang") == "en"


def test_question_is_answered_with_its_reason(server, browser):
    """Whether it would be in time, what is expected, and why."""
    with looking(server, browser) as page:
        page.select_option("#whatif-model", "quick")
        page.get_by_role("button", name="Ask").click()
        has_text(page, "#whatif-answer", "answered (probably )?in time")
        assert re.search(r"Expected after [\d.]+ ms, at most", text_of(page, "#whatif-answer"))
        assert "due after 500 ms (tier live)" in text_of(page, "#whatif-answer")
        page.fill("#whatif-budget", "1")
        page.get_by_role("button", name="Ask").click()
        has_text(page, "#whatif-answer", "(would get no place|too late)")
        assert page.locator("#whatif-answer").get_attribute("data-state") == "bad"


def test_models_are_managed_with_the_admin_key(tmp_path, browser):
    """Nothing is shown before it is typed; a wrong one is told so; then a model goes and comes."""
    admin = {"keys": [{"hash": hash_of(ADMIN_KEY)}]}
    config = CONFIG | {"server": CONFIG["server"] | {"admin": admin}}
    with serving(tmp_path, config) as server:
        url = f"http://127.0.0.1:{server.port}/ui"
        with opened(browser, url, expected=("401",)) as page:
            has_text(page, "#status-words", "Locked")
            has_text(page, "#problem", "key for management")
            assert page.evaluate("document.activeElement.id") == "key"
            page.keyboard.type("hwk_wrong")
            page.keyboard.press("Enter")
            has_text(page, "#problem", "key")
            assert text_of(page, "#models") == ""
            page.fill("#key", "“hwk”")
            page.keyboard.press("Enter")
            has_text(page, "#problem", "no key")
            page.fill("#key", ADMIN_KEY)
            page.keyboard.press("Enter")
            is_live(page)
            assert page.locator("#key-form").is_hidden()
            assert page.locator("#key").input_value() == "", "nothing of it is left on the page"
            assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]
            assert page.evaluate("document.activeElement.id") == "main"
            page.get_by_role("button", name="Unload quick").focus()
            page.keyboard.press("Enter")
            has_text(page, "#models-result", "Unload quick: done")
            has_text(page, "#models", r"quick\s+○ unavailable")
            focused = (
                "[document.activeElement.dataset.action, document.activeElement.dataset.model]"
            )
            wait_until(
                lambda: page.evaluate(focused) == ["load", "quick"], "the focus is given back"
            )
            assert server.state_of("quick") == "UNAVAILABLE"
            page.get_by_role("button", name="Load quick").click()
            has_text(page, "#models", r"quick\s+version \d\s+● ready")
            page.get_by_role("button", name="Reload slow").click()
            has_text(page, "#models-result", "Reload slow: done")
            with page.expect_download() as download:
                page.get_by_role("link", name="Last steps as a journal").click()
            assert b'"headway"' in download.value.path().read_bytes()[:4000]


def test_page_finds_a_server_that_came_back(tmp_path, browser):
    """It says that the server is away, tries again, and begins anew with the next one."""
    port = free_port()
    config = CONFIG | {"server": CONFIG["server"] | {"port": port}}
    url = f"http://127.0.0.1:{port}/ui"
    with contextlib.ExitStack() as stack:
        with serving(tmp_path, config) as server:
            page = stack.enter_context(opened(browser, url, expected=(LOST,)))
            is_live(page)
            server.signal(signal.SIGTERM)
            assert server.exit_code() == 0
            has_text(page, "#status-words", "Lost, trying again")
            picture = "document.querySelector('#slots canvas').toDataURL()"
            later = "new Promise((done) => setTimeout(done, 200))"
            wait_until(lambda: stands_still(page, picture, later), "time stands still")
        with serving(tmp_path, config):
            is_live(page)
            assert page.locator("#problem").is_hidden()


@pytest.mark.parametrize("width", [360, 800])
def test_page_fits_a_narrow_window(server, browser, width):
    """Nothing is cut off: tables that are too wide scroll by themselves."""
    viewport = {"width": width, "height": 800}
    with looking(server, browser, viewport=viewport) as page:
        has_text(page, "#reasons", "full")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        lists = "['#reasons', '#refusals'].map((each) => document.querySelector(each).offsetLeft)"
        assert len(set(page.evaluate(lists))) == 1, "one below the other"


def test_page_that_is_open_for_long_keeps_little(server, browser):
    """What it remembers is bounded: elements do not become more while the server works."""
    with looking(server, browser) as page:
        has_text(page, "#refusals", "full")
        counted = "document.querySelectorAll('*').length"
        wait_until(lambda: page.locator("#refusals tbody tr").count() == 20, "it is full")
        before = page.evaluate(counted)
        began_s = uptime_s(page)
        wait_until(lambda: uptime_s(page) > began_s + 3, "six more events have come")
        assert page.evaluate(counted) < before + 30


def uptime_s(page):
    """How long the server has been up, as the page says, within its first hour."""
    *minutes, seconds = map(float, re.findall(r"[\d.]+", text_of(page, "#uptime")))
    return seconds + 60 * sum(minutes)


def stands_still(page, picture, later):
    """Whether a picture is the same a moment later."""
    before = page.evaluate(picture)
    page.evaluate(later)
    return page.evaluate(picture) == before


def test_few_slots_beside_many_queues_leave_little_empty(tmp_path, browser):
    """Rows of slots grow to the height of the queues; these are scrolled where they are many."""
    names = [f"model-{index}" for index in range(12)]
    models = [a_model(name, "1ms", tier="live", batch={"rows_max": 4}) for name in names]
    with serving(tmp_path, CONFIG | {"models": models}) as server, looking(server, browser) as page:
        before_px = page.evaluate("document.querySelector('#slots canvas').clientHeight")
        row = [[1.0, 1.0, 1.0, 1.0]]
        for name in names:
            assert server.infer(name, row).status == 200
        wait_until(lambda: page.locator("#queues tbody tr").count() == 12, "all are shown")
        empty = """() => {
          const box = (selector) => document.querySelector(selector).getBoundingClientRect();
          const canvas = box("#slots canvas");
          return [box("#slots").bottom - canvas.bottom, canvas.height, box(".queues-card").height];
        }"""
        wait_until(lambda: page.evaluate(empty)[1] > before_px, "rows have grown")
        below_px, _, queues_px = page.evaluate(empty)
        assert below_px < 60
        assert queues_px < 480
        assert page.locator("#queues").evaluate("(each) => each.closest('.scroll').tabIndex") == 0
