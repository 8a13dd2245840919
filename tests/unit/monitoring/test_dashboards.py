"""The dashboards: every query asks for what is there, and the files are ones that Grafana takes."""

import json
import re
from itertools import combinations

import pytest
from tests.metric_catalogue import problems_of

from headway.monitoring import alerts_of, dashboard_text, dashboards, rule_groups

RECORDED = frozenset(rule.name for group in rule_groups() for rule in group.recordings)
PAGES = dashboards()
PANELS = [(page, panel) for page in PAGES for panel in page.panels]
NODES = {page.name: json.loads(dashboard_text(page, "docs/runbooks")) for page in PAGES}


@pytest.mark.parametrize(
    ("page", "panel"), PANELS, ids=[f"{page.name}/{panel.title}" for page, panel in PANELS]
)
def test_panel_asks_for_what_is_exported(page, panel):
    """Every query parses, names metrics and labels that exist, and variables that the page has."""
    assert panel.queries
    known = {variable.name for variable in page.variables} | {"__rate_interval", "__range"}
    for query in panel.queries:
        assert not list(problems_of(query.expression, RECORDED))
        assert set(re.findall(r"\$(\w+)", query.expression)) <= known


def test_variables_list_values_of_what_is_exported():
    """A choice is offered from a metric that has the label."""
    for page in PAGES:
        for variable in page.variables:
            assert not list(problems_of(f'{variable.metric}{{{variable.name}="x"}}', RECORDED))


def test_panels_asked_for_by_users_are_there():
    """What people ask other servers' dashboards for in vain."""
    titles = {panel.title for _, panel in PANELS}
    assert titles >= {
        "Queue depth by model and tier",
        "Oldest waiting request",
        "Attainment by tenant and tier",
        "Waiting requests by tenant and tier",
        "Attainment by pipeline and tier",
        "Not answered, by reason",
        "Rows of a batch",
        "Slots wasted, by reason",
        "Promotions of the starved",
        "Device memory of workers",
        "Estimated wait and queue delay",
        "Utilisation",
        "PCIe",
    }


def test_each_alert_is_shown_by_a_panel_and_each_named_one_exists():
    """Whoever is told something finds the picture of it, but for a server that is not there."""
    names = {alert.name for alert in alerts_of()}
    shown = {name for _, panel in PANELS for name in panel.alerts}
    assert shown == names - {"HeadwayNoServer", "HeadwayServerDown"}
    variables = {page.name: {variable.name for variable in page.variables} for page in PAGES}
    for alert in alerts_of():
        assert set(alert.about) <= variables[alert.dashboard], alert.name


@pytest.mark.parametrize("name", list(NODES))
def test_file_is_laid_out_for_grafana(name):
    """Ids are unique, panels lie on the grid and none over another, targets have letters."""
    node = NODES[name]
    assert node["uid"] == f"headway-{name}"
    panels = node["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    for panel in panels:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        letters = [target["refId"] for target in panel.get("targets", [])]
        assert letters == sorted(set(letters))
        assert all(
            target["datasource"] == panel["datasource"] for target in panel.get("targets", [])
        )
    for one, other in combinations(panels, 2):
        assert not _overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])
    named = {variable["name"] for variable in node["templating"]["list"]}
    assert named == {"source"} | {v.name for p in PAGES if p.name == name for v in p.variables}


@pytest.mark.parametrize("name", list(NODES))
def test_file_has_nothing_that_grafana_does_not_know(name):
    """Read and written again by Grafana's own model of its files, all of it is still there."""
    reason = "needs grafana-foundation-sdk, of the extra dev"
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason=reason)
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder", reason=reason)
    plugins = pytest.importorskip("grafana_foundation_sdk.cog.plugins", reason=reason)
    plugins.register_default_plugins()
    (page,) = [page for page in PAGES if page.name == name]
    node = json.loads(dashboard_text(page, "https://wiki.example.com/book"))
    read = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(node)))
    assert list(_lost(node, read)) == []
    node["panels"][1]["fieldConfig"]["defaults"]["units"] = "s"
    read = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(node)))
    assert list(_lost(node, read)) == ["/panels/1/fieldConfig/defaults/units"]


def _lost(before, after, path=""):
    """Where something of the first is not in the second, which may have more."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from _lost(value, after.get(key), f"{path}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _lost(one, other, f"{path}/{index}")
    elif before != after:
        yield path


def _overlap(one, other):
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )


def test_panels_link_to_runbooks_that_a_browser_can_open():
    """With an address each alert that a panel shows is a link; a path in a repository is none."""
    (page,) = [page for page in PAGES if page.name == "overview"]
    linked = json.loads(dashboard_text(page, "https://wiki.example.com/book/"))
    urls = [link["url"] for panel in linked["panels"] for link in panel.get("links", [])]
    assert "https://wiki.example.com/book/HeadwayQueueOld.md" in urls
    (table,) = [panel for panel in linked["panels"] if panel["type"] == "table"]
    assert "https://wiki.example.com/book/${__value.raw}.md" in json.dumps(table["fieldConfig"])
    for panel in NODES["overview"]["panels"]:
        assert "links" not in panel
        assert not panel.get("fieldConfig", {}).get("overrides")
