"""The demo's result in words and as a document."""

import json

import pytest

from headway.core import ModelName, TenantId, TierName
from headway.demo import CheckResult, DemoResult
from headway.demo.outcome import Turn, in_words, percent
from headway.report import Summary, summarise
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Outcome, Sample

BUDGETS_NS = {TierName("speech"): 50 * NS_PER_MS, TierName("bulk"): NS_PER_S}


def samples_of(tier: str, *, good: int, dropped: int) -> list[Sample]:
    outcomes = [Outcome.COMPLETED] * good + [Outcome.EXPIRED] * dropped
    return [
        Sample(
            model=ModelName("m"),
            tier=TierName(tier),
            tenant=TenantId("default"),
            intended_at_ns=0,
            sent_at_ns=0,
            done_at_ns=20 * NS_PER_MS,
            outcome=outcome,
            budget_ns=BUDGETS_NS[TierName(tier)],
        )
        for outcome in outcomes
    ]


def a_summary(speech_dropped: int, bulk_dropped: int) -> Summary:
    """Of a hundred requests in each tier, so many were dropped."""
    return summarise(
        samples_of("speech", good=100 - speech_dropped, dropped=speech_dropped)
        + samples_of("bulk", good=100 - bulk_dropped, dropped=bulk_dropped),
        duration_ns=NS_PER_S,
    )


def a_result(*, passed: bool = True) -> DemoResult:
    turns = [
        Turn(policy=policy, runs=[], summary=summary)
        for policy, summary in (("fifo", a_summary(90, 5)), ("priority", a_summary(1, 30)))
    ]
    check = CheckResult(name="c", models=("m",), passed=passed, seen="a", expected="b")
    return DemoResult(
        command="headway demo",
        machine="2 cores",
        date="2030-01-01T00:00:00+00:00",
        seed=1,
        core_count=2,
        port=8000,
        solo_ns={"m": 10 * NS_PER_MS},
        budgets_ns=BUDGETS_NS,
        capacity_rps=100.0,
        offered_rps=120.0,
        load_ratio=1.2,
        checks=[check],
        turns=turns,
        others_cores={"measuring": None, "fifo": 0.25},
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            (90, 5),
            (1, 30),
            "Fewer requests were let down in speech (1.0 % instead of 90 %); "
            "the price was paid in bulk (30 % instead of 5.0 %).",
        ),
        (
            (90, 50),
            (0, 20),
            "Fewer requests were let down in speech (0 % instead of 90 %) and bulk (20 % instead "
            "of 50 %); no tier paid for it.",
        ),
        (
            (0, 0),
            (0, 9),
            "It helped no tier, and let more requests down in bulk (9.0 % instead of 0 %).",
        ),
        (
            (1, 5),
            (1, 5),
            "It made no difference that matters: this load was not too much for either.",
        ),
    ],
)
def test_in_words_tells_gain_and_price(
    before: tuple[int, int], after: tuple[int, int], words: str
) -> None:
    """Who gained and who paid, with both numbers, whichever way it went."""
    assert in_words(a_summary(*before), a_summary(*after)) == words


def test_percent_shows_what_is_small() -> None:
    """A small share never reads as nothing."""
    assert [percent(ratio) for ratio in (0, 0.001, 0.0951, 0.5, 1)] == [
        "0 %",
        "0.1 %",
        "9.5 %",
        "50 %",
        "100 %",
    ]


def test_document_has_a_row_for_each_tier_and_policy() -> None:
    """A dropped request stands as a violation, and the document is JSON."""
    document = json.loads(a_result().to_json())
    rows = {(row["policy"], row["tier"]): row for row in document["rows"]}
    assert len(rows) == 4
    assert rows["fifo", "speech"]["violation_ratio"] == 0.9
    assert rows["fifo", "speech"]["expired"] == 90
    assert rows["priority", "bulk"]["goodput_rps"] == 70.0
    assert document["others_cores"] == {"measuring": None, "fifo": 0.25}
    assert document["seed"] == 1


def test_result_fails_with_a_wrong_answer() -> None:
    """One check that failed is enough."""
    assert a_result().has_passed
    assert not a_result(passed=False).has_passed
