"""A whole campaign: recorded, judged, summed up and drawn.

Knows the order of things. Never a command line: who calls it shows the progress and the rows.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time_ns  # noqa: TID251 - times the predictors' answers
from typing import Final, NamedTuple

from headway.bench.campaign import Campaign, OnNews, carry_out, journals_of, orders_of
from headway.bench.judge import ORACLE, Factory, Judged, Judgement, judge, summarise
from headway.bench.plan import Shift
from headway.core import DeviceName, DeviceParams, Predictor
from headway.errors import ConfigError
from headway.predict import PREDICTORS as SHIPPED
from headway.predict import Recipe, build_predictor
from headway.report import (
    BoundPoint,
    ErrorStep,
    Observation,
    plot_bounds,
    plot_calibration,
    plot_errors,
    plot_learning,
)

__all__ = ["PREDICTORS", "Outcome", "draw", "run_campaign", "shipped"]

PREDICTORS: Final = (*SHIPPED[1:], SHIPPED[0])
"""All that ship, the baselines first."""
_CONFIDENCE: Final = 0.95
"""The predictors' own default."""
_ANY_DEVICE: Final = DeviceParams(name=DeviceName("cpu:0"), slot_lanes=(0,))

OnJudged = Callable[[Path], None]


class Outcome(NamedTuple):
    """What a campaign came to."""

    judged: list[Judged]
    rows: Judgement


def run_campaign(
    campaign: Campaign,
    predictors: Sequence[str],
    *,
    folder: Path,
    cache: Path,
    build: Factory,
    on_news: OnNews,
    on_judged: OnJudged,
) -> Outcome:
    """Record everything, then let every predictor listen to it.

    Args:
        campaign: what is recorded.
        predictors: names.
        folder: where the recordings go.
        cache: where the fetched models are.
        build: makes a predictor.
        on_news: is told what the recorder tells.
        on_judged: is told of each recording that was judged.

    Raises:
        HeadwayError: the recorder failed, or a predictor does not exist.
    """
    orders = orders_of(campaign, folder, cache)
    for name in predictors:
        build(Recipe(kind=name), [_ANY_DEVICE])  # or it would be missed after a quarter of an hour
    for order in orders:
        carry_out(order, on_news)
    judged = []
    for journal in journals_of(orders):
        judged.append(judge(journal, predictors, build, thread_time_ns))
        on_judged(journal)
    return Outcome(judged, summarise(judged, campaign.configs[0]))


def shipped(recipe: Recipe, devices: Sequence[DeviceParams]) -> Predictor:
    """A predictor as the server makes it.

    Raises:
        ConfigError: there is none of this name.
        HeadwayError: it needs a package that is not installed.
    """
    if recipe.kind not in SHIPPED:
        hint = f"valid: {', '.join(PREDICTORS)}"
        raise ConfigError(
            f"there is no predictor `{recipe.kind}`",
            path="predictor.kind",
            value=recipe.kind,
            hint=hint,
        )
    return build_predictor(recipe, devices)


def draw(outcome: Outcome, folder: Path, command: str) -> list[Path]:
    """Draw errors, calibration, learning and bounds of the first set-up.

    Returns:
        The files.
    """
    first = outcome.judged[0].sidecar.config
    steady = [
        one
        for one in outcome.judged
        if one.sidecar.config == first and one.sidecar.shift is Shift.NONE
    ]
    highest = max(one.sidecar.utilisation for one in steady)
    paths = [folder / f"{name}.png" for name in ("errors", "calibration", "learning", "bounds")]
    where = f"set-up {first}"
    plot_errors(
        _errors(outcome.rows, first),
        paths[0],
        title=f"Error of the predicted execution time, {where}",
        command=command,
    )
    plot_calibration(
        _observations([one for one in steady if one.sidecar.utilisation == highest]),
        paths[1],
        title=f"Predicted and actual execution at {100 * highest:.0f} %, {where}",
        command=command,
    )
    plot_learning(
        _steps(outcome.rows),
        paths[2],
        title=f"Error while learning, no profile, {where}",
        command=command,
    )
    plot_bounds(
        _bounds(outcome.rows, first),
        paths[3],
        confidence=_CONFIDENCE,
        title=f"Bounds on the service time, {where}",
        command=command,
    )
    return paths


def _errors(rows: Judgement, config: str) -> dict[str, dict[float, float]]:
    errors: dict[str, dict[float, float]] = {}
    for row in rows.prediction:
        if row.config == config:
            errors.setdefault(row.predictor, {})[row.utilisation] = row.mape
    return errors


def _observations(judged: Sequence[Judged]) -> dict[str, list[Observation]]:
    observations: dict[str, list[Observation]] = {}
    for one in judged:
        for name, own in one.with_profile.by_execution.items():
            observations.setdefault(name, []).extend(own)
    return observations


def _steps(rows: Judgement) -> dict[str, list[ErrorStep]]:
    steps: dict[str, list[ErrorStep]] = {}
    for row in rows.prediction_cold_start:
        if not row.has_profile:
            step = ErrorStep(row.seen_min, row.seen_max, row.executions, row.mape)
            steps.setdefault(row.predictor, []).append(step)
    return steps


def _bounds(rows: Judgement, config: str) -> dict[str, list[BoundPoint]]:
    points: dict[str, list[BoundPoint]] = {}
    for row in rows.prediction:
        if row.config == config and row.predictor != ORACLE:
            assert row.coverage is not None, "only the oracle gives no bound"
            assert row.width is not None, "only the oracle gives no bound"
            points.setdefault(row.predictor, []).append(BoundPoint(row.coverage, row.width))
    return points
