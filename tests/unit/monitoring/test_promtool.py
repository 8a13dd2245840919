"""Prometheus' own tool reads the rules and every query, and plays each alert from start to end."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.metric_catalogue import filled

from headway.monitoring import AlertSettings, alerts_of, dashboards, rules_text

ROOT = Path(__file__).parents[3]
ALERTS = Path(__file__).parent / "alerts"
RULES = ROOT / "deploy/prometheus/headway.rules.yaml"
NAMES = sorted({alert.name for alert in alerts_of()})
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool (Debian: apt install prometheus)"
)


def promtool(*arguments):
    """What it says; it must be content."""
    done = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_rules_are_read():
    """The committed file is one that Prometheus loads."""
    said = promtool("check", "rules", RULES)
    groups = yaml.safe_load(RULES.read_text())["groups"]
    assert f"{sum(len(group['rules']) for group in groups)} rules found" in said


@needs_promtool
def test_rules_with_links_are_read(tmp_path):
    """Addresses of dashboards have templates in them, which Prometheus reads as well."""
    path = tmp_path / "rules.yaml"
    path.write_text(rules_text(AlertSettings(grafana="https://grafana.example")))
    assert "SUCCESS" in promtool("check", "rules", path)


@needs_promtool
def test_scrape_settings_are_read(tmp_path):
    """The example is a whole file that Prometheus starts with."""
    for name in ("scrape.yaml", "headway.rules.yaml"):
        shutil.copy(RULES.parent / name, tmp_path)
    assert "SUCCESS" in promtool("check", "config", tmp_path / "scrape.yaml")


@needs_promtool
def test_queries_of_all_panels_are_read(tmp_path):
    """As expressions of rules, which the tool parses: variables of Grafana are filled in."""
    queries = [
        filled(query.expression)
        for page in dashboards()
        for panel in page.panels
        for query in panel.queries
    ]
    rules = [{"record": f"panel:{index}", "expr": query} for index, query in enumerate(queries)]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", path)


@needs_promtool
@pytest.mark.parametrize("name", NAMES)
def test_alert_fires_when_it_should_and_clears(name):
    """Its file of scenarios, in virtual time: silent before, fires, clears."""
    assert "SUCCESS" in promtool("test", "rules", ALERTS / f"{name}.yaml")


def test_every_alert_has_its_scenarios():
    """One that fires with its words and is silent again; no file is of an alert that is gone."""
    assert {path.stem for path in ALERTS.glob("*.yaml")} == set(NAMES)
    for name in NAMES:
        document = yaml.safe_load((ALERTS / f"{name}.yaml").read_text())
        first = document["tests"][0]["alert_rule_test"]
        assert [bool(step["exp_alerts"]) for step in first] == [False, True, False]
        assert {step["alertname"] for step in first} == {name}
        about = {label for alert in alerts_of() if alert.name == name for label in alert.about}
        for alert in first[1]["exp_alerts"]:
            assert set(alert["exp_annotations"]) == {"summary", "description", "runbook_url"}
            assert about <= set(alert["exp_labels"])
