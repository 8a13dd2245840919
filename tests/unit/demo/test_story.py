"""The story of two policies: how turns add up, and what is said of them."""

import msgspec
import pytest

from headway.core import ModelName, TenantId, TierName
from headway.demo.story import DuelTier, Phase, Side, Story, Tally, playing, told, with_turn
from headway.report import Summary, summarise
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Outcome, Sample

BUDGET_NS = 50 * NS_PER_MS
TIERS = [
    DuelTier(name=name, budget_ms=50.0, rate_rps=1.0, models=["m"]) for name in ("speech", "bulk")
]


def a_turn(**tiers: str) -> Summary:
    """Of a letter a request: kept, late, refused, expired, failed."""
    outcomes = {
        "k": (Outcome.COMPLETED, 1),
        "l": (Outcome.COMPLETED, 2 * BUDGET_NS),
        "r": (Outcome.REJECTED, 1),
        "x": (Outcome.EXPIRED, BUDGET_NS),
        "f": (Outcome.FAILED, 1),
    }
    return summarise(
        [
            Sample(
                model=ModelName("m"),
                tier=TierName(tier),
                tenant=TenantId("default"),
                intended_at_ns=0,
                sent_at_ns=0,
                done_at_ns=outcomes[letter][1],
                outcome=outcomes[letter][0],
                budget_ns=BUDGET_NS,
            )
            for tier, letters in tiers.items()
            for letter in letters
        ],
        duration_ns=NS_PER_S,
    )


def a_story() -> Story:
    sides = [
        Side(policy=policy, words="", url=f"http://{policy}") for policy in ("fifo", "headway")
    ]
    return Story(machine="2 cores", turn_s=4.0, tiers=TIERS, sides=sides)


def test_turns_add_up_by_what_became_of_each_request() -> None:
    """Every request is in exactly one of the counts."""
    story = with_turn(a_story(), 0, a_turn(speech="kkklrxf", bulk="kr"))
    story = with_turn(story, 0, a_turn(speech="kx"))
    first, second = story.sides
    assert first.tallies == {
        "speech": Tally(requests=9, in_time=4, late=1, refused=1, given_up=2, failed=1),
        "bulk": Tally(requests=2, in_time=1, refused=1),
    }
    assert (first.turns, second.turns, second.tallies) == (2, 0, {})
    assert (story.phase, story.active) == (Phase.BETWEEN, None)


def test_turn_that_is_played_is_shown_beside_those_that_are_over() -> None:
    """Its counts are gone when it is over: then they are among the tallies."""
    story = playing(a_story(), 1, elapsed_s=9.0, now={"speech": (5, 2)})
    assert (story.active, story.phase, story.elapsed_s) == (1, Phase.PLAYING, 4.0)
    assert story.sides[1].now == {"speech": (5, 2)}
    assert with_turn(story, 1, a_turn(speech="k")).sides[1].now == {}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            {"speech": "kxxx", "bulk": "kkkk"},
            {"speech": "kkkk", "bulk": "kkrr"},
            "headway answers more in time than fifo: speech 100 % instead of 25 %; the price: bulk"
            " 50 % instead of 100 %.",
        ),
        (
            {"speech": "kx", "bulk": "k"},
            {"speech": "kk", "bulk": "k"},
            "headway answers more in time than fifo: speech 100 % instead of 50 %, and no tier"
            " pays for it.",
        ),
        (
            {"speech": "kk"},
            {"speech": "kr"},
            "headway answers less in time than fifo: speech 50 % instead of 100 %.",
        ),
        (
            {"speech": "kk"},
            {"speech": "kk"},
            "In every tier headway and fifo answer as much in time, to a percent.",
        ),
    ],
)
def test_verdict_says_who_gains_and_who_pays(before, after, words) -> None:
    """Either way, and also that nothing changed."""
    story = with_turn(with_turn(a_story(), 0, a_turn(**before)), 1, a_turn(**after))
    assert story.verdict == words


def test_nothing_is_said_before_both_had_as_many_turns() -> None:
    """One that has only played the harder round is not compared; what was said still stands."""
    story = with_turn(a_story(), 0, a_turn(speech="x"))
    assert story.verdict == ""
    story = with_turn(story, 1, a_turn(speech="k"))
    said = story.verdict
    assert said
    assert with_turn(story, 0, a_turn(speech="kkkkk")).verdict == said


def test_part_is_never_rounded_up_to_all() -> None:
    """Nine hundred ninety-nine and more of a thousand are not all."""
    sides = [
        Side(policy=policy, words="", url="", turns=1, tallies={"speech": tally})
        for policy, tally in (
            ("fifo", Tally(requests=2000)),
            ("headway", Tally(requests=2000, in_time=1999)),
        )
    ]
    assert "speech 99.9 % instead of 0 %" in told(TIERS, *sides)


def test_story_is_plain_json() -> None:
    """As the page reads it."""
    story = playing(a_story(), 0, elapsed_s=1.5, now={"speech": (5, 2)})
    text = msgspec.json.encode(story)
    assert msgspec.json.decode(text, type=Story) == story
    assert b'"phase":"playing"' in text
