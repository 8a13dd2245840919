"""From recordings to figures: every predictor on every recording, and the rows of the results.

Knows journals, sidecars and predictors by name. Never how a recording was made.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from headway.bench.oracle import Sharing, busy_ratios, foresee_all
from headway.bench.orders import SIDECARS, Sidecar
from headway.bench.plan import Shift
from headway.bench.setups import find_setup
from headway.bench.shadows import Clock, ShadowLog, listen
from headway.core import DeviceName, DeviceParams, Predictor
from headway.observe import read_journal
from headway.predict import ModelProfile, Recipe
from headway.report import Observation, error_by_seen, score, settled_after
from headway.units import NS_PER_S

__all__ = [
    "ORACLE",
    "ColdRow",
    "Factory",
    "Judged",
    "Judgement",
    "PredictionRow",
    "ResponseRow",
    "ScoreRow",
    "ShiftRow",
    "judge",
    "listen_to",
    "score_rows",
    "summarise",
]

ORACLE: Final = "oracle"
"""Name of the floor among the predictors; no predictor has it."""
_EDGES: Final = (0, 10, 20, 50, 100, 200, 500)
"""Where the steps begin in which the error is shown against the observations seen."""
_WINDOW_NS: Final = 5 * NS_PER_S
_FIRST: Final = 20
"""Forecasts after a shift that show what it did."""

Factory = Callable[[Recipe, Sequence[DeviceParams]], Predictor]
"""Makes a predictor."""


class Judged(NamedTuple):
    """One recording and what every predictor said of it."""

    sidecar: Sidecar
    with_profile: ShadowLog
    """The oracle among them."""
    without_profile: ShadowLog
    """Its forecasts were timed."""
    busy_ratios: list[float]
    """Of the cores, in windows of five seconds."""


class PredictionRow(Struct, frozen=True, kw_only=True):
    """How right one predictor was about execution times under one load; see `report.Scores`."""

    config: str
    utilisation: float
    predictor: str
    executions: int
    mape: float
    p95_error: float
    bias: float
    under: float
    coverage: float | None
    """Of the service time's bound; None for the oracle, which gives none."""
    coverage_min: float | None
    """Of all classes with 100 executions."""
    coverage_max: float | None
    width: float | None
    cost_us: float | None
    """Processor time of one forecast for a candidate and all that run."""
    busy: float
    """Part of the cores that had a batch to run, the mean of the 5 s windows."""
    busy_min: float
    busy_max: float
    """Of those windows."""
    others_cores: float | None
    """What other programs used, the most of all seeds."""
    seeds: int


class ResponseRow(Struct, frozen=True, kw_only=True):
    """How right one predictor was, at a request's admission, about the time to its answer."""

    config: str
    utilisation: float
    predictor: str
    requests: int
    mape: float
    p95_error: float
    bias: float
    under: float
    coverage: float
    coverage_min: float | None
    coverage_max: float | None
    width: float
    seeds: int


class ColdRow(Struct, frozen=True, kw_only=True):
    """The error while so much had been seen, all loads and seeds of the first set-up."""

    predictor: str
    has_profile: bool
    seen_min: int
    seen_max: int
    """Exclusive."""
    executions: int
    mape: float
    settled_after: int | None
    """Executions until the error is within a fifth of what it comes to."""


class ShiftRow(Struct, frozen=True, kw_only=True):
    """What a change half way did to one predictor, all seeds together."""

    shift: Shift
    predictor: str
    mape_before: float
    """Over the second half of the time before."""
    mape_first: float
    """Over the first 20 forecasts after, of each seed."""
    mape_settled: float
    """Over the second half of the time after."""
    settled_after: int | None
    """Executions until the error is within a fifth of that."""
    coverage_after: float
    """Over all of the time after."""
    seeds: int


class ScoreRow(Struct, frozen=True, kw_only=True):
    """How right one predictor was over one journal."""

    of: str
    """`execution`, predicted when a batch starts; or `response`, predicted at admission."""
    predictor: str
    count: int
    mape: float
    p95_error: float
    bias: float
    under: float
    coverage: float
    coverage_min: float | None
    coverage_max: float | None
    width: float
    cost_us: float | None
    """Processor time of one forecast for a candidate and all that run."""


class Judgement(Struct, frozen=True, kw_only=True):
    """All rows of all results."""

    prediction: list[PredictionRow]
    response_prediction: list[ResponseRow]
    prediction_cold_start: list[ColdRow]
    prediction_shift: list[ShiftRow]


def judge(journal: Path, predictors: Sequence[str], build: Factory, clock: Clock) -> Judged:
    """Have every predictor listen to a recording, with what was measured before and without.

    Args:
        journal: with its sidecar beside it.
        predictors: names.
        build: makes one.
        clock: times their answers.

    Raises:
        ConfigError: the journal or its sidecar cannot be read, or is of another version.
    """
    sidecar = SIDECARS.decode(journal.with_suffix(".json").read_bytes())
    informed = listen_to(journal, predictors, build, profiles=sidecar.profiles)
    ignorant = listen_to(journal, predictors, build, profiles=_nothing, clock=clock)
    sharing = _sharing_of(sidecar)
    informed.by_execution[ORACLE] = foresee_all(informed.executions, sidecar.solo_ns, sharing)
    busy = busy_ratios(
        informed.executions,
        sharing,
        from_ns=sidecar.load_at_ns,
        to_ns=sidecar.load_at_ns + sidecar.duration_ns,
        step_ns=min(_WINDOW_NS, sidecar.duration_ns),
    )
    return Judged(sidecar, informed, ignorant, busy)


def _nothing(device: DeviceName) -> Sequence[ModelProfile]:  # noqa: ARG001 - as `profiles`
    return ()


def listen_to(
    journal: Path,
    predictors: Sequence[str],
    build: Factory,
    *,
    profiles: Callable[[DeviceName], Sequence[ModelProfile]] | None = None,
    clock: Clock | None = None,
) -> ShadowLog:
    """Have predictors listen to any journal.

    Args:
        journal: of a live or simulated run.
        predictors: names.
        build: makes one.
        profiles: what was measured before on a device; None takes what the run itself had.
        clock: times their answers; None does not.

    Raises:
        ConfigError: not a journal, of another version, or a predictor does not exist.
    """
    header, records = read_journal(journal)
    records.close()
    devices = header.params.devices
    recipe = replace(header.predictor, state={}, trains_inline=True)
    if profiles is not None:
        recipe = replace(recipe, profiles=tuple(profiles(devices[0].name)))
    shadows = {name: build(replace(recipe, kind=name), devices) for name in predictors}
    return listen(journal, shadows, clock)


def score_rows(log: ShadowLog) -> list[ScoreRow]:
    """What each predictor was worth over one journal; nothing of what was never predicted."""
    rows = []
    for of, logs in (("execution", log.by_execution), ("response", log.by_response)):
        for name, observations in logs.items():
            if observations:
                costs_ns = log.cost_ns.get(name) if of == "execution" else None
                cost_us = sum(costs_ns) / len(costs_ns) / 1e3 if costs_ns else None
                expired = log.by_expired.get(name, ()) if of == "response" else ()
                scores = _scores(observations, expired)
                rows.append(ScoreRow(of=of, predictor=name, cost_us=cost_us, **scores))
    return rows


def summarise(judged: Sequence[Judged], first_config: str) -> Judgement:
    """All rows.

    Args:
        judged: every recording.
        first_config: the set-up of which cold start and shifts are told.
    """
    steady = [one for one in judged if one.sidecar.shift is Shift.NONE]
    loads: dict[tuple[str, float], list[Judged]] = {}
    for one in steady:
        loads.setdefault((one.sidecar.config, one.sidecar.utilisation), []).append(one)
    shifted: dict[Shift, list[Judged]] = {}
    for one in judged:
        if one.sidecar.shift is not Shift.NONE:
            shifted.setdefault(one.sidecar.shift, []).append(one)
    return Judgement(
        prediction=[row for runs in loads.values() for row in _prediction_rows(runs)],
        response_prediction=[row for runs in loads.values() for row in _response_rows(runs)],
        prediction_cold_start=_cold_rows(
            [one for one in steady if one.sidecar.config == first_config]
        ),
        prediction_shift=[row for runs in shifted.values() for row in _shift_rows(runs)],
    )


def _sharing_of(sidecar: Sidecar) -> Sharing:
    setup = find_setup(sidecar.config)
    return Sharing(setup.is_pinned, sidecar.cores, setup.intra_op_threads)


def _pooled(logs: Iterable[Mapping[str, list[Observation]]], name: str) -> list[Observation]:
    return [seen for log in logs for seen in log.get(name, ())]


def _scores(observations: Sequence[Observation], expired: Sequence[Observation]) -> dict[str, Any]:
    """By name: errors and width of what was answered, coverage also of what expired unanswered."""
    bounds = score([*observations, *expired])
    return asdict(score(observations)) | {
        "coverage": bounds.coverage,
        "coverage_min": bounds.coverage_min,
        "coverage_max": bounds.coverage_max,
    }


def _names(runs: Sequence[Judged]) -> list[str]:
    return list(runs[0].with_profile.by_execution)


def _prediction_rows(runs: Sequence[Judged]) -> Iterable[PredictionRow]:
    sidecar = runs[0].sidecar
    busy = [ratio for one in runs for ratio in one.busy_ratios]
    others = [o for one in runs if (o := one.sidecar.others_cores) is not None]
    for name in _names(runs):
        observations = _pooled((one.with_profile.by_execution for one in runs), name)
        if not observations:
            continue
        scores = asdict(score(observations))
        costs_ns = [ns for one in runs for ns in one.without_profile.cost_ns.get(name, ())]
        row = PredictionRow(
            config=sidecar.config,
            utilisation=sidecar.utilisation,
            predictor=name,
            executions=scores.pop("count"),
            **scores,
            cost_us=sum(costs_ns) / len(costs_ns) / 1e3 if costs_ns else None,
            busy=sum(busy) / len(busy),
            busy_min=min(busy),
            busy_max=max(busy),
            others_cores=max(others, default=None),
            seeds=len(runs),
        )
        if name == ORACLE:
            row = replace(row, coverage=None, coverage_min=None, coverage_max=None, width=None)
        yield row


def _response_rows(runs: Sequence[Judged]) -> Iterable[ResponseRow]:
    sidecar = runs[0].sidecar
    for name in runs[0].with_profile.by_response:
        observations = _pooled((one.with_profile.by_response for one in runs), name)
        if observations:
            expired = _pooled((one.with_profile.by_expired for one in runs), name)
            scores = _scores(observations, expired)
            yield ResponseRow(
                config=sidecar.config,
                utilisation=sidecar.utilisation,
                predictor=name,
                requests=scores.pop("count"),
                **scores,
                seeds=len(runs),
            )


def _cold_rows(runs: Sequence[Judged]) -> list[ColdRow]:
    if not runs:
        return []
    rows = []
    for has_profile in (True, False):
        logs = [one.with_profile if has_profile else one.without_profile for one in runs]
        for name in logs[0].by_execution:
            if name == ORACLE:
                continue
            observations = _pooled((log.by_execution for log in logs), name)
            settled = settled_after(observations)
            rows += [
                ColdRow(
                    predictor=name,
                    has_profile=has_profile,
                    seen_min=step.seen_min,
                    seen_max=step.seen_max,
                    executions=step.observations,
                    mape=step.mape,
                    settled_after=settled,
                )
                for step in error_by_seen(observations, _edges(observations))
            ]
    return rows


def _edges(observations: Sequence[Observation]) -> list[int]:
    """The last step ends with the last that was seen."""
    end = max((seen.seen for seen in observations), default=0) + 1
    return [*(edge for edge in _EDGES if edge < end), end]


class _Sides(NamedTuple):
    """Forecasts before and after a shift, counted from it."""

    before: list[Observation]
    after: list[Observation]


def _sides(run: Judged, name: str) -> _Sides:
    """Split where the first execution started after the shift."""
    at_ns = run.sidecar.shift_at_ns
    log = run.with_profile
    after = [e.seen for e in log.executions if at_ns is not None and e.started_at_ns >= at_ns]
    first = min(after, default=len(log.executions))
    observations = log.by_execution[name]
    return _Sides(
        [seen for seen in observations if seen.seen < first],
        [seen._replace(seen=seen.seen - first) for seen in observations if seen.seen >= first],
    )


def _shift_rows(runs: Sequence[Judged]) -> Iterable[ShiftRow]:
    for name in _names(runs):
        sides = [_sides(one, name) for one in runs]
        after = [seen for side in sides for seen in side.after]
        before = [seen for side in sides for seen in _second_half(side.before)]
        settled = [seen for side in sides for seen in _second_half(side.after)]
        if not (before and settled):
            continue
        settled_mape = score(settled).mape
        yield ShiftRow(
            shift=runs[0].sidecar.shift,
            predictor=name,
            mape_before=score(before).mape,
            mape_first=score([seen for seen in after if seen.seen < _FIRST]).mape,
            mape_settled=settled_mape,
            settled_after=settled_after(after, settled=settled_mape),
            coverage_after=score(after).coverage,
            seeds=len(runs),
        )


def _second_half(observations: Sequence[Observation]) -> list[Observation]:
    ordered = sorted(observations, key=lambda seen: seen.seen)
    return ordered[len(ordered) // 2 :]
