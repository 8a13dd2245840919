"""What watches a server from outside: Prometheus rules and Grafana dashboards, written as files.

Knows the names of metrics, what they mean together and when somebody should be told. Must never
import a live server, nor what counts: it sees what Prometheus sees. Sole home of YAML beside
`config`.
"""

from headway.monitoring.dashboard import Dashboard, Panel
from headway.monitoring.dashboards import dashboards
from headway.monitoring.documents import Form, rules_text, scrape_text
from headway.monitoring.grafana import dashboard_text
from headway.monitoring.rule import Alert, Recording, RuleGroup, Severity
from headway.monitoring.rules import alerts_of, rule_groups
from headway.monitoring.settings import AlertSettings, Setting, settings_of

__all__ = [
    "Alert",
    "AlertSettings",
    "Dashboard",
    "Form",
    "Panel",
    "Recording",
    "RuleGroup",
    "Setting",
    "Severity",
    "alerts_of",
    "dashboard_text",
    "dashboards",
    "rule_groups",
    "rules_text",
    "scrape_text",
    "settings_of",
]
