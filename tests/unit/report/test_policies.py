"""Policies side by side: means, the front of a mix, and differences on the same arrivals."""

import pytest
from rich.console import Console
from tests.unit.report.policy_runs import a_policy_run

from headway.report import (
    ALL_MOVING,
    compare_policies,
    differences_table,
    policies_table,
    summarise_policies,
)


def front(**points):
    """Summaries of policies by their high violations, low work and low requests."""
    runs = [
        a_policy_run(policy=name, high_violations=high, low_goodput_work=work, low_goodput_rps=rps)
        for name, (high, work, rps) in points.items()
    ]
    return {row.policy: row for row in summarise_policies(runs)}


def shown(table):
    """A table as a wide terminal shows it."""
    console = Console(width=250, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_summary_is_the_mean_over_seeds_with_its_interval():
    """What only some runs have is the mean of those; of other programs' cores it is the most."""
    (row,) = summarise_policies(
        [
            a_policy_run(seed=1, high_violations=0.1, error_mean=0.2, others_cores=0.3),
            a_policy_run(seed=2, high_violations=0.2, error_mean=None, others_cores=None),
            a_policy_run(seed=3, high_violations=0.3, error_mean=0.4, others_cores=0.1),
        ]
    )
    assert row.seeds == 3
    assert row.high_violations == pytest.approx(0.2)
    half = 4.303 * 0.1 / 3**0.5
    assert row.high_violations_from == pytest.approx(0.2 - half, abs=1e-4)
    assert row.high_violations_to == pytest.approx(0.2 + half, abs=1e-4)
    assert row.error_mean == pytest.approx(0.3)
    assert row.others_cores == 0.3
    assert row.low_p50_ms is None


def test_one_seed_has_no_interval():
    """Its mean is all that is known."""
    (row,) = summarise_policies([a_policy_run()])
    assert (row.high_violations, row.high_violations_from, row.high_violations_to) == (
        *(0.1, None),
        None,
    )


def test_front_is_who_no_other_beats_in_both():
    """Fewer violations at the same work beats; more work for more violations does not."""
    rows = front(
        careful=(0.01, 0.4, 9.0),
        bold=(0.05, 0.6, 3.0),
        poor=(0.05, 0.4, 2.0),
        twin=(0.01, 0.4, 9.0),
    )
    assert [name for name, row in rows.items() if row.is_on_front] == ["careful", "bold", "twin"]
    assert rows["poor"].dominated_by == ("careful", "bold", "twin")
    # By requests the careful one serves three times as many, if small ones.
    assert rows["bold"].dominated_by_rps == ("careful", "twin")


def test_rivals_are_of_the_same_mix_load_and_slots():
    """A better figure elsewhere is no better policy."""
    rows = summarise_policies(
        [
            a_policy_run(policy="a", high_violations=0.3),
            a_policy_run(policy="b", mix="n", high_violations=0.1),
            a_policy_run(policy="b", niced=False, high_violations=0.1),
            a_policy_run(policy="b", load=0.6, high_violations=0.1),
        ]
    )
    assert all(row.is_on_front for row in rows)
    assert len(rows) == 4


def test_differences_are_paired_by_seed():
    """What differs between seeds cancels out; a seed without its pair is left out."""
    runs = [
        a_policy_run(policy="fifo", seed=seed, high_violations=0.2 + 0.1 * seed)
        for seed in (1, 2, 3)
    ]
    runs += [
        a_policy_run(policy="headway", seed=seed, high_violations=0.1 + 0.1 * seed)
        for seed in (1, 2, 3, 4)
    ]
    (row,) = compare_policies(runs, policy="headway")
    assert (row.policy, row.against, row.pairs) == ("headway", "fifo", 3)
    assert row.high_violations_difference == pytest.approx(-0.1)
    assert row.high_violations_difference_to == pytest.approx(-0.1)
    assert row.high_violations_relative == pytest.approx(-0.25)
    assert row.low_goodput_work_relative == pytest.approx(0.0)


def test_moving_mixes_are_also_taken_together():
    """A pair is then a mix and a seed; mixes that do not move are no part of it."""
    runs = [
        a_policy_run(mix=mix, policy=policy, seed=seed, waste_ratio=waste)
        for mix in ("stationary", "moving-1", "moving-2")
        for policy, waste in (("fifo", 0.3), ("headway", 0.1))
        for seed in (1, 2)
    ]
    rows = compare_policies(runs, policy="headway", moving=["moving-1", "moving-2"])
    assert [(row.mix, row.pairs) for row in rows] == [
        ("stationary", 2),
        ("moving-1", 2),
        ("moving-2", 2),
        (ALL_MOVING, 4),
    ]
    assert rows[-1].waste_difference == pytest.approx(-0.2)
    assert compare_policies(runs, policy="edf") == []


def test_table_has_a_section_for_each_contest():
    """The front is marked, intervals stand behind, and columns of nothing are not there."""
    runs = [
        a_policy_run(policy=policy, niced=niced, seed=seed, high_violations=high + seed / 100)
        for niced in (True, False)
        for policy, high in (("fifo", 0.3), ("headway", 0.0))
        for seed in (1, 2)
    ]
    text = shown(policies_table(summarise_policies(runs), title="contest"))
    assert text.count("m, niced") == text.count("m, not niced") == 1
    assert "31.5 ±" in text
    line = next(line for line in text.splitlines() if "headway" in line)
    assert "*" in line
    assert "oracle" not in text
    assert "low p50" not in text


def test_differences_are_shown_in_points_with_their_interval():
    """A single pair has none, and nothing relative to nothing."""
    many = [
        a_policy_run(policy=policy, seed=seed, high_violations=high * seed)
        for policy, high in (("fifo", 0.2), ("headway", 0.1))
        for seed in (1, 2, 3)
    ]
    text = shown(differences_table(compare_policies(many, policy="headway")))
    assert "-20.0 [" in text
    one = [a_policy_run(policy="headway"), a_policy_run(high_violations=0.0)]
    text = shown(differences_table(compare_policies(one, policy="headway")))
    assert "+10.0" in text
    assert "–" in text
