"""Requests for a generating engine out of recorded traces, and what a run of them came to.

Knows traces and samples. Refuses to know schedulers.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from msgspec import Struct

from headway.core import TenantId
from headway.generate import TierTerms
from headway.sim.generation import GenerationRequest, SequenceSample
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Trace

__all__ = [
    "TargetFigures",
    "TierFigures",
    "quantile",
    "requests_of_trace",
    "target_figures",
    "tier_figures",
]


def requests_of_trace(
    trace: Trace,
    terms: Sequence[TierTerms],
    *,
    count: int,
    first: int = 0,
    speed: float = 1.0,
    output_tokens_max: int = 2_048,
    block_tokens: int = 16,
) -> Iterator[GenerationRequest]:
    """A stretch of a trace; terms are dealt out in turn, so a tier's part is how often it is named.

    Args:
        trace: with lengths of prompts and outputs.
        terms: dealt out in turn.
        count: requests.
        first: the one to begin with, which arrives at 0.
        speed: times as fast as recorded.
        output_tokens_max: the cap of every client; longer outputs are cut there.
        block_tokens: of the engine; a recorded block of a prefix is as many of those.
    """
    for index in range(first, min(first + count, len(trace.at_ns))):
        tier = terms[index % len(terms)]
        keys = trace.prefix_keys[index] if trace.prefix_keys else ()
        prompt_tokens = max(1, trace.input_tokens[index])
        yield GenerationRequest(
            arrived_at_ns=round((trace.at_ns[index] - trace.at_ns[first]) / speed),
            tag=TenantId(tier.name),
            terms=tier,
            prompt_tokens=prompt_tokens,
            output_tokens=max(1, trace.output_tokens[index]),
            output_tokens_max=output_tokens_max,
            prefix_keys=_finer(
                keys, trace.prefix_block_tokens, block_tokens, prompt_tokens // block_tokens
            ),
        )


class TierFigures(Struct, frozen=True, kw_only=True):
    """What clients of a tier saw. Times in seconds or milliseconds, as their names say."""

    requests: int
    ended: int
    ttft_p50_s: float
    ttft_p99_s: float
    tpot_p99_ms: float
    itl_max_p99_ms: float
    """Of each request's longest gap."""
    preempts: int


def tier_figures(samples: Iterable[SequenceSample], tier: str) -> TierFigures:
    """Of one tier."""
    of_tier = [sample for sample in samples if sample.tier == tier]
    ttfts = [sample.ttft_ns / NS_PER_S for sample in of_tier if sample.ttft_ns is not None]
    tpots = [sample.tpot_ns / NS_PER_MS for sample in of_tier if sample.tpot_ns is not None]
    gaps = [sample.itl_ns_max / NS_PER_MS for sample in of_tier if sample.tokens > 1]
    return TierFigures(
        requests=len(of_tier),
        ended=sum([sample.ended_at_ns is not None for sample in of_tier]),
        ttft_p50_s=quantile(ttfts, 0.5),
        ttft_p99_s=quantile(ttfts, 0.99),
        tpot_p99_ms=quantile(tpots, 0.99),
        itl_max_p99_ms=quantile(gaps, 0.99),
        preempts=sum([sample.preempts for sample in of_tier]),
    )


class TargetFigures(Struct, frozen=True, kw_only=True):
    """How many of some requests were served as promised."""

    requests: int
    ended: int
    refused: int
    first_in_time: int
    """Ended, with the first token in time."""
    pace_in_time: int
    """Ended, with the others in time on average."""
    met: int
    """Both."""
    ttft_p50_ns: int | None
    """Percentiles are over those that ended; None with none."""
    ttft_p99_ns: int | None
    tpot_p50_ns: int | None
    tpot_p99_ns: int | None
    preempts: int

    @property
    def met_ratio(self) -> float:
        """Of all that arrived; 1 of none."""
        return self.met / self.requests if self.requests else 1.0

    def goodput_rps(self, span_ns: int) -> float:
        """Requests a second that were served as promised."""
        return self.met * NS_PER_S / span_ns if span_ns > 0 else 0.0


def target_figures(samples: Iterable[SequenceSample]) -> TargetFigures:
    """By the targets of each one's tier; one without a target meets it by ending."""
    every = list(samples)
    ended = [sample for sample in every if sample.ended_at_ns is not None]
    ttfts = [sample.ttft_ns for sample in ended if sample.ttft_ns is not None]
    tpots = [sample.tpot_ns for sample in ended if sample.tpot_ns is not None]
    in_time = [_within(each.ttft_ns, each.request.terms.ttft_ns) for each in ended]
    in_pace = [_within(each.tpot_ns, each.request.terms.tpot_ns) for each in ended]
    return TargetFigures(
        requests=len(every),
        ended=len(ended),
        refused=sum([sample.is_refused for sample in every]),
        first_in_time=sum(in_time),
        pace_in_time=sum(in_pace),
        met=sum([a and b for a, b in zip(in_time, in_pace, strict=True)]),
        ttft_p50_ns=_whole(ttfts, 0.5),
        ttft_p99_ns=_whole(ttfts, 0.99),
        tpot_p50_ns=_whole(tpots, 0.5),
        tpot_p99_ns=_whole(tpots, 0.99),
        preempts=sum([sample.preempts for sample in every]),
    )


def _within(value_ns: float | None, target_ns: int | None) -> bool:
    return value_ns is None or target_ns is None or value_ns <= target_ns


def _whole(values: Sequence[float], level: float) -> int | None:
    return round(quantile(values, level)) if values else None


def quantile(values: Iterable[float], level: float) -> float:
    """The smallest value that so large a part of all does not exceed; 0 of none."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[max(0, ceil(level * len(ordered)) - 1)]


def _finer(
    keys: tuple[int, ...], recorded_tokens: int, block_tokens: int, blocks_max: int
) -> tuple[int, ...]:
    """Keys of the engine's blocks from those of the recorded, larger ones."""
    if not keys:
        return ()
    ratio = max(1, recorded_tokens // block_tokens)
    finer = [key * ratio + part for key in keys for part in range(ratio)]
    return tuple(finer[:blocks_max])
