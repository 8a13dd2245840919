"""All checks, and the diagnosis: each asked of what was measured, each answered."""

from collections.abc import Sequence
from typing import Final

from headway.doctor.chart import SURE_RATIO, Chart, Check
from headway.doctor.finding import Diagnosis, Finding, Sign, Source, Unknown, in_order
from headway.doctor.table_machine import CORE_CHECKS, DEVICE_CHECKS, MEMORY_CHECKS
from headway.doctor.table_runs import PROMISE_CHECKS, SLOT_CHECKS

__all__ = ["CHECKS", "diagnose"]

CHECKS: Final[tuple[Check, ...]] = (
    *MEMORY_CHECKS,
    *SLOT_CHECKS,
    *PROMISE_CHECKS,
    *CORE_CHECKS,
    *DEVICE_CHECKS,
)


def diagnose(chart: Chart, checks: Sequence[Check] = CHECKS) -> Diagnosis:
    """Ask every check; what is not sure is not said."""
    findings: list[Finding] = []
    healthy: list[str] = []
    unknown: dict[str, str] = {}
    for check in checks:
        if not any(chart.has(source) for source in check.needs):
            unknown[check.code] = _missing(check, chart)
            continue
        told = list(check.look(chart))
        signs = [each for each in told if isinstance(each, Sign)]
        sure = [each for each in signs if each.confidence_ratio >= SURE_RATIO]
        findings += [_finding(check, each) for each in sure]
        unsure = [_unsure(each) for each in signs if each.confidence_ratio < SURE_RATIO]
        doubts = [each for each in told if isinstance(each, Unknown)] + unsure
        if doubts:
            unknown[check.code] = "; ".join(dict.fromkeys(map(_words, doubts)))
        elif not sure:
            healthy.append(check.code)
    return Diagnosis(findings=in_order(findings), healthy=tuple(healthy), unknown=unknown)


def _missing(check: Check, chart: Chart) -> str:
    reasons = [chart.absent.get(source, _none_of(source, chart)) for source in check.needs]
    return "; ".join(dict.fromkeys(reasons))


def _none_of(source: Source, chart: Chart) -> str:
    if source is Source.RECORDS and chart.course is not None:
        return "no request came to its end meanwhile, and no batch"
    return f"no {source}"


def _finding(check: Check, sign: Sign) -> Finding:
    return Finding(
        code=check.code,
        title=sign.title or check.title,
        severity=sign.severity or check.severity,
        subject=sign.subject,
        confidence_ratio=min(1.0, sign.confidence_ratio),
        evidence=sign.evidence,
        remedy=sign.remedy or check.remedy,
    )


def _unsure(sign: Sign) -> Unknown:
    why = f"it looks like it, but only {100 * sign.confidence_ratio:.0f} % sure: watch longer"
    return Unknown(subject=sign.subject, why=why)


def _words(doubt: Unknown) -> str:
    return f"{doubt.subject}: {doubt.why}" if doubt.subject else doubt.why
