"""What a set of Prometheus rules is made of: recordings, alerts, groups.

Knows the shape of a rule. Refuses to know what any of them is about, and how they are written down.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Alert", "Recording", "RuleGroup", "Severity"]


class Severity(StrEnum):
    """Who is to be told, and when."""

    CRITICAL = "critical"
    """Somebody, now: clients are being failed."""
    WARNING = "warning"
    """Somebody, in working hours: clients will be failed, or are by and by."""
    INFO = "info"
    """Nobody at once: capacity is wasted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """An expression that Prometheus evaluates once for all who ask."""

    name: str
    """`level:metric:operations`, the level being the labels that are left."""
    expression: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that an operator is told, as long as the expression yields anything."""

    name: str
    """Also that of its runbook page."""
    severity: Severity
    expression: str
    summary: str
    """One line, with the labels that tell one case from another."""
    description: str
    """What was measured, with its values, and what to look at first."""
    dashboard: str
    """The dashboard that shows more."""
    about: Sequence[str] = ()
    """Labels that the alert has and the dashboard can be narrowed to."""
    pending_ns: int = 0
    """How long the expression must hold."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What tells apart alerts of one name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGroup:
    """Rules that are evaluated one after the other, so that later ones see the earlier."""

    name: str
    rules: Sequence[Recording | Alert]

    @property
    def alerts(self) -> list[Alert]:
        """Those of them that tell somebody."""
        return [rule for rule in self.rules if isinstance(rule, Alert)]

    @property
    def recordings(self) -> list[Recording]:
        """Those of them that others look at."""
        return [rule for rule in self.rules if isinstance(rule, Recording)]
