"""What a contest plays, in which order, and what it takes from a folder of an earlier one."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.bench.contest_words import a_mix, a_run
from tests.unit.report.policy_runs import a_policy_run

from headway.bench import (
    CONTEST_FULL,
    CONTEST_POLICIES,
    CONTEST_QUICK,
    STATIONARY,
    Contender,
    Contest,
    ContestPlayed,
    ContestProgress,
    Measured,
    expected_ns,
    hold_contest,
    order_of,
)
from headway.bench.contest import CONTEST_NEWS, CONTEST_ORDERS, ROWS_FILE
from headway.cli.arguments import policy_flag
from headway.errors import ConfigError
from headway.units import NS_PER_S

FIFO = Contender("fifo", {"kind": "fifo"})
CLOCKWORK = Contender("clockwork", {"kind": "clockwork"})
CONTEST = Contest(mixes=(a_mix(),), seeds=2, duration_ns=2 * NS_PER_S)


def order(contest=CONTEST, contenders=(FIFO, CLOCKWORK), **words):
    """What is played."""
    return order_of(contest, contenders, cache=Path("models"), **words)


def test_policies_play_in_turn_and_every_other_seed_the_other_way_round():
    """First with slots that are told the class, then without."""
    assert [(run.seed, run.niced, run.policy) for run in order().runs] == [
        (1, True, "fifo"),
        (1, True, "clockwork"),
        (1, False, "fifo"),
        (1, False, "clockwork"),
        (2, True, "clockwork"),
        (2, True, "fifo"),
        (2, False, "clockwork"),
        (2, False, "fifo"),
    ]


def test_settings_say_whether_slots_are_told():
    """Also for a policy that would not by itself; the predictor is the policy's own."""
    runs = order().runs
    assert {(run.niced, run.settings["class_slots"]) for run in runs} == {
        (True, True),
        (False, False),
    }
    assert {run.policy: run.predictor for run in runs} == {"fifo": "headway", "clockwork": "max10"}


def test_loads_are_for_mixes_that_do_not_move():
    """One that moves goes through its own, once."""
    contest = msgspec.structs.replace(CONTEST, mixes=(STATIONARY, a_mix()), loads=(0.6, 1.2))
    by_mix = {}
    for run in order(contest).runs:
        by_mix.setdefault(run.mix, set()).add(run.load)
    assert by_mix == {"stationary": {0.6, 1.2}, "m": {None}}
    (own,) = {run.load for run in order(msgspec.structs.replace(contest, loads=())).runs} - {None}
    assert own == 0.88


def test_journals_have_names_of_their_own(tmp_path):
    """Where they are kept at all."""
    assert {run.journal for run in order().runs} == {None}
    kept = [run.journal for run in order(journals=tmp_path).runs]
    assert len(set(kept)) == len(kept)
    assert f"{tmp_path}/m-level-clockwork-s2.jsonl" in kept


def test_policies_that_ship_take_part():
    """Every one exists with the settings that it is named with."""
    flags = [policy_flag(text) for text in CONTEST_POLICIES]
    contenders = [Contender(flag.text, flag.settings) for flag in flags]
    full = order(CONTEST_FULL, contenders)
    assert len(full.runs) == len(CONTEST_POLICIES) * len(CONTEST_FULL.mixes) * 2 * 5
    assert expected_ns(full) > len(full.runs) * 12 * NS_PER_S
    assert expected_ns(order(CONTEST_QUICK)) < 60 * NS_PER_S


def test_settings_that_a_policy_does_not_have_are_refused():
    """Before anything is played."""
    with pytest.raises(ConfigError, match="no policy with the settings"):
        order(contenders=[Contender("fifo", {"kind": "fifo", "low_max": 2})])


def a_played(run):
    """It came to its end."""
    row = a_policy_run(mix=run.mix, policy=run.policy, niced=run.niced, seed=run.seed)
    return ContestPlayed(run=run, row=row, took_ns=1, tries=1)


def test_what_was_played_is_not_played_again(tmp_path):
    """A folder that has every row needs no process; rows of other contests are left out."""
    played = [a_played(run) for run in order().runs]
    stray = a_played(a_run(mix="other"))
    lines = [msgspec.json.encode(one) for one in (*played, stray)]
    (tmp_path / ROWS_FILE).write_bytes(b"\n".join(lines) + b"\n")
    orders = []
    rows = hold_contest(
        CONTEST,
        [FIFO, CLOCKWORK],
        cache=tmp_path,
        folder=tmp_path,
        on_order=orders.append,
        on_news=lambda news: pytest.fail(f"nothing is played, but {news}"),
    )
    assert rows == [one.row for one in played]
    assert [len(one.runs) for one in orders] == [0]
    assert len(order(played=played[:3]).runs) == 5


def test_messages_survive_the_way():
    """An order and each kind of news arrive as they were sent."""
    sent = order()
    assert CONTEST_ORDERS.decode(msgspec.json.encode(sent)) == sent
    run = a_run()
    for news in (
        Measured(classes=(), capacity_ratios={"m": 0.9}, others_cores=None),
        ContestProgress(run=run, done_ratio=0.5),
        a_played(run),
    ):
        assert CONTEST_NEWS.decode(msgspec.json.encode(news)) == news


def test_run_is_named_for_people():
    """With its load where it has one."""
    assert a_run().words == "m, fifo, seed 1"
    assert a_run(load=0.88).words == "m at 88 %, fifo, seed 1"
