"""A run: so many inputs at one door, every verdict counted, every fault kept with its number.

An input is made from `Random(f"{seed}/{door}/{number}")` and from nothing else, so a finding is
looked at again with its number alone. Times are the least of three where an input seems slow: what
other programs do to a machine is not the decoder's.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from fuzzing.doors import ACCEPTED, Door
from fuzzing.target import Target

__all__ = ["Finding", "Tally", "attack"]

LIMIT_S = 20.0
"""An input that takes longer hangs."""
SLOW_NS = 5_000_000
"""An input that takes longer is timed again."""
FINDINGS_MAX = 50
LOOK_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that the server did not deal with."""

    door: str
    seed: int
    number: int
    what: str
    item: str
    """The input, as Python writes it; cut."""


@dataclass(slots=True)
class Tally:
    """What became of the inputs at one door."""

    door: str
    inputs: int = 0
    took_ns: int = 0
    slowest_ns: int = 0
    slowest_number: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        """How many were valid after all."""
        return self.verdicts[ACCEPTED]


async def attack(
    target: Target,
    door: Door,
    *,
    seed: int,
    count: int,
    first: int = 0,
    look: Callable[[], None] = lambda: None,
) -> Tally:
    """Put inputs to a door.

    Args:
        target: the server.
        door: which.
        seed: of all chance.
        count: how many inputs.
        first: the number of the first.
        look: called now and then.
    """
    tally = Tally(door.name)
    for number in range(first, first + count):
        item = door.make(Random(f"{seed}/{door.name}/{number}"))
        took_ns, verdict = await _timed(target, door, item)
        for _ in range(2 if took_ns > SLOW_NS else 0):
            took_ns = min(took_ns, (await _timed(target, door, item))[0])
        tally.inputs += 1
        tally.took_ns += took_ns
        if took_ns > tally.slowest_ns:
            tally.slowest_ns, tally.slowest_number = took_ns, number
        bug = target.bug()
        if isinstance(verdict, Exception) or bug:
            words = [] if isinstance(verdict, str) else traceback.format_exception(verdict)
            what = "".join(words) + bug
            tally.verdicts["wrong"] += 1
            if len(tally.findings) < FINDINGS_MAX:
                found = Finding(door.name, seed, number, what[-3000:], repr(item)[:2000])
                tally.findings.append(found)
        else:
            tally.verdicts[verdict] += 1
        if number % LOOK_EVERY == 0:
            look()
    return tally


async def _timed(target: Target, door: Door, item: object) -> tuple[int, str | Exception]:
    """How long it took, and the verdict: a code, or what should not have been raised."""
    target.restore()
    started_ns = time.perf_counter_ns()
    verdict: str | Exception
    try:
        async with asyncio.timeout(LIMIT_S):
            verdict = await door.enter(target, item)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is what we look for)
        verdict = error
    return time.perf_counter_ns() - started_ns, verdict
