"""All rules in their order."""

from headway.monitoring.deadline_rules import deadline_rules, queue_rules
from headway.monitoring.machine_rules import (
    device_rules,
    scheduler_rules,
    server_rules,
    worker_rules,
)
from headway.monitoring.predictor_rules import predictor_rules
from headway.monitoring.rule import Alert, RuleGroup
from headway.monitoring.settings import AlertSettings

__all__ = ["alerts_of", "rule_groups"]


def rule_groups(settings: AlertSettings | None = None) -> list[RuleGroup]:
    """Every group of rules; those about deadlines come first, for others read what they record."""
    settings = settings or AlertSettings()
    return [
        deadline_rules(settings),
        queue_rules(settings),
        device_rules(settings),
        worker_rules(settings),
        predictor_rules(settings),
        scheduler_rules(settings),
        server_rules(settings),
    ]


def alerts_of(settings: AlertSettings | None = None) -> list[Alert]:
    """Every alert, in the order of the groups; several may share a name."""
    return [alert for group in rule_groups(settings) for alert in group.alerts]
