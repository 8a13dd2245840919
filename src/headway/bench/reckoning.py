"""From the kernel's Records of one run to its row.

Pure. Knows a mix and Records; everything is read from those, for a live run as for a simulated one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headway.bench.mixes import Mix, MixClass
from headway.core import DeviceParams, Expire, ExpireReason, Record, Request, SlotClass
from headway.report import ClassTally, PolicyRun, percentile, records_to_samples
from headway.sim import Usage
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Outcome, Sample

__all__ = ["Circumstances", "reckon"]


class Circumstances(NamedTuple):
    """What a run was, which its Records do not say."""

    mix: Mix
    policy: str
    niced: bool
    seed: int
    load: float | None
    duration_ns: int
    solo_ns: Mapping[str, int]
    """Execution alone, by class."""
    devices: Sequence[DeviceParams]
    decision_p50_ns: float | None
    decision_p99_ns: float | None
    others_cores: float | None


class _Side(NamedTuple):
    """One half of a mix's requests, as they ended."""

    samples: list[Sample]

    @property
    def violations(self) -> float:
        return sum(s.is_violation for s in self.samples) / max(1, len(self.samples))

    def goodput_rps(self, duration_ns: int) -> float:
        met = sum(not s.is_violation for s in self.samples)
        return met * NS_PER_S / duration_ns

    def latency_ms(self, ratio: float) -> float | None:
        """Over those that were answered."""
        times_ns = sorted(s.latency_ns for s in self.samples if s.outcome is Outcome.COMPLETED)
        found_ns = percentile(times_ns, ratio)
        return None if found_ns is None else found_ns / NS_PER_MS


def reckon(records: Sequence[Record], what: Circumstances) -> PolicyRun:
    """One row.

    Args:
        records: from the first request of the load on, until nothing runs any more.
        what: the circumstances.
    """
    classes = {(one.model, one.rows): one for one in what.mix.classes}
    samples = list(records_to_samples(records))
    high = _Side([s for s in samples if classes[s.model, s.rows] in what.mix.high])
    low = _Side([s for s in samples if classes[s.model, s.rows] in what.mix.low])
    usage = _usage(records, what, classes)
    figures = usage.figures(what.duration_ns)
    ends = Counter(sample.outcome for sample in samples)
    given_up = _given_up(records)
    return PolicyRun(
        mix=what.mix.name,
        policy=what.policy,
        niced=what.niced,
        seed=what.seed,
        load=what.load,
        duration_s=what.duration_ns / NS_PER_S,
        high_requests=len(high.samples),
        low_requests=len(low.samples),
        high_violations=high.violations,
        low_violations=low.violations,
        high_goodput_rps=high.goodput_rps(what.duration_ns),
        low_goodput_rps=low.goodput_rps(what.duration_ns),
        high_goodput_work=usage.work_done_ns[SlotClass.HIGH] / what.duration_ns,
        low_goodput_work=usage.work_done_ns[SlotClass.LOW] / what.duration_ns,
        high_p50_ms=high.latency_ms(0.5),
        high_p99_ms=high.latency_ms(0.99),
        low_p50_ms=low.latency_ms(0.5),
        low_p99_ms=low.latency_ms(0.99),
        error_mean=figures.error_mean_ratio,
        error_median=figures.error_median_ratio,
        utilisation=figures.lanes_busy_ratio,
        waste_ratio=figures.waste_ratio,
        decision_p50_us=_us(what.decision_p50_ns),
        decision_p99_us=_us(what.decision_p99_ns),
        refused=ends[Outcome.REJECTED],
        expired=ends[Outcome.EXPIRED] - given_up,
        given_up=given_up,
        failed=ends[Outcome.FAILED] + ends[Outcome.UNANSWERED],
        others_cores=what.others_cores,
        classes=_tallies(samples, what),
    )


def _usage(
    records: Sequence[Record], what: Circumstances, classes: Mapping[tuple[str, int], MixClass]
) -> Usage:
    def work_ns(request: Request) -> float:
        return what.solo_ns[classes[request.model, request.rows].name]

    usage = Usage(what.devices, work_ns)
    for record in records:
        usage(record.now_ns, record.event, record.commands)
    return usage


def _given_up(records: Sequence[Record]) -> int:
    """Requests that were ended before a start because they would have been late."""
    return sum(
        isinstance(command, Expire) and command.reason is not ExpireReason.DEADLINE_PAST
        for record in records
        for command in record.commands
    )


def _tallies(samples: Sequence[Sample], what: Circumstances) -> dict[str, ClassTally]:
    """By class, the high ones first."""
    tallies = {}
    for one in what.mix.classes:
        own = [s for s in samples if (s.model, s.rows) == (one.model, one.rows)]
        tallies[one.name] = ClassTally(
            requests=len(own),
            violations=sum(s.is_violation for s in own),
            budget_ms=one.budget_ns(what.solo_ns[one.name]) / NS_PER_MS,
        )
    return tallies


def _us(duration_ns: float | None) -> float | None:
    return None if duration_ns is None else duration_ns / 1_000
