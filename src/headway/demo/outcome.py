"""What came of the turns, in numbers, in a sentence, and as a document for programs.

Pure. Knows summaries. Never a terminal.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headway.core import TierName
from headway.demo.checks import CheckResult
from headway.report import GroupSummary, Summary
from headway.units import NS_PER_MS
from headway.workload import Sample

__all__ = ["DemoResult", "Turn", "in_words", "percent"]

_NOTICEABLE_RATIO: Final = 0.01
"""A smaller change of a tier's violations is not worth a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One policy under the load."""

    policy: str
    runs: Sequence[Sequence[Sample]]
    """What was sent and came back, stint by stint."""
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """Everything that was seen."""

    command: str
    machine: str
    date: str
    seed: int
    core_count: int
    """Cores that served."""
    port: int
    """Of the configuration that was kept."""
    solo_ns: Mapping[str, int]
    budgets_ns: Mapping[TierName, int]
    capacity_rps: float
    """Requests of the mix that were done a second with the next one always waiting."""
    offered_rps: float
    load_ratio: float
    """Offered over capacity."""
    checks: Sequence[CheckResult]
    turns: Sequence[Turn]
    others_cores: Mapping[str, float | None]
    """Cores that other programs kept busy while this machine was measured, and in each turn."""

    @property
    def has_passed(self) -> bool:
        """Whether every answer was right."""
        return all(check.passed for check in self.checks)

    def document(self) -> dict[str, object]:
        """Plain values; a row for each tier and policy."""
        return {
            "name": "demo",
            "command": self.command,
            "machine": self.machine,
            "date": self.date,
            "emulated": False,
            "seed": self.seed,
            "cores": self.core_count,
            "capacity_rps": round(self.capacity_rps, 2),
            "offered_rps": round(self.offered_rps, 2),
            "load_ratio": round(self.load_ratio, 3),
            "solo_ms": {name: _ms(ns) for name, ns in self.solo_ns.items()},
            "checks": [
                {"name": c.name, "passed": c.passed, "seen": c.seen, "expected": c.expected}
                for c in self.checks
            ],
            "others_cores": {
                phase: None if cores is None else round(cores, 2)
                for phase, cores in self.others_cores.items()
            },
            "rows": [
                {"policy": turn.policy, "tier": str(tier)} | _row(group)
                for turn in self.turns
                for tier, group in turn.summary.tiers.items()
            ],
        }

    def to_json(self) -> str:
        """The document as text; keys keep their order."""
        return json.dumps(self.document(), indent=2, ensure_ascii=False)


def _row(group: GroupSummary) -> dict[str, object]:
    return {
        "budget_ms": _ms(group.budget_ns),
        "requests": group.requests,
        "p50_ms": _ms(group.latency_p50_ns),
        "p99_ms": _ms(group.latency_p99_ns),
        "violations": group.violations,
        "violation_ratio": round(group.violation_ratio, 4),
        "goodput_rps": round(group.goodput_rps, 2),
        "late": group.late,
        "rejected": group.rejected,
        "expired": group.expired,
        "failed": group.failed + group.unanswered + group.unsent,
        "send_delay_p99_ms": _ms(group.send_delay_p99_ns),
    }


def _ms(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else round(duration_ns / NS_PER_MS, 2)


def in_words(before: Summary, after: Summary) -> str:
    """What the second policy changed, in one sentence or two."""
    changes = {
        tier: (before.tiers[tier].violation_ratio, after.tiers[tier].violation_ratio)
        for tier in before.tiers
        if tier in after.tiers
    }
    better = [t for t, (was, now) in changes.items() if was - now > _NOTICEABLE_RATIO]
    worse = [t for t, (was, now) in changes.items() if now - was > _NOTICEABLE_RATIO]
    if not better and not worse:
        return "It made no difference that matters: this load was not too much for either."
    gained = _listed([_change(tier, *changes[tier]) for tier in better])
    paid = _listed([_change(tier, *changes[tier]) for tier in worse])
    if not better:
        return f"It helped no tier, and let more requests down in {paid}."
    price = f"the price was paid in {paid}" if worse else "no tier paid for it"
    return f"Fewer requests were let down in {gained}; {price}."


def _change(tier: TierName, was_ratio: float, now_ratio: float) -> str:
    return f"{tier} ({percent(now_ratio)} instead of {percent(was_ratio)})"


def percent(ratio: float) -> str:
    """Whole percents where they say enough."""
    value = 100 * ratio
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def _listed(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
