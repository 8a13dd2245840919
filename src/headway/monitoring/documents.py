"""Rules and scrape settings as the files that Prometheus and its operator for Kubernetes read.

Knows those formats. Sole home of YAML in this folder.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import yaml

from headway.monitoring.promql import window
from headway.monitoring.rule import Alert, Recording, RuleGroup
from headway.monitoring.rules import rule_groups
from headway.monitoring.settings import AlertSettings

__all__ = ["Form", "rules_text", "scrape_text"]

_NOTICE: Final = (
    "# Written by `headway monitoring {verb}`. Do not edit: give its flags other values.\n"
)
_NAME: Final = "headway"
_ADMIN_PORT: Final = "http"
"""What a Service calls the port with `/metrics`."""

Document = Mapping[str, Any]


class Form(StrEnum):
    """Who reads the file."""

    PROMETHEUS = "prometheus"
    KUBERNETES = "kubernetes"


def rules_text(settings: AlertSettings, form: Form = Form.PROMETHEUS) -> str:
    """The rules: a file for `rule_files`, or a `PrometheusRule`."""
    groups = {"groups": [_group(group, settings) for group in rule_groups(settings)]}
    if form is Form.PROMETHEUS:
        return _text(groups, "rules")
    return _text(_resource("PrometheusRule", groups), "rules --as kubernetes")


def scrape_text(settings: AlertSettings, targets: Sequence[str], form: Form) -> str:
    """How the servers are found: a part of `prometheus.yml`, or a `ServiceMonitor`.

    Args:
        settings: for the name of the job.
        targets: `host:port` of each server; a `ServiceMonitor` finds them by their labels.
        form: who reads it.
    """
    if form is Form.PROMETHEUS:
        job = {
            "job_name": settings.job,
            "scrape_interval": "15s",
            "static_configs": [{"targets": list(targets)}],
        }
        document = {"rule_files": ["headway.rules.yaml"], "scrape_configs": [job]}
        return _text(document, "scrape")
    spec = {
        # The job is named by this label of the Service, as the rules expect it.
        "jobLabel": "app.kubernetes.io/name",
        "selector": {"matchLabels": {"app.kubernetes.io/name": settings.job}},
        "endpoints": [{"port": _ADMIN_PORT, "path": "/metrics", "interval": "15s"}],
    }
    return _text(_resource("ServiceMonitor", spec), "scrape --as kubernetes")


def _group(group: RuleGroup, settings: AlertSettings) -> Document:
    rules = [
        _alert(rule, settings) if isinstance(rule, Alert) else _recording(rule)
        for rule in group.rules
    ]
    return {"name": group.name, "rules": rules}


def _recording(rule: Recording) -> Document:
    labels = {"labels": dict(rule.labels)} if rule.labels else {}
    return {"record": rule.name, "expr": rule.expression, **labels}


def _alert(rule: Alert, settings: AlertSettings) -> Document:
    annotations = {
        "summary": rule.summary,
        "description": rule.description,
        "runbook_url": f"{settings.runbooks.rstrip('/')}/{rule.name}.md",
    }
    if settings.grafana:
        annotations["dashboard_url"] = _dashboard(rule, settings.grafana.rstrip("/"))
    pending = {"for": window(rule.pending_ns)} if rule.pending_ns else {}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **pending,
        "labels": {"severity": str(rule.severity), **rule.labels},
        "annotations": annotations,
    }


def _dashboard(rule: Alert, grafana: str) -> str:
    """Its address, with what the alert is about chosen there; Prometheus fills in the labels."""
    chosen = [f"var-{label}={{{{ $labels.{label} | urlquery }}}}" for label in rule.about]
    return "?".join(filter(None, (f"{grafana}/d/headway-{rule.dashboard}", "&".join(chosen))))


def _resource(kind: str, spec: Document) -> Document:
    """An object of Prometheus' operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": kind,
        "metadata": {"name": _NAME, "labels": {"app.kubernetes.io/name": _NAME}},
        "spec": spec,
    }


class _Dumper(yaml.SafeDumper):
    """Writes expressions of several lines as they were written."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _block)


def _text(document: Document, verb: str) -> str:
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    return _NOTICE.format(verb=verb) + body
