"""Which policies are worth playing on a workload, and what speaks for each before it is played.

Knows what a workload is like. Never says which is best: that is for the simulator.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from headway.core import ModelName
from headway.plan.character import Character
from headway.sim import Scenario
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["Candidate", "candidates_for", "with_linger"]

_GAIN_MIN: Final = 1.2
"""Rows a time of a full batch over those of one request from which batching is worth a try."""
_NOISE_MAX: Final = 0.15
"""Scatter of a model's times up to which they count as fixed."""
_BUSY_MIN: Final = 0.7
"""Load from which dropping early may pay."""
_LINGER_RATIO: Final = 0.25
"""Of the tightest budget of a model: as long as a request may be made to wait for company."""
_LINGER_STEP_NS: Final = NS_PER_MS
_RESERVE_RATIO: Final = 0.3
_TIGHT_MAX_RATIO: Final = 2.0
"""Budget over time alone up to which a high request has no time for what already runs: the reserve
of `headway` is about those only."""

_SIMPLICITY: Final = (
    *("fifo", "priority", "edf", "static-cap", "lane-edf", "batch3", "nexus", "clockwork"),
    *("pcie", "strait", "headway"),
)
"""The simplest to explain and to run first."""


class Candidate(NamedTuple):
    """A policy with its settings."""

    label: str
    settings: Mapping[str, object]
    """As the configuration takes them."""
    why: str
    """What speaks for it on such a workload."""
    linger_ns: Mapping[ModelName, int] = MappingProxyType({})
    """How long requests of a model wait for company, where that is not as the scenario says."""

    @property
    def complexity(self) -> tuple[int, int]:
        """Smaller is simpler: by kind, then by the settings that have to be chosen."""
        kind = str(self.settings["kind"])
        return _SIMPLICITY.index(kind), len(self.settings) - 1 + len(self.linger_ns)


def candidates_for(character: Character, scenario: Scenario) -> list[Candidate]:
    """Those that fit, the simplest first."""
    found = [*_simple(character), *_capped(character), *_batched(character, scenario)]
    found += _early(character)
    found += _predicting(character)
    return sorted(found, key=lambda candidate: candidate.complexity)


def with_linger(scenario: Scenario, linger_ns: Mapping[ModelName, int]) -> Scenario:
    """The same scenario with other times to wait for company."""
    if not linger_ns:
        return scenario
    models = tuple(
        model._replace(
            params=msgspec.structs.replace(
                model.params, linger_ns=linger_ns.get(model.params.name, model.params.linger_ns)
            )
        )
        for model in scenario.models
    )
    return replace(scenario, models=models)


def _simple(character: Character) -> Iterator[Candidate]:
    yield _plain("fifo", "arrival order is enough where requests are alike and there is time")
    if character.priorities > 1:
        yield _plain("priority", "a mix of priorities: the more important go first")
    if character.budgets > 1 or character.service_cv > _NOISE_MAX:
        yield _plain("edf", "budgets or times differ: whoever is due first goes first")


def _capped(character: Character) -> Iterator[Candidate]:
    if not character.has_both:
        return
    if character.shares_lanes:  # else a low batch a lane is no limit
        yield _plain("static-cap", "low work may not take every slot: one low batch a lane")
    if character.slots > 1 and not (character.shares_lanes and character.lanes == 1):
        settings = {"kind": "static-cap", "low_max": 1}
        why = "low work may not take every slot: one low batch a device"
        yield Candidate("static-cap:low_max=1", settings, why)
    if character.shares_lanes:
        yield _plain("lane-edf", "one high and one low batch a lane, by deadline, hopeless dropped")


def _batched(character: Character, scenario: Scenario) -> Iterator[Candidate]:
    gaining = {name: gain for name, gain in character.gains.items() if gain >= _GAIN_MIN}
    if not gaining:
        return
    if character.priorities > 1:
        yield _plain("batch3", "batching for throughput, at once for the most important")
    kind = "priority" if character.priorities > 1 else "fifo"
    if character.noise_cv <= _NOISE_MAX:
        linger_ns = _linger_ns(scenario, gaining)
        why = "times are fixed, as those of vision models are: batches that wait a fixed time"
        yield Candidate(f"{kind} + linger", {"kind": kind}, why, linger_ns)
        yield _plain("nexus", "batching with early drop: whoever would spoil a batch is given up")


def _early(character: Character) -> Iterator[Candidate]:
    if character.load_ratio >= _BUSY_MIN and character.noise_cv <= _NOISE_MAX:
        yield _plain("clockwork", "busy, with fixed times: one at a time, and what is late dropped")


def _predicting(character: Character) -> Iterator[Candidate]:
    if character.has_link and character.has_both:
        yield _plain("pcie", "inputs compete for the link: low ones wait for high ones")
        yield _plain("strait", "low work starts where it is predicted to break no deadline")
    yield _plain("headway", "decides by prediction: what starts, what waits, what is refused")
    slack_ratio = character.high_slack_ratio
    is_tight = slack_ratio is not None and slack_ratio < _TIGHT_MAX_RATIO
    if character.has_both and is_tight and not character.preempts:
        settings = {"kind": "headway", "reserve_ratio": _RESERVE_RATIO}
        why = "slots cannot preempt: some lanes are held free for high work that is expected"
        yield Candidate(f"headway:reserve_ratio={_RESERVE_RATIO}", settings, why)


def _plain(kind: str, why: str) -> Candidate:
    return Candidate(kind, {"kind": kind}, why)


def _linger_ns(scenario: Scenario, models: Mapping[ModelName, float]) -> dict[ModelName, int]:
    """As long as a full batch takes to come together, within a part of the tightest budget.

    Of b rows at a rate r the last comes (b - 1) / r after the first.
    """
    rates_rps: dict[ModelName, float] = dict.fromkeys(models, 0.0)
    budgets_ns: dict[ModelName, int] = {}
    for stream in scenario.workload.streams:
        if stream.model in models:
            rates_rps[stream.model] += stream.arrivals.rate_rps
            own_ns = stream.budget_ns or scenario.tiers[stream.tier].budget_ns
            budgets_ns[stream.model] = min(own_ns, budgets_ns.get(stream.model, own_ns))
    rows_max = {model.params.name: model.params.batch_rows_max for model in scenario.models}
    lingers_ns = {}
    for name, rate_rps in rates_rps.items():
        fill_ns = (rows_max[name] - 1) / rate_rps * NS_PER_S
        wait_ns = min(fill_ns, _LINGER_RATIO * budgets_ns[name])
        lingers_ns[name] = max(_LINGER_STEP_NS, int(wait_ns) // _LINGER_STEP_NS * _LINGER_STEP_NS)
    return lingers_ns
