"""The story of a duel as its page tells it: two policies, the same requests, who kept what.

Pure: values, and how a turn's counts are added to them. Knows summaries. Never a server or a page.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import floor
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headway.report import Summary

__all__ = ["DuelTier", "Phase", "Side", "Story", "Tally", "added", "playing", "told", "with_turn"]

_NOTICEABLE_RATIO: Final = 0.01
"""A smaller change of what is in time is not worth a word."""


class Phase(StrEnum):
    """How far it is."""

    PREPARING = "preparing"
    PLAYING = "playing"
    BETWEEN = "between"
    """The next turn is about to begin."""
    OVER = "over"


class Tally(Struct, frozen=True, kw_only=True):
    """Requests of one tier under one policy, over all turns that are over."""

    requests: int = 0
    in_time: int = 0
    late: int = 0
    """Answered after the deadline: work for nobody."""
    refused: int = 0
    """Told no at the door."""
    given_up: int = 0
    """Told no later, at the deadline at the latest."""
    failed: int = 0


class DuelTier(Struct, frozen=True, kw_only=True):
    """A class of service."""

    name: str
    budget_ms: float
    rate_rps: float
    """Asked for."""
    models: list[str]


class Side(Struct, frozen=True, kw_only=True):
    """One policy."""

    policy: str
    words: str
    """What it does."""
    url: str
    """Of its server."""
    turns: int = 0
    tallies: dict[str, Tally] = {}
    """By tier."""
    now: dict[str, tuple[int, int]] = {}
    """Of the turn that is being played: by tier, what ended, and what of it was let down."""


class Story(Struct, frozen=True, kw_only=True):
    """All of it, as it stands."""

    machine: str
    turn_s: float
    phase: Phase = Phase.PREPARING
    note: str = ""
    """What is done meanwhile, or is to be known of the load."""
    tiers: list[DuelTier] = []
    """The most important first."""
    sides: list[Side] = []
    active: int | None = None
    """Whose turn it is, by its place; None between two."""
    elapsed_s: float = 0.0
    """Of the turn."""
    verdict: str = ""
    """What the turns so far say, in a sentence."""


def playing(
    story: Story, active: int, *, elapsed_s: float, now: Mapping[str, tuple[int, int]]
) -> Story:
    """A story while a turn is played."""
    sides = list(story.sides)
    sides[active] = replace(sides[active], now=dict(now))
    elapsed_s = min(elapsed_s, story.turn_s)
    return replace(story, sides=sides, active=active, phase=Phase.PLAYING, elapsed_s=elapsed_s)


def with_turn(story: Story, active: int, summary: Summary) -> Story:
    """A story after one more turn."""
    sides = list(story.sides)
    sides[active] = added(sides[active], summary)
    verdict = told(story.tiers, *sides) or story.verdict  # that of whole rounds stands
    return replace(story, sides=sides, active=None, phase=Phase.BETWEEN, verdict=verdict)


def added(side: Side, summary: Summary) -> Side:
    """A side after one more turn."""
    tallies = dict(side.tallies)
    for tier, group in summary.tiers.items():
        before = tallies.get(tier, Tally())
        tallies[tier] = Tally(
            requests=before.requests + group.requests,
            in_time=before.in_time + group.requests - group.violations,
            late=before.late + group.late,
            refused=before.refused + group.rejected,
            given_up=before.given_up + group.expired,
            failed=before.failed + group.failed + group.unanswered + group.unsent,
        )
    return replace(side, tallies=tallies, turns=side.turns + 1, now={})


def told(tiers: Sequence[DuelTier], before: Side, after: Side) -> str:
    """What the second policy changed, in a sentence; nothing before both had as many turns."""
    if not before.turns or before.turns != after.turns:
        return ""
    gained, lost = list[str](), list[str]()
    for tier in tiers:
        was, now = (_kept_ratio(side.tallies.get(tier.name)) for side in (before, after))
        if was is None or now is None or abs(now - was) < _NOTICEABLE_RATIO:
            continue
        changes = gained if now > was else lost
        changes.append(f"{tier.name} {_percent(now)} instead of {_percent(was)}")
    names = (after.policy, before.policy)
    if not gained and not lost:
        return "In every tier {} and {} answer as much in time, to a percent.".format(*names)
    if not gained:
        return "{} answers less in time than {}: ".format(*names) + f"{', '.join(lost)}."
    price = f"; the price: {', '.join(lost)}" if lost else ", and no tier pays for it"
    return "{} answers more in time than {}: ".format(*names) + f"{', '.join(gained)}{price}."


def _kept_ratio(tally: Tally | None) -> float | None:
    return tally.in_time / tally.requests if tally is not None and tally.requests else None


def _percent(ratio: float) -> str:
    """To a tenth, and never rounded up to all."""
    return f"{floor(1000 * ratio) / 10:g} %"
