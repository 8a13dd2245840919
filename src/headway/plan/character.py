"""What a workload is like, in a few numbers that decide which policies may fit it.

Knows a scenario: its requests, the times of its models alone, and its devices. Plays nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from math import sqrt
from statistics import fmean, median_low, pstdev
from typing import Final

from msgspec import Struct

from headway.core import ModelName, Request, SlotClass
from headway.predict import Profile
from headway.sim import Scenario

__all__ = ["Character", "characterise"]

_REQUESTS_MAX: Final = 50_000
"""Requests that are looked at, from the first on."""
_WINDOWS: Final = 20
"""Parts of the time whose work is compared."""
_MOVING_MIN: Final = 1.5
_PREEMPTED_RATIO: Final = 0.2
"""Share of a lane beside a high batch below which low work counts as preempted."""


class Character(Struct, frozen=True, kw_only=True):
    """A workload on its devices."""

    requests: int
    """That were looked at."""
    models: int
    """That are asked for."""
    priorities: int
    """Distinct ones."""
    budgets: int
    """Distinct ones."""
    tenants: int
    slots: int
    lanes: int
    """Batches that could run at once at full speed; a whole accelerator counts as one."""
    shares_lanes: bool
    """Some slots are on one lane."""
    has_link: bool
    """Inputs are copied to the devices over a link."""
    preempts: bool
    """Low work beside high work all but stands still."""
    high_ratio: float
    """Part of the work that is of class `high`."""
    load_ratio: float
    """Work over what the lanes can do, each request alone: above 1 not all can be served so."""
    batched_load_ratio: float
    """The same, were every batch as large as its model and its tightest budget allow."""
    peak_ratio: float
    """Work of the busiest twentieth of the time over the mean."""
    gaps_cv: float
    """Standard deviation over mean of the gaps between arrivals: 1 for independent ones."""
    service_cv: float
    """Standard deviation over mean of the times alone, over all requests."""
    noise_cv: float
    """The same of one model's batches of one size; of the model that scatters most."""
    high_slack_ratio: float | None
    """Smallest budget over the time alone, of high requests; None without any."""
    gains: Mapping[ModelName, float]
    """Rows a time of the best batch over those of a single request, for each model that gains."""

    @property
    def has_high(self) -> bool:
        """Whether some work is of class `high`."""
        return self.high_ratio > 0.0

    @property
    def has_low(self) -> bool:
        """Whether some work is of class `low`."""
        return self.high_ratio < 1.0

    @property
    def moves(self) -> bool:
        """Whether the load changes in the course of the workload."""
        return self.peak_ratio >= _MOVING_MIN

    @property
    def has_both(self) -> bool:
        """Whether the classes compete."""
        return self.has_high and self.has_low


def characterise(scenario: Scenario) -> Character:
    """Look at a scenario's requests.

    Raises:
        ValueError: it has none.
    """
    requests = list(islice(scenario.requests(), _REQUESTS_MAX))
    if not requests:
        raise ValueError("the workload sends nothing in its duration")
    profiles = {model.params.name: model.profile for model in scenario.models}
    works_ns = [profiles[request.model].service_ns(request.rows) for request in requests]
    asked = {request.model for request in requests}
    gains = _gains(scenario, requests)
    span_ns = _span_ns(scenario, requests)
    lanes = _lanes(scenario)
    batched_ns = [
        work_ns / gains.get(request.model, 1.0)
        for request, work_ns in zip(requests, works_ns, strict=True)
    ]
    high = [
        (request, work_ns)
        for request, work_ns in zip(requests, works_ns, strict=True)
        if request.slot_class is SlotClass.HIGH
    ]
    devices = scenario.params.devices
    shares_lanes = any(len(set(d.slot_lanes)) < len(d.slot_lanes) for d in devices)
    return Character(
        requests=len(requests),
        models=len(asked),
        priorities=len({request.priority for request in requests}),
        budgets=len({request.budget_ns for request in requests}),
        tenants=len({request.tenant for request in requests}),
        slots=sum(len(device.slot_lanes) for device in devices),
        lanes=lanes,
        shares_lanes=shares_lanes,
        has_link=scenario.emulated is not None,
        preempts=shares_lanes and _favours_high(scenario),
        high_ratio=sum([work_ns for _, work_ns in high]) / sum(works_ns),
        load_ratio=sum(works_ns) / (span_ns * lanes),
        batched_load_ratio=sum(batched_ns) / (span_ns * lanes),
        peak_ratio=_peak_ratio(requests, works_ns, span_ns),
        gaps_cv=_gaps_cv(requests),
        service_cv=_cv(works_ns),
        noise_cv=max(m.noise_cv for m in scenario.models if m.params.name in asked),
        high_slack_ratio=min([r.budget_ns / work_ns for r, work_ns in high], default=None),
        gains=gains,
    )


def _span_ns(scenario: Scenario, requests: Sequence[Request]) -> int:
    """The time in which they arrive: the workload's, unless only its beginning was looked at."""
    if len(requests) < _REQUESTS_MAX:
        return scenario.workload.duration_ns
    return max(1, requests[-1].arrived_at_ns)


def _lanes(scenario: Scenario) -> int:
    devices = scenario.params.devices
    if scenario.emulated is not None:
        return len(devices)
    if scenario.weights is None:
        return sum(len(device.slot_lanes) for device in devices)
    return sum(len(set(device.slot_lanes)) for device in devices)


def _favours_high(scenario: Scenario) -> bool:
    if scenario.emulated is not None or scenario.weights is None:
        return False
    weights = scenario.weights
    return weights[SlotClass.LOW] < _PREEMPTED_RATIO * weights[SlotClass.HIGH]


def _gains(scenario: Scenario, requests: Sequence[Request]) -> dict[ModelName, float]:
    """Of the models that can batch, by the tightest budget and the usual size of their requests."""
    asked: defaultdict[ModelName, list[Request]] = defaultdict(list)
    for request in requests:
        asked[request.model].append(request)
    gains = {}
    for model in scenario.models:
        name, params = model.params.name, model.params
        if name in asked and params.can_batch:
            rows = median_low([request.rows for request in asked[name]])
            budget_ns = min(request.budget_ns for request in asked[name])
            gain = _gain(model.profile, rows, params.batch_rows_max, budget_ns)
            if gain > 1.0:
                gains[name] = gain
    return gains


def _gain(profile: Profile, rows: int, rows_max: int, budget_ns: int) -> float:
    """The best batch of several such requests that ends within the budget."""
    one_ns = profile.service_ns(rows)
    sizes = {rows_max, *(size for size, _ in profile.points())}
    times_ns = {size: profile.service_ns(size) for size in sizes if 2 * rows <= size <= rows_max}
    return max(
        [
            size / rows * one_ns / time_ns
            for size, time_ns in times_ns.items()
            if time_ns <= budget_ns
        ],
        default=1.0,
    )


def _peak_ratio(requests: Sequence[Request], works_ns: Sequence[int], span_ns: int) -> float:
    by_window: Counter[int] = Counter()
    for request, work_ns in zip(requests, works_ns, strict=True):
        by_window[min(_WINDOWS - 1, request.arrived_at_ns * _WINDOWS // span_ns)] += work_ns
    return max(by_window.values()) * _WINDOWS / sum(works_ns)


def _gaps_cv(requests: Sequence[Request]) -> float:
    """Of each model's and tier's arrivals on their own, weighted by how many there are.

    Merged streams look more even than what each of them sends.
    """
    streams: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for request in requests:
        streams[request.model, request.tier].append(request.arrived_at_ns)
    weighted = counted = 0.0
    for at_ns in streams.values():
        gaps_ns = [later - earlier for earlier, later in pairwise(at_ns)]
        if len(gaps_ns) > 1 and any(gaps_ns):
            weighted += len(gaps_ns) * _cv(gaps_ns) ** 2
            counted += len(gaps_ns)
    return sqrt(weighted / counted) if counted else 0.0


def _cv(numbers: Sequence[int]) -> float:
    mean = fmean(numbers)
    return pstdev(numbers) / mean if mean else 0.0
