"""`headway bench policies`: what is asked for, and how it is shown."""

import json
from pathlib import Path

import pytest
from tests.unit.bench.contest_words import a_run
from tests.unit.report.policy_runs import a_policy_run

from headway.bench import (
    CONTEST_FULL,
    CONTEST_POLICIES,
    MOVING,
    STATIONARY,
    ContestPlayed,
    ContestProgress,
    Measured,
    order_of,
)
from headway.cli import EXIT_OK, EXIT_USAGE, main, parser_of
from headway.cli import bench_policies as verb
from headway.units import NS_PER_S


def contest_of(*words):
    """What a command line asks for."""
    return verb._contest(parser_of("bench").parse_args(["policies", *words]))


def test_nothing_said_means_everything():
    """All mixes, with and without low slots that give way."""
    assert contest_of() == CONTEST_FULL
    assert CONTEST_FULL.mixes == (STATIONARY, *MOVING)


def test_words_choose_what_is_played():
    """Mixes, slots, seeds, lengths and loads are what was said; a mix said twice is one."""
    contest = contest_of(
        *("--mixes", "moving-2,stationary,moving-2", "--niced", "no", "--seeds", "3"),
        *("--duration", "8s", "--loads", "0.6, 1.2"),
    )
    assert [mix.name for mix in contest.mixes] == ["moving-2", "stationary"]
    assert contest.niced == (False,)
    assert (contest.seeds, contest.duration_ns) == (3, 8 * NS_PER_S)
    assert contest.loads == (0.6, 1.2)
    assert contest_of("--mixes", "moving").mixes == MOVING


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["policies", "--mixes", "best"], "no mix `best`"),
        (["policies", "--policies", "best"], "no policy `best`"),
        (["policies", "--loads", "much"], "much"),
        (["policies", "--configs", "pinned"], "says nothing about `bench policies`"),
        (["prediction", "--niced", "yes"], "says nothing about `bench prediction`"),
        (["policies", "--quick", "--policies", "fifo:low_max=2"], "no policy with the settings"),
    ],
)
def test_what_makes_no_sense_is_refused(words, message, capsys, monkeypatch):
    """Exit code 2, before anything is played."""
    monkeypatch.setattr(verb, "fetch", lambda cache: None)
    assert main(["bench", *words]) == EXIT_USAGE
    assert message in capsys.readouterr().err


@pytest.fixture
def contest_held(monkeypatch):
    """A contest that is over at once; what it was asked for."""
    asked = {}

    def hold_contest(contest, contenders, **options):
        asked.update(options, contest=contest, contenders=contenders)
        options["on_order"](order_of(contest, contenders, cache=options["cache"]))
        rows = [
            a_policy_run(policy=one.label, niced=niced, seed=1, failed=index)
            for niced in contest.niced
            for index, one in enumerate(contenders)
        ]
        options["on_news"](Measured(classes=(), capacity_ratios={}, others_cores=0.9))
        for row in rows:
            options["on_news"](ContestProgress(run=a_run(), done_ratio=0.5))
            options["on_news"](ContestPlayed(run=a_run(), row=row, took_ns=NS_PER_S, tries=1))
        return rows

    monkeypatch.setattr(verb, "fetch", lambda cache: None)
    monkeypatch.setattr("headway.bench.hold_contest", hold_contest)
    return asked


def test_json_has_rows_differences_and_runs(contest_held, capsys, tmp_path):
    """Under stable names, with what was asked for; words go to stderr, the plan's time first."""
    words = ["bench", "policies", "--quick", "--keep", str(tmp_path), "--format", "json"]
    assert main([*words, "--policies", "static-cap:low_max=2,headway"]) == EXIT_OK
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert list(data) == [
        *("mixes", "policies", "seeds", "duration_ns"),
        *("rows", "differences", "runs"),
    ]
    assert data["policies"]["static-cap:low_max=2"] == {"kind": "static-cap", "low_max": 2}
    assert [row["policy"] for row in data["rows"]] == ["static-cap:low_max=2", "headway"]
    assert data["rows"][0]["is_on_front"] is True
    assert data["differences"][0]["against"] == "static-cap:low_max=2"
    assert len(data["runs"]) == 2
    assert contest_held["folder"] == tmp_path
    first = captured.err.splitlines()[0]
    assert first.startswith("4 runs of real models: stationary, moving-1;")
    assert first.endswith("s in all")
    assert "other programs kept 0.90 cores busy" in captured.err
    assert "1 requests failed" in captured.err


def test_tables_show_policies_and_differences(contest_held, capsys):
    """All policies that ship, where none is said."""
    assert main(["bench", "policies", "--niced", "no"]) == EXIT_OK
    captured = capsys.readouterr()
    assert "m, not niced" in captured.out
    assert "paired difference" in captured.out
    assert [one.label for one in contest_held["contenders"]] == list(CONTEST_POLICIES)
    assert contest_held["folder"] is None
    assert "min in all" in captured.err


def test_plots_are_one_for_each_kind_of_slots(contest_held, capsys, tmp_path):
    """With the command that made them."""
    pytest.importorskip("matplotlib", reason="matplotlib draws the plots")
    words = ["bench", "policies", "--policies", "fifo,headway", "--plots", str(tmp_path)]
    assert main(words) == EXIT_OK
    assert sorted(path.name for path in Path(tmp_path).iterdir()) == [
        "frontier-level.png",
        "frontier-niced.png",
    ]
    assert f"plot: {tmp_path}/frontier-niced.png" in capsys.readouterr().err
