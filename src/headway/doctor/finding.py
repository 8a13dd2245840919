"""What a diagnosis says: findings with evidence, what was fine, and what could not be told.

Knows words and numbers. Refuses to know how any of them was measured.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

__all__ = [
    "Diagnosis",
    "Evidence",
    "Finding",
    "Severity",
    "Sign",
    "Source",
    "Unknown",
    "in_order",
    "worst",
]


class Severity(StrEnum):
    """How much it matters, from the least."""

    NOTE = "note"
    """Worth knowing; nothing is lost by it now."""
    WARNING = "warning"
    """It costs time, memory or deadlines."""
    SERIOUS = "serious"
    """Requests are lost by it, or will be."""


_RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}


class Source(StrEnum):
    """Where measured values come from."""

    RECORDS = "records"
    """Steps of the scheduler: a journal, or `/admin/records` of a server."""
    PROCESSES = "processes"
    """The server's processes, as the system describes them; on the same machine only."""
    DEVICES = "devices"
    """What accelerators say of themselves."""
    METRICS = "metrics"
    """`/metrics` of a server."""
    TRACE = "trace"
    """A profiler's export: Nsight Systems, or a Chrome trace of torch's profiler."""


class Evidence(Struct, frozen=True):
    """One measured value that a finding rests on."""

    name: str
    value: float | int | str
    unit: str = ""


class Sign(Struct, frozen=True, kw_only=True):
    """What a check saw on one subject, before the table of checks gives it its words."""

    subject: str
    """A model, a process, a device; empty for the whole."""
    confidence_ratio: float
    """How sure it is that what was measured lies beyond the threshold, and not by chance."""
    evidence: tuple[Evidence, ...]
    severity: Severity | None = None
    """Where it is not that of the check."""
    title: str | None = None
    """Likewise."""
    remedy: str | None = None
    """Likewise."""


class Unknown(Struct, frozen=True, kw_only=True):
    """A check had nothing to go by."""

    why: str
    subject: str = ""


class Finding(Struct, frozen=True, kw_only=True):
    """An illness."""

    code: str
    """Stable; programs may rely on it."""
    title: str
    severity: Severity
    subject: str
    confidence_ratio: float
    evidence: tuple[Evidence, ...]
    remedy: str


class Diagnosis(Struct, frozen=True, kw_only=True):
    """All that was found, what was looked at and fine, and what could not be told and why.

    Invariants: each check's code is in a finding, in `healthy` or in `unknown`; one that could
    judge some subjects and not others may be in two.
    """

    findings: tuple[Finding, ...]
    """The most severe and surest first."""
    healthy: tuple[str, ...]
    """Codes of checks that had what they needed and found nothing."""
    unknown: dict[str, str]
    """By code, why it could not be told."""

    @property
    def is_healthy(self) -> bool:
        """Nothing worse than a note was found."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)


def worst(findings: tuple[Finding, ...]) -> Severity | None:
    """The highest severity; None without findings."""
    return max((finding.severity for finding in findings), key=_RANK.__getitem__, default=None)


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """The most severe and surest first, then by code and subject."""
    return tuple(
        sorted(findings, key=lambda f: (-_RANK[f.severity], -f.confidence_ratio, f.code, f.subject))
    )
