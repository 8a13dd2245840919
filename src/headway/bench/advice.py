"""Which policy a workload should have: the simplest of those that did as well as the best.

Plays every candidate on the same arrivals and compares them in pairs, seed by seed. The rule, in
order:

1. The fewest high violations. Whoever has no more than the target, or cannot be told from the best,
   stays: it differs by half a point at most, or by two at most with an interval around zero.
2. Of those, the most low work in time: two per cent less at most stays, or five with an interval
   around zero.
3. Of those, the simplest: what is gained within the noise is not worth a setting.

Where a workload has one class only, its violations are the first rule, and there is no second.

Knows candidates and runs. Refuses to know what is printed of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from headway.bench.simulated import Contender, Match, play_all
from headway.plan import Candidate, Character, with_linger
from headway.report import Estimated, PolicyRun, estimate
from headway.sim import Scenario
from headway.units import NS_PER_S

__all__ = ["Advice", "advise", "matches_of", "play_candidates", "shortened"]

_VIOLATIONS_NEAR: Final = 0.005
_VIOLATIONS_WITHIN_NOISE: Final = 0.02
_WORK_NEAR: Final = 0.02
_WORK_WITHIN_NOISE: Final = 0.05
_OVERLOADED_RATIO: Final = 1.0
_BURSTY_CV_MIN: Final = 1.5
_NOISY_CV_MIN: Final = 0.1
_DURATION_MIN_NS: Final = NS_PER_S
_MUCH_MORE_RATIO: Final = 1.1
_TAKE_WHAT_WAITS: Final = frozenset({"fifo", "priority", "edf", "static-cap"})

Runs = Mapping[str, Sequence[PolicyRun]]
"""Of each candidate, by seed."""


class Advice(NamedTuple):
    """A candidate, and the reasons in words."""

    chosen: Candidate
    reasons: tuple[str, ...]


class _Field(NamedTuple):
    """Candidates that are left, and the best of them."""

    left: tuple[Candidate, ...]
    best: Candidate


def shortened(scenario: Scenario, requests_max: int) -> Scenario:
    """The same scenario with about so many requests at most: its first part."""
    duration_ns = scenario.workload.duration_ns
    expected = scenario.workload.rate_rps * duration_ns / NS_PER_S
    if expected <= requests_max:
        return scenario
    return scenario.lasting(max(_DURATION_MIN_NS, int(duration_ns * requests_max / expected)))


def matches_of(
    scenario: Scenario, candidates: Sequence[Candidate], *, seeds: int, mix: str
) -> list[Match]:
    """Every candidate with every seed, in turn."""
    return [
        Match(
            with_linger(scenario, candidate.linger_ns).with_seed(seed),
            Contender(candidate.label, candidate.settings),
            mix,
        )
        for seed in range(scenario.seed, scenario.seed + seeds)
        for candidate in candidates
    ]


def play_candidates(matches: Sequence[Match], *, processes: int) -> Iterator[PolicyRun]:
    """Their runs, in the order of the matches."""
    for played in play_all(matches, processes=processes):
        yield played.run


def advise(
    character: Character,
    candidates: Sequence[Candidate],
    runs: Sequence[PolicyRun],
    *,
    high_missed_ratio: float,
) -> Advice:
    """Choose by the rule above.

    Args:
        character: of the workload.
        candidates: that were played, at least one.
        runs: of all of them, on the same seeds.
        high_missed_ratio: part of high requests that may be let down, 0 to 1.
    """
    by_label: dict[str, list[PolicyRun]] = {candidate.label: [] for candidate in candidates}
    for run in runs:
        by_label[run.policy].append(run)
    main = _high if character.has_high else _low
    first = _least_violations(candidates, by_label, main, high_missed_ratio)
    second = first
    if character.has_both:
        second = _most_low_work(first.left, by_label)
    chosen = min(second.left, key=lambda candidate: candidate.complexity)
    reasons = [
        *_of_workload(character),
        chosen.why,
        *_of_choice(character, chosen, first, second, by_label),
        *_of_batches(chosen, candidates),
    ]
    if character.has_both:
        reasons += _of_rival(chosen, candidates, by_label)
    return Advice(chosen, tuple([_sentence(reason) for reason in reasons]))


def _high(run: PolicyRun) -> float:
    return run.high_violations


def _low(run: PolicyRun) -> float:
    return run.low_violations


def _low_work(run: PolicyRun) -> float:
    return run.low_goodput_work


def _mean(runs: Sequence[PolicyRun], of: Callable[[PolicyRun], float]) -> float:
    return fmean([of(run) for run in runs])


def _least_violations(
    candidates: Sequence[Candidate],
    runs: Runs,
    of: Callable[[PolicyRun], float],
    target_ratio: float,
) -> _Field:
    """Whoever meets the target, or is as good as the best."""
    best = min(candidates, key=lambda each: (_mean(runs[each.label], of), each.complexity))
    left = []
    for candidate in candidates:
        pairs = zip(runs[candidate.label], runs[best.label], strict=True)
        worse = estimate([of(own) - of(top) for own, top in pairs])
        is_near = _is_near(worse, _VIOLATIONS_NEAR, _VIOLATIONS_WITHIN_NOISE)
        if is_near or worse.mean + _mean(runs[best.label], of) <= target_ratio:
            left.append(candidate)
    return _Field(tuple(left), best)


def _most_low_work(candidates: Sequence[Candidate], runs: Runs) -> _Field:
    """Whoever gets as much low work done in time as the best."""
    best = max(candidates, key=lambda each: _mean(runs[each.label], _low_work))
    most = _mean(runs[best.label], _low_work)
    if most <= 0.0:
        return _Field(tuple(candidates), best)
    left = []
    for candidate in candidates:
        pairs = zip(runs[best.label], runs[candidate.label], strict=True)
        lost = estimate([(_low_work(top) - _low_work(own)) / most for top, own in pairs])
        if _is_near(lost, _WORK_NEAR, _WORK_WITHIN_NOISE):
            left.append(candidate)
    return _Field(tuple(left), best)


def _is_near(worse: Estimated, near: float, within_noise: float) -> bool:
    """Whether a disadvantage is small, or could be none."""
    could_be_none = worse.low is not None and worse.low <= 0.0
    return worse.mean <= near or (could_be_none and worse.mean <= within_noise)


# --- in words -------------------------------------------------------------------------------------


def _of_workload(character: Character) -> Iterator[str]:
    """What kind of workload it is."""
    load = f"{character.load_ratio:.0%} of what the devices can do"
    if character.has_both:
        yield f"two classes compete, {character.high_ratio:.0%} of the work high; together {load}"
    elif character.models == 1:
        yield f"one model, {load}"
    else:
        yield f"{character.models} models of one class, {load}"
    if character.has_both:
        yield (
            "slots all but preempt low work: it gets what high work leaves"
            if character.preempts
            else "slots cannot preempt: whatever is started slows its neighbours until it ends"
        )
    if character.moves:
        yield f"the load moves: up to {character.peak_ratio:.1f} times its mean"
    elif character.gaps_cv >= _BURSTY_CV_MIN:
        yield f"arrivals come in bursts: their gaps scatter {character.gaps_cv:.1f} times the mean"
    if character.gains:
        best = max(character.gains.values())
        yield (
            f"a full batch does up to {best:.1f} times the rows a time: with batches the load is "
            f"{character.batched_load_ratio:.0%}"
        )
    if character.noise_cv >= _NOISY_CV_MIN:
        yield f"times of one model vary by {character.noise_cv:.0%}"
    if character.batched_load_ratio > _OVERLOADED_RATIO:
        yield "it is more than the devices can do: something has to be given up whatever the policy"


def _of_choice(
    character: Character, chosen: Candidate, first: _Field, second: _Field, runs: Runs
) -> Iterator[str]:
    """Why this one and no other."""
    of = _high if character.has_high else _low
    word = "high " if character.has_both else ""
    own, least = _mean(runs[chosen.label], of), _mean(runs[first.best.label], of)
    if own <= least:
        yield f"it let down the fewest {word}requests, {own:.1%}"
    else:
        yield (
            f"it let down {own:.1%} of {word}requests, the best, `{first.best.label}`, "
            f"{least:.1%}: good enough, or too close to tell"
        )
    if character.has_both:
        yield _of_low_work(chosen, second.best, runs)
    others = [f"`{each.label}`" for each in second.left if each.label != chosen.label]
    if others:
        yield f"{', '.join(others)} did as well: this one is the simplest"


def _of_low_work(chosen: Candidate, best: Candidate, runs: Runs) -> str:
    most = _mean(runs[best.label], _low_work)
    if best.label == chosen.label or most <= 0.0:
        return "of those that are good enough it got most low work done in time"
    part = _mean(runs[chosen.label], _low_work) / most
    return f"it got {part:.1%} as much low work done in time as `{best.label}`, which got most"


def _of_batches(chosen: Candidate, candidates: Sequence[Candidate]) -> Iterator[str]:
    """What becomes of throughput under policies that know nothing of it."""
    has_waited = any(candidate.linger_ns for candidate in candidates)
    if has_waited and not chosen.linger_ns and chosen.settings["kind"] in _TAKE_WHAT_WAITS:
        yield (
            "whatever waits when a slot is free runs as one batch: that gives the throughput, and "
            "to wait for company gains nothing more"
        )


def _of_rival(chosen: Candidate, candidates: Sequence[Candidate], runs: Runs) -> Iterator[str]:
    """What it costs to spare high requests, where that is much."""
    rival = max(candidates, key=lambda each: _mean(runs[each.label], _low_work))
    own = _mean(runs[chosen.label], _low_work)
    most = _mean(runs[rival.label], _low_work)
    missed = f"{_mean(runs[rival.label], _high):.1%} of high requests let down"
    if own <= 0.0 < most:
        yield f"it gets no low work done in time; `{rival.label}` does, with {missed}"
    elif own > 0.0 and most >= _MUCH_MORE_RATIO * own:
        more = most / own - 1
        yield (
            f"`{rival.label}` gets {more:.0%} more low work done in time, with {missed}: if that "
            "is worth it, say so with --high-missed-ratio"
        )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
