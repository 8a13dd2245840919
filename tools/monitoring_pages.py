"""The generated files about watching a server: rules, dashboards, and the page that lists both.

Knows `headway.monitoring`; `gen_docs.py` writes and compares what comes from here.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from headway.cli.monitoring_rules import flag_of, written
from headway.monitoring import (
    AlertSettings,
    Form,
    alerts_of,
    dashboard_text,
    dashboards,
    rule_groups,
    rules_text,
    scrape_text,
    settings_of,
)

Table = Callable[[tuple[str, ...], Sequence[tuple[str, ...]]], str]

INTRODUCTION = """\
What `headway monitoring rules` and `headway monitoring dashboards` write, and what is committed
under `deploy/`. [Watch a server](../guides/monitoring.md) says how to use it."""


def files() -> Mapping[str, Callable[[], str]]:
    """Makers of every file under deploy/, by its path from the root."""
    settings = AlertSettings()
    targets = ["localhost:8000"]
    grafana = {
        f"deploy/grafana/headway-{each.name}.json": lambda each=each: dashboard_text(
            each, settings.runbooks
        )
        for each in dashboards()
    }
    return {
        "deploy/prometheus/headway.rules.yaml": lambda: rules_text(settings, Form.PROMETHEUS),
        "deploy/prometheus/scrape.yaml": lambda: scrape_text(settings, targets, Form.PROMETHEUS),
        "deploy/kubernetes/prometheusrule.yaml": lambda: rules_text(settings, Form.KUBERNETES),
        "deploy/kubernetes/servicemonitor.yaml": lambda: scrape_text(
            settings, targets, Form.KUBERNETES
        ),
        **grafana,
    }


def blocks(table: Table) -> list[str]:
    """The parts of the reference page."""
    return [
        INTRODUCTION,
        "## Alerts",
        table(("alert", "severity", "what is so", "summary"), _alert_rows()),
        "## Settings",
        "Flags of `headway monitoring rules`, and why each default is what it is.",
        table(("flag", "default", "meaning"), _setting_rows()),
        "## Recordings",
        "What alerts and dashboards read, evaluated once.",
        table(("recording", "expression"), _recording_rows()),
        "## Dashboards",
        table(("dashboard", "panel", "what it shows"), _panel_rows()),
    ]


def _alert_rows() -> list[tuple[str, ...]]:
    return [
        (
            f"[{alert.name}](../runbooks/{alert.name}.md)",
            str(alert.severity),
            f"`{' '.join(alert.expression.split())}`",
            _readable(alert.summary),
        )
        for alert in alerts_of()
    ]


def _readable(summary: str) -> str:
    """A template's labels as words: `{{ $labels.tier }}` as *tier*."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"*\1*", summary)


def _setting_rows() -> list[tuple[str, ...]]:
    return [
        (f"`{flag_of(setting.name)}`", f"`{written(setting)}`", setting.why)
        for setting in settings_of()
    ]


def _recording_rows() -> list[tuple[str, ...]]:
    rules = [rule for group in rule_groups() for rule in group.recordings]
    return [
        (
            f"`{rule.name}`" + "".join(f" `{k}={v}`" for k, v in rule.labels.items()),
            f"`{' '.join(rule.expression.split())}`",
        )
        for rule in rules
    ]


def _panel_rows() -> list[tuple[str, ...]]:
    return [(each.name, panel.title, panel.says) for each in dashboards() for panel in each.panels]
