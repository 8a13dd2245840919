"""How right the predictors are: real models under load, every predictor on the same executions.

Records real models with open-loop Poisson arrivals at several utilisations and seeds, under
several ways to share the cores, then lets every predictor listen to each recording. Four results:
`prediction` (execution time, predicted when a batch starts), `response_prediction` (time to the
answer, predicted at admission), `prediction_cold_start` (error against observations seen) and
`prediction_shift` (what happens when load or machine change half way).

Usage: `python benchmarks/prediction.py [--quick] [--plots DIR] [--keep DIR] [--predictors NAMES]
[--format table|json]`. A full run puts the documents into `benchmarks/results/`, one a result, and
takes about a quarter of an hour; it needs the extras `demo` and `boosted`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from harness import Row, publish, quick_parser
from msgspec import Struct
from msgspec.structs import asdict

from headway.bench import (
    FULL,
    PREDICTORS,
    QUICK,
    Campaign,
    News,
    Outcome,
    Recorded,
    SoloMeasured,
    draw,
    run_campaign,
    shipped,
)
from headway.config import cache_folder
from headway.demo import fetch_models

COLUMNS = {
    "prediction": (
        "config",
        "utilisation",
        "predictor",
        "executions",
        "mape",
        "p95_error",
        "bias",
        "under",
        "coverage",
        "coverage_min",
        "coverage_max",
        "width",
        "cost_us",
        "busy",
        "others_cores",
    ),
    "response_prediction": (
        "config",
        "utilisation",
        "predictor",
        "requests",
        "mape",
        "p95_error",
        "bias",
        "under",
        "coverage",
        "width",
    ),
    "prediction_cold_start": (
        "predictor",
        "has_profile",
        "seen_min",
        "seen_max",
        "executions",
        "mape",
        "settled_after",
    ),
    "prediction_shift": (
        "shift",
        "predictor",
        "mape_before",
        "mape_first",
        "mape_settled",
        "settled_after",
        "coverage_after",
    ),
}
NOTES = (
    "utilisation is the work offered over what the cores do when they are never idle; busy is the "
    "part of the cores that had a batch to run, the mean over windows of 5 s.",
    "All predictors listened to the same executions, with a profile of each class measured before "
    "the load; in prediction_cold_start also without.",
    "The oracle knows every later overlap and shares each core evenly: the floor. It does not know "
    "other programs, so after the shift `core` it is no floor.",
    "coverage and width are of the bound on the service time, at 95 %; coverage_min and "
    "coverage_max are over the classes with at least 100 executions.",
    "In response_prediction a request that expired after its bound counts as a broken bound, and "
    "in nothing else.",
    "cost_us is the processor time of one forecast for a candidate and all that run beside it.",
    "On a CPU it is the sharing of cores that is predicted, hardly caches or bandwidth.",
)


def main() -> int:
    """Record, judge, and put the figures where they are asked for."""
    arguments = _arguments()
    campaign = QUICK if arguments.quick else FULL
    cache = cache_folder()
    fetch_models(cache)
    keep = arguments.keep
    with nullcontext(keep) if keep else tempfile.TemporaryDirectory() as folder:
        outcome = _measure(campaign, arguments.predictors.split(","), Path(folder), cache)
    for name, columns in COLUMNS.items():
        rows = [_row(row) for row in getattr(outcome.rows, name)]
        if rows:
            publish(name, rows, columns, arguments, notes=NOTES)
    if arguments.plots is not None:
        command = shlex.join(["python", "benchmarks/prediction.py", *sys.argv[1:]])
        draw(outcome, Path(arguments.plots), command)
    return 0


def _arguments() -> argparse.Namespace:
    parser = quick_parser(__doc__, "one load and one seed, one set-up, no shifts")
    parser.add_argument("--plots", metavar="DIR", help="write pictures there")
    parser.add_argument("--keep", metavar="DIR", help="leave the recordings there")
    parser.add_argument("--predictors", metavar="NAMES", default=",".join(PREDICTORS))
    return parser.parse_args()


def _measure(campaign: Campaign, predictors: list[str], folder: Path, cache: Path) -> Outcome:
    return run_campaign(
        campaign,
        predictors,
        folder=folder,
        cache=cache,
        build=shipped,
        on_news=_tell,
        on_judged=lambda journal: print(f"judged {journal.stem}", file=sys.stderr, flush=True),
    )


def _tell(news: News) -> None:
    if isinstance(news, Recorded):
        words = f"recorded {Path(news.path).stem}: own work on {news.busy_ratio:.2f} of the cores"
    elif isinstance(news, SoloMeasured):
        words = f"timed {len(news.classes)} classes alone, capacity {news.capacity_ratio:.2f}"
    else:
        return
    print(f"{words}, others used {news.others_cores} cores", file=sys.stderr, flush=True)


def _row(row: Struct) -> Row:
    """Four digits: more are not measured."""
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in asdict(row).items()
    }


if __name__ == "__main__":
    sys.exit(main())
