"""The runbook: a page for each alert, and nothing in it that does not exist."""

import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.metric_catalogue import problems_of

from headway.cli import VERBS, parser_of
from headway.monitoring import alerts_of, dashboards, rule_groups

ROOT = Path(__file__).parents[3]
BOOK = ROOT / "docs/runbooks"
GUIDE = ROOT / "docs/guides/monitoring.md"
PAGES = sorted(path for path in BOOK.glob("*.md") if path.name != "index.md")
HTTP = (ROOT / "docs/reference/http.md").read_text("utf-8")
CONFIG = (ROOT / "docs/reference/config.md").read_text("utf-8")
RECORDED = frozenset(rule.name for group in rule_groups() for rule in group.recordings)
ALERTS = {alert.name: alert for alert in reversed(alerts_of())}
"""Of those of one name the first, which is the gravest."""
TITLES = {f"{page.name}: {panel.title}" for page in dashboards() for panel in page.panels}
FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def blocks_of(page, language):
    """Fenced blocks of one language."""
    return [text for kind, text in FENCE.findall(page.read_text("utf-8")) if kind == language]


def test_each_alert_has_its_page_and_each_page_its_alert():
    """Both ways, and the index names them all with their severities."""
    assert {page.stem for page in PAGES} == set(ALERTS)
    index = (BOOK / "index.md").read_text("utf-8")
    for name in ALERTS:
        (row,) = re.findall(rf"^\| \[{name}\]\({name}\.md\) \| ([\w, ]+) \|", index, re.MULTILINE)
        assert set(row.split(", ")) == {str(a.severity) for a in alerts_of() if a.name == name}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_answers_the_same_questions(page):
    """What it means, where to look, why it is, what helps, and how to quiet it."""
    text = page.read_text("utf-8")
    assert text.startswith(f"# {page.stem}\n\n{str(ALERTS[page.stem].severity).capitalize()}")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Look first", "Likely causes", "When it is expected"]
    assert len(re.findall(r"^\| .+ \|$", text, re.MULTILINE)) > 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_queries_of_a_page_ask_for_what_is_exported(page):
    """They can be pasted into Prometheus and find something."""
    queries = blocks_of(page, "promql")
    assert queries or page.stem == "HeadwayServerDown"
    for query in queries:
        assert not list(problems_of(query, RECORDED)), query


@pytest.mark.parametrize("page", [*PAGES, GUIDE], ids=lambda page: page.stem)
def test_panels_of_a_page_exist(page):
    """A panel in bold, `dashboard: title`, is one of that dashboard."""
    text = " ".join(page.read_text("utf-8").split())
    named = set(re.findall(r"\*\*(\w+: [^*]+)\*\*", text))
    assert named <= TITLES
    assert named or page.stem == "HeadwayNoServer"


def commands():
    """Command lines of the pages and of the guide, and verbs named in passing."""
    for page in [*PAGES, GUIDE]:
        for block in blocks_of(page, "console"):
            for line in block.splitlines():
                if line.strip().startswith("$ "):
                    yield page.stem, line.strip()[2:]
        for line in re.findall(r"`(headway [^`]+)`", page.read_text("utf-8")):
            yield page.stem, line


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_command_of_a_page_exists(page, line):
    """Its verb is one, and a whole command line one that its parser takes; or a server has it."""
    program, *words = shlex.split(line.partition(" > ")[0])
    if program == "curl":
        path = urlsplit(words[-1]).path
        assert f"`{path}`" in HTTP, path
        return
    assert program == "headway"
    verb = next((name for name in (" ".join(words[:2]), words[0]) if name in VERBS), None)
    assert verb is not None, line
    arguments = words[len(verb.split()) :]
    if arguments:
        assert parser_of(verb).parse_args(arguments) is not None


@pytest.mark.parametrize("page", [*PAGES, GUIDE], ids=lambda page: page.stem)
def test_settings_of_a_page_exist(page):
    """A setting is written as the reference writes it: its section and its name."""
    sections = re.findall(r"^## `([^`]+)`$", CONFIG, re.MULTILINE)
    roots = "|".join(sorted({re.split(r"[.\[ ]", section)[0] for section in sections}))
    text = page.read_text("utf-8")
    for written in re.findall(
        rf"`((?:{roots})(?:\[\]|\.NAME)?(?: of kind \w+)?\.[\w.\[\]]+)`", text
    ):
        section, _, name = written.rpartition(".")
        assert section in sections, written
        part = CONFIG.partition(f"## `{section}`\n")[2].partition("\n## ")[0]
        assert f"\n| `{name}` |" in part, written


@pytest.mark.parametrize("page", [*PAGES, BOOK / "index.md", GUIDE], ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page):
    """Every relative link is a file."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target
