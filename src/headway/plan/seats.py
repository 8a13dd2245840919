"""What a seat costs and bears: a model in a kind of slice, alone and beside others.

One rule for everybody: the fast path and the solver place by it, and `check` holds any plan to it.

A model in a cut runs batches of the size at which it could serve the most requests in time, or of a
smaller one that comes near, for short batches are better neighbours. They take a time S, and its
load is its rate times S over the requests of such a batch. Somebody who arrives may have to wait
for batches of its own importance and above, which queue, and for one of lower importance, which
cannot be stopped. Of its budget the slack is what is left after its own batch, one of those, and
the time in which a batch comes together at the rate of one portion of its load: for that its load
is reckoned by full batches, it must be able to wait for them. No more than a part of its requests
is late if the wait falls off as exp(-d t) with

    d = ln(1 / late) / slack

and that it does if the pressures (`queueing.Work`) of all that is served before it add up to 1 at
most, at that d; where others overtake it, at twice that d, if their part is no more than a half. So
a slice is legal if each pair of its models is, and certain sums hold that are linear in the rates.
"""

from collections.abc import Mapping
from math import ceil, inf, log
from typing import Final, NamedTuple

from headway.core import TenantId
from headway.plan.cuts import Cut, TimesThere, times_there
from headway.plan.demand import IsolationNeed, ModelDemand
from headway.plan.queueing import Work
from headway.predict import Profile
from headway.units import NS_PER_S, format_bytes, format_duration

__all__ = [
    "LOAD_MAX",
    "PORTIONS_MAX",
    "PORTION_LOAD",
    "Refusal",
    "SeatTerms",
    "batch_sizes",
    "can_share",
    "clients_max",
    "fill_ns",
    "rate_max_rps",
    "seat_terms",
]

LOAD_MAX: Final = 0.9
"""Of a slice, all models together: what is unimportant shall still get on."""
_CLIENTS_MAX: Final = 48
"""Clients of one MPS server on a whole device; on a part of it, a part of them."""
_LOAD_MIN: Final = 0.005
"""A slice that a model may use no more than so much is none for it."""
PORTION_LOAD: Final = 0.3
"""Of what the best slice bears: as much as one portion of a model's load may be, so that what is
left of slices can be filled with some of a large model."""
PORTIONS_MAX: Final = 64
_ENOUGH: Final = 0.9
"""Of the highest rate that batches of any size would serve in time."""
_LITTLE_LOAD: Final = 0.01
"""Of a slice, what batches that are better neighbours may cost more for one portion."""
_BLOCKED_RATIO: Final = 0.35
"""Of a budget, what a model accepts to wait for a less important batch that has begun."""
_OVERTAKEN: Final = 2.0
"""Times as fast as needed, the decay that is asked of a model that others may overtake."""
_ISOLATED: Final = frozenset({IsolationNeed.FAULT, IsolationNeed.STRONG})


class SeatTerms(NamedTuple):
    """A model in a kind of slice."""

    batch_rows: int
    batch_ns: int
    """Of a batch of so many rows."""
    load_of_rps: float
    """Load of one request a second."""
    fill_ns: int
    """In which a batch comes together at the rate of one portion of the load."""
    work: Work
    load_max_alone: float
    """Its own load, with the slice to itself."""
    decay_per_s: float
    """At which pressures are added up for it, beside others; infinite where it bears nobody."""
    ahead_max: float
    """Pressure of those who overtake it, at most; that of all before it is at most 1."""
    blocking_max_ns: float
    """Tolerated of a batch of lower importance."""
    memory_bytes: int
    assumed: str
    """What its times rest on; empty where they were measured there."""


class Refusal(NamedTuple):
    """Why a model cannot sit in a kind of slice at all."""

    kind: str
    """`times`, `memory` or `budget`."""
    why: str


def seat_terms(model: ModelDemand, cut: Cut, speeds: Mapping[str, float]) -> SeatTerms | Refusal:
    """What a model costs and bears there, or why it cannot sit there."""
    times = times_there(model, cut, speeds)
    if times is None:
        products = ", ".join(sorted({t.product for t in model.times}))
        why = f"no times on {cut.product}: measured on {products}, and the fleet has no speeds"
        return Refusal("times", why)
    shared_bytes = model.weights_bytes // model.gang_devices + model.overhead_bytes
    least_bytes = shared_bytes + model.row_bytes * model.request_rows
    if least_bytes > cut.memory_bytes:
        why = f"needs {format_bytes(least_bytes)}, {cut} has {format_bytes(cut.memory_bytes)}"
        return Refusal("memory", why)
    rates = {
        rows: rate_max_rps(model, rows, times.profile)
        for rows in batch_sizes(model, times.profile)
        if shared_bytes + model.row_bytes * rows <= cut.memory_bytes
    }
    if not max(rates.values()) > 0.0:
        first_ns = times.profile.service_ns(model.request_rows)
        why = (
            f"a batch of one request takes {format_duration(first_ns)} in {cut}, too long for "
            f"{model.attainment_ratio:.4g} of them within {format_duration(model.budget_ns)}"
        )
        return Refusal("budget", why)
    rows = _best_rows(model, rates, times.profile)
    memory_bytes = shared_bytes + model.row_bytes * rows
    return _terms(model, rows, times, memory_bytes)


def can_share(
    one: ModelDemand,
    one_terms: SeatTerms,
    other: ModelDemand,
    other_terms: SeatTerms,
    isolation: Mapping[TenantId, IsolationNeed],
) -> bool:
    """Whether two models may sit in one slice, their sums of load and memory apart."""
    if one.name == other.name:
        return True
    if one.tenant != other.tenant and not _ISOLATED.isdisjoint(
        {isolation[one.tenant], isolation[other.tenant]}
    ):
        return False
    if other.name in one.apart_from or one.name in other.apart_from:
        return False
    return _bears(one, one_terms, other, other_terms) and _bears(other, other_terms, one, one_terms)


def _bears(one: ModelDemand, terms: SeatTerms, other: ModelDemand, others: SeatTerms) -> bool:
    """Whether one can live with the other's batches, be they ever so rare."""
    if terms.decay_per_s == inf:
        return False
    if other.priority > one.priority:
        return others.batch_ns <= terms.blocking_max_ns
    return others.work.pressure(terms.decay_per_s) < inf


def _best_rows(model: ModelDemand, rates: Mapping[int, float], profile: Profile) -> int:
    """The smallest batch that costs little: near the best rate, or hardly more time of a slice."""
    portion_rps = _portion_rps(model, profile)
    loads = {
        rows: portion_rps * profile.service_ns(rows) / NS_PER_S * model.request_rows / rows
        for rows, rate in rates.items()
        if rate > 0
    }
    least, most = min(loads.values()), max(rates.values())
    return next(
        rows
        for rows, load in loads.items()
        if rates[rows] >= most * _ENOUGH or load <= least + _LITTLE_LOAD
    )


def _terms(model: ModelDemand, rows: int, times: TimesThere, memory_bytes: int) -> SeatTerms:
    batch_ns = times.profile.service_ns(rows)
    load_of_rps = batch_ns / NS_PER_S * model.request_rows / rows
    filled_ns = fill_ns(model, rows, times.profile)
    alone_ns = model.budget_ns - batch_ns - filled_ns
    blocking_ns = _BLOCKED_RATIO * alone_ns
    faster = 1.0 if model.priority == 0 else _OVERTAKEN
    return SeatTerms(
        batch_rows=rows,
        batch_ns=batch_ns,
        load_of_rps=load_of_rps,
        work=_work(model, rows, batch_ns),
        fill_ns=filled_ns,
        load_max_alone=rate_max_rps(model, rows, times.profile) * load_of_rps,
        decay_per_s=faster * _decay_per_s(model, alone_ns - blocking_ns),
        ahead_max=1.0 - 1.0 / faster,
        blocking_max_ns=blocking_ns,
        memory_bytes=memory_bytes,
        assumed=times.assumed,
    )


def batch_sizes(model: ModelDemand, profile: Profile) -> list[int]:
    """Sizes to try: those that were measured and powers of two, in whole requests, ascending."""
    rows = model.request_rows
    requests_max = max(1, model.batch_rows_max // rows)
    wanted = {1, requests_max, *(max(1, size // rows) for size, _ in profile.points())}
    wanted |= {1 << power for power in range(requests_max.bit_length())}
    return [count * rows for count in sorted(wanted) if count <= requests_max]


def rate_max_rps(model: ModelDemand, rows: int, profile: Profile) -> float:
    """Requests a second that a slice serves in time in such batches, for one model alone."""
    batch_ns = profile.service_ns(rows)
    return _rate_max_rps(model, rows, batch_ns, fill_ns(model, rows, profile))


def fill_ns(model: ModelDemand, rows: int, profile: Profile) -> int:
    """How long a batch takes to come together at the rate of one portion of the model's load.

    Into how many portions the load is divided depends on the best slice that there is; here it is
    taken for this one, in batches of one request, which makes them no fewer and the time no less.
    """
    requests = rows // model.request_rows
    if requests <= 1 or model.rate_rps <= 0:
        return 0
    return round((requests - 1) / _portion_rps(model, profile) * NS_PER_S)


def _portion_rps(model: ModelDemand, profile: Profile) -> float:
    single = model.request_rows
    most_rps = _rate_max_rps(model, single, profile.service_ns(single), 0)
    portions = 1
    if most_rps > 0:
        portions = min(PORTIONS_MAX, ceil(model.rate_rps / most_rps / PORTION_LOAD - 1e-9))
    return model.rate_rps / max(1, portions, model.replicas_min)


def _rate_max_rps(model: ModelDemand, rows: int, batch_ns: int, filled_ns: int) -> float:
    decay_per_s = _decay_per_s(model, model.budget_ns - batch_ns - filled_ns)
    if decay_per_s == inf:
        return 0.0
    pressure = _work(model, rows, batch_ns).pressure(decay_per_s)
    load_of_rps = batch_ns / NS_PER_S * model.request_rows / rows
    rate_rps = min(1.0 / pressure, LOAD_MAX / load_of_rps)
    return rate_rps if rate_rps * load_of_rps >= _LOAD_MIN else 0.0


def _work(model: ModelDemand, rows: int, batch_ns: int) -> Work:
    return Work(model.request_rows / rows, batch_ns / NS_PER_S, model.arrivals_cv, model.service_cv)


def _decay_per_s(model: ModelDemand, slack_ns: float) -> float:
    """How fast the wait must fall off; infinite where there is no time to wait in."""
    if slack_ns <= 0:
        return inf
    return log(1.0 / (1.0 - model.attainment_ratio)) / slack_ns * NS_PER_S


def clients_max(cut: Cut) -> int:
    """Seats of a slice: MPS takes fewer clients on fewer multiprocessors."""
    return max(1, ceil(_CLIENTS_MAX * cut.compute_ratio))
