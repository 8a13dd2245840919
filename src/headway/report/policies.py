"""Policies side by side: a row for each run, then means with intervals, differences and the front.

Knows runs of the same arrivals under several policies, live or simulated. Never where they come
from.

Two numbers say what a policy is worth: how many of the important requests were let down, and how
much of the unimportant work was still done in time. A policy is on the front of a mix when no other
is at least as good in both and better in one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from msgspec import Struct, convert

from headway.report.intervals import Estimated, estimate, estimate_paired

__all__ = [
    "ALL_MOVING",
    "ClassTally",
    "PolicyDifference",
    "PolicyRun",
    "PolicySummary",
    "compare_policies",
    "summarise_policies",
]

ALL_MOVING: Final = "moving (all)"
"""Stands for the mixes that move, taken together."""


class ClassTally(Struct, frozen=True, kw_only=True):
    """What became of one class of requests."""

    requests: int
    violations: int
    budget_ms: float


class PolicyRun(Struct, frozen=True, kw_only=True):
    """One run of one policy.

    A request that was refused, given up, late or failed is a violation; ratios are over all that
    were offered.
    """

    mix: str
    policy: str
    niced: bool
    """Whether slots are told the class of their batch, so that low work gives way on its core."""
    seed: int
    load: float | None = None
    """Offered work over what the cores can do; None where it moves."""
    duration_s: float
    emulated: bool = False
    high_requests: int
    low_requests: int
    high_violations: float
    low_violations: float
    high_goodput_rps: float
    low_goodput_rps: float
    high_goodput_work: float
    """Work of requests answered in time, at its time alone, over the time: cores."""
    low_goodput_work: float
    high_p50_ms: float | None
    """Of those that were answered."""
    high_p99_ms: float | None
    low_p50_ms: float | None
    low_p99_ms: float | None
    error_mean: float | None
    """Of the service time expected when a batch starts, relative to what it was."""
    error_median: float | None
    utilisation: float
    """Part of the lanes' time with a batch to run."""
    waste_ratio: float
    """Device time spent on requests that were late or gone, over all device time."""
    decision_p50_us: float | None
    """Processor time of one step of the kernel."""
    decision_p99_us: float | None
    refused: int
    expired: int
    """Deadline passed, waiting or running."""
    given_up: int
    """Ended before a start because it would have been late."""
    failed: int
    others_cores: float | None
    """Cores that other programs kept busy meanwhile."""
    classes: dict[str, ClassTally] = {}
    oracle_high: float | None = None
    """High violations of the yardstick on the same arrivals."""
    oracle_low: float | None = None


class PolicySummary(Struct, frozen=True, kw_only=True):
    """One policy on one mix: means over seeds; `_from` and `_to` are the 95 % interval."""

    mix: str
    load: float | None
    policy: str
    niced: bool
    seeds: int
    emulated: bool
    high_violations: float
    high_violations_from: float | None
    high_violations_to: float | None
    low_violations: float
    low_violations_from: float | None
    low_violations_to: float | None
    high_goodput_rps: float
    low_goodput_rps: float
    low_goodput_rps_from: float | None
    low_goodput_rps_to: float | None
    high_goodput_work: float
    low_goodput_work: float
    low_goodput_work_from: float | None
    low_goodput_work_to: float | None
    high_p50_ms: float | None
    high_p99_ms: float | None
    low_p50_ms: float | None
    low_p99_ms: float | None
    error_mean: float | None
    error_median: float | None
    utilisation: float
    waste_ratio: float
    decision_p50_us: float | None
    decision_p99_us: float | None
    refused: float
    given_up: float
    failed: float
    others_cores: float | None
    """The most of any run."""
    oracle_high: float | None
    oracle_low: float | None
    dominated_by: tuple[str, ...]
    """Policies with fewer high violations and more low goodput, or as good in one of them. Goodput
    counts work here: by requests, a policy that serves only the small would win."""
    dominated_by_rps: tuple[str, ...]
    """The same with goodput in requests."""

    @property
    def is_on_front(self) -> bool:
        """No other policy is at least as good in both and better in one."""
        return not self.dominated_by


class PolicyDifference(Struct, frozen=True, kw_only=True):
    """One policy less another, on the same arrivals; `_from` and `_to` are the 95 % interval.

    Relative differences are over the mean of the policy compared with, None where that is 0.
    """

    mix: str
    load: float | None
    niced: bool
    policy: str
    against: str
    pairs: int
    high_violations_difference: float
    high_violations_difference_from: float | None
    high_violations_difference_to: float | None
    high_violations_relative: float | None
    high_violations_relative_from: float | None
    high_violations_relative_to: float | None
    low_violations_difference: float
    low_violations_difference_from: float | None
    low_violations_difference_to: float | None
    low_goodput_work_difference: float
    low_goodput_work_difference_from: float | None
    low_goodput_work_difference_to: float | None
    low_goodput_work_relative: float | None
    low_goodput_work_relative_from: float | None
    low_goodput_work_relative_to: float | None
    low_goodput_rps_relative: float | None
    low_goodput_rps_relative_from: float | None
    low_goodput_rps_relative_to: float | None
    waste_difference: float
    waste_difference_from: float | None
    waste_difference_to: float | None


class _Cell(NamedTuple):
    """Runs that are alike but for their seed."""

    mix: str
    load: float | None
    niced: bool
    policy: str


class _Field(NamedTuple):
    """One measure of a run."""

    name: str
    of: Callable[[PolicyRun], float]


_WITH_INTERVALS: Final = (
    _Field("high_violations", lambda run: run.high_violations),
    _Field("low_violations", lambda run: run.low_violations),
    _Field("low_goodput_rps", lambda run: run.low_goodput_rps),
    _Field("low_goodput_work", lambda run: run.low_goodput_work),
)
_MEANS: Final = (
    *("high_goodput_rps", "high_goodput_work", "utilisation", "waste_ratio"),
    *("refused", "given_up", "failed"),
)
_MEANS_OF_KNOWN: Final = (
    *("high_p50_ms", "high_p99_ms", "low_p50_ms", "low_p99_ms", "error_mean", "error_median"),
    *("decision_p50_us", "decision_p99_us", "oracle_high", "oracle_low"),
)


def summarise_policies(runs: Iterable[PolicyRun]) -> list[PolicySummary]:
    """One row for each mix, load, policy and kind of slots, in the order in which they came."""
    cells = _cells(runs)
    means = {cell: _front_point(own) for cell, own in cells.items()}
    return [_summary(cell, own, means) for cell, own in cells.items()]


def compare_policies(
    runs: Iterable[PolicyRun], *, policy: str, moving: Sequence[str] = ()
) -> list[PolicyDifference]:
    """How a policy differs from each other one, on each mix, and on the moving ones together.

    A pair is one seed of one mix under both; a seed that only one of them has is left out.

    Args:
        runs: of all policies.
        policy: that is compared with the others.
        moving: mixes that are also taken together.
    """
    cells = _cells(runs)
    rows = []
    for cell, others in cells.items():
        own = cells.get(cell._replace(policy=policy))
        if own is not None and cell.policy != policy:
            rows.append(_difference(cell, policy, _paired(own, others)))
    if len(moving) > 1:
        rows += _together(cells, policy, moving)
    return [row for row in rows if row is not None]


def _together(
    cells: Mapping[_Cell, Sequence[PolicyRun]], policy: str, moving: Sequence[str]
) -> list[PolicyDifference | None]:
    pairs: dict[_Cell, list[tuple[PolicyRun, PolicyRun]]] = {}
    for cell, others in cells.items():
        own = cells.get(cell._replace(policy=policy))
        if own is not None and cell.policy != policy and cell.mix in moving:
            pairs.setdefault(cell._replace(mix=ALL_MOVING), []).extend(_paired(own, others))
    return [_difference(cell, policy, own) for cell, own in pairs.items()]


def _cells(runs: Iterable[PolicyRun]) -> dict[_Cell, list[PolicyRun]]:
    cells: dict[_Cell, list[PolicyRun]] = {}
    for run in runs:
        cells.setdefault(_Cell(run.mix, run.load, run.niced, run.policy), []).append(run)
    return cells


def _paired(
    first: Sequence[PolicyRun], second: Sequence[PolicyRun]
) -> list[tuple[PolicyRun, PolicyRun]]:
    by_seed = {run.seed: run for run in second}
    return [(run, by_seed[run.seed]) for run in first if run.seed in by_seed]


class _FrontPoint(NamedTuple):
    """High violations and low goodput, counted in two ways."""

    work: tuple[float, float]
    rps: tuple[float, float]


def _front_point(runs: Sequence[PolicyRun]) -> _FrontPoint:
    high = fmean(run.high_violations for run in runs)
    return _FrontPoint(
        (high, fmean(run.low_goodput_work for run in runs)),
        (high, fmean(run.low_goodput_rps for run in runs)),
    )


def _summary(
    cell: _Cell, runs: Sequence[PolicyRun], means: Mapping[_Cell, _FrontPoint]
) -> PolicySummary:
    rivals = {
        other.policy: point
        for other, point in means.items()
        if other._replace(policy=cell.policy) == cell and other != cell
    }
    own = means[cell]
    disturbed = [run.others_cores for run in runs if run.others_cores is not None]
    fields = {
        **cell._asdict(),
        **_intervals(runs),
        **{name: fmean(getattr(run, name) for run in runs) for name in _MEANS},
        **{name: _mean_of_known(runs, name) for name in _MEANS_OF_KNOWN},
        "seeds": len({run.seed for run in runs}),
        "emulated": any(run.emulated for run in runs),
        "others_cores": max(disturbed, default=None),
        "dominated_by": [n for n, rival in rivals.items() if _is_beaten(own.work, rival.work)],
        "dominated_by_rps": [n for n, rival in rivals.items() if _is_beaten(own.rps, rival.rps)],
    }
    return convert(fields, PolicySummary)


def _is_beaten(own: tuple[float, float], rival: tuple[float, float]) -> bool:
    """Whether the rival has no more violations and no less goodput, and is not the same."""
    return rival[0] <= own[0] and rival[1] >= own[1] and rival != own


def _intervals(runs: Sequence[PolicyRun]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for field in _WITH_INTERVALS:
        fields |= _spelt(field.name, estimate([field.of(run) for run in runs]))
    return fields


def _mean_of_known(runs: Sequence[PolicyRun], name: str) -> float | None:
    known = [value for run in runs if (value := getattr(run, name)) is not None]
    return fmean(known) if known else None


def _difference(
    cell: _Cell, policy: str, pairs: Sequence[tuple[PolicyRun, PolicyRun]]
) -> PolicyDifference | None:
    if not pairs:
        return None
    fields: dict[str, object] = {}
    for field in _WITH_INTERVALS:
        paired = estimate_paired(
            [field.of(own) for own, _ in pairs], [field.of(other) for _, other in pairs]
        )
        if field.name != "low_goodput_rps":
            fields |= _spelt(f"{field.name}_difference", paired.difference)
        if field.name != "low_violations":
            fields |= _spelt(f"{field.name}_relative", paired.relative)
    waste = estimate([own.waste_ratio - other.waste_ratio for own, other in pairs])
    named = {**cell._asdict(), "policy": policy, "against": cell.policy, "pairs": len(pairs)}
    return convert(fields | _spelt("waste_difference", waste) | named, PolicyDifference)


def _spelt(name: str, value: Estimated | None) -> dict[str, object]:
    if value is None:
        return {name: None, f"{name}_from": None, f"{name}_to": None}
    return {name: value.mean, f"{name}_from": value.low, f"{name}_to": value.high}
