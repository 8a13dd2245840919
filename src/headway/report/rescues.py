"""What would have saved a request: remedies that follow from where its own time went.

A cause that took as long as the request was late, or longer, would have saved it alone had it not
been there; a shorter one would only have helped. Nothing is said that the numbers do not give: no
shorter linger where it did not linger, no slot where none was waited for.

Knows a life, taken apart. Refuses to know the configuration: it names the setting, not its value.
"""

from typing import Final

from msgspec import Struct

from headway.core import Complete, Expire, Reject
from headway.observe import Lives, RequestLife
from headway.report.causes import Parts, Typical
from headway.report.waits import Cause
from headway.units import format_duration

__all__ = ["Rescue", "rescues_of"]

_HELPS_RATIO_MIN: Final = 0.05
"""Of a latency; less than that is not worth a word."""


class Rescue(Struct, frozen=True, kw_only=True):
    """One remedy, and what it would have been worth."""

    what: str
    gains_ns: int
    """How much earlier it would have ended, about."""
    would_save: bool
    """That alone would have been enough."""

    @classmethod
    def retry(cls, after_ns: int) -> "Rescue":
        """Of a refused request: somebody like it was let in later."""
        what = f"to ask again {format_duration(after_ns)} later, when one like it was let in"
        return cls(what=what, gains_ns=0, would_save=True)


_WHAT: Final[dict[Cause, str]] = {
    Cause.INTAKE: "a smaller or binary body: reading and decoding took {part}",
    Cause.HOST_PAUSE: "a host that does not pause: it stood still for {part}",
    Cause.COLD_START: "a warm replica: it waited or ran cold for {part}",
    Cause.BATCH_WAIT: "no linger: a slot was free for {part} while its batch waited for company",
    Cause.HELD: "a policy that does not hold it back: a slot was free for {part}",
    Cause.BLOCKED_LOWER: "less low-priority work at once: batches of lower priority held the slots "
    "for {part}",
    Cause.TRANSFER: "smaller or faster transfers: they took {part}",
    Cause.COMPANY: "a smaller batch: the rows of others added {part}",
    Cause.PADDING: "finer buckets: padding took {part}",
    Cause.INTERFERENCE: "fewer batches beside it: they cost it {part}",
}
"""Causes that could have been avoided wholly."""


def rescues_of(life: RequestLife, taken: Parts, lives: Lives, typical: Typical) -> list[Rescue]:
    """What would have saved a violation, or made another one faster; the surest first."""
    if isinstance(life.outcome, Reject) or life.request is None or life.outcome is None:
        return []
    latency_ns = life.latency_ns or 0
    over_ns = _over_ns(life, typical)
    found = []
    for cause, words in _WHAT.items():
        part_ns = taken.parts_ns[cause]
        if part_ns >= _HELPS_RATIO_MIN * latency_ns and part_ns:
            what = words.format(part=format_duration(part_ns))
            found.append(_rescue(what, part_ns, over_ns))
    found += _another_slot(life, taken, lives, over_ns)
    found.sort(key=lambda one: (not one.would_save, -one.gains_ns))
    if over_ns is not None and isinstance(life.outcome, Complete | Expire):
        found.append(_more_budget(life, over_ns))
    return found


def _over_ns(life: RequestLife, typical: Typical) -> int | None:
    """How much earlier it would have had to end; None where it was in time.

    Of one that expired before it ran, what its work takes alone was still to come; of one that ran,
    what was left of what its batch was expected to take. Who was given up although that would have
    been in time was given up on a bound, and by how much is not known.
    """
    request, outcome = life.request, life.outcome
    assert request is not None, "rescues are of requests whose arrival is known"
    assert life.ended_at_ns is not None, "rescues are of requests that have ended"
    beyond_ns = life.ended_at_ns - request.deadline_at_ns
    if isinstance(outcome, Complete):
        return beyond_ns if beyond_ns > 0 else None
    if not isinstance(outcome, Expire):
        return None
    if life.runs and life.runs[-1].upto_ns(life.ended_at_ns) >= life.ended_at_ns:
        run = life.runs[-1]
        left_ns = run.started_at_ns + run.dispatch.expected_ns - life.ended_at_ns
    else:
        left_ns = typical.base_ns(request.model, str(request.bucket), request.rows) or 0
    over_ns = beyond_ns + max(0, left_ns)
    return over_ns if over_ns > 0 else None


def _another_slot(
    life: RequestLife, taken: Parts, lives: Lives, over_ns: int | None
) -> list[Rescue]:
    """What others of its class held the slots for is shared by one slot more."""
    waited_ns = taken.parts_ns[Cause.QUEUE] + taken.parts_ns[Cause.BLOCKED_EQUAL]
    devices = {blocker.batch.dispatch.device for blocker in taken.blockers}
    slots = sum(len(lives.devices[name].slot_lanes) for name in devices if name in lives.devices)
    if not slots or waited_ns < _HELPS_RATIO_MIN * (life.latency_ns or 0):
        return []
    gains_ns = waited_ns // (slots + 1)
    what = (
        f"one slot more than its {slots}: its class and those above held them for "
        f"{format_duration(waited_ns)}, of which about {format_duration(gains_ns)} would have gone"
    )
    return [_rescue(what, gains_ns, over_ns)]


def _more_budget(life: RequestLife, over_ns: int) -> Rescue:
    request = life.request
    assert request is not None, "rescues are of requests whose arrival is known"
    is_known = isinstance(life.outcome, Complete)
    least = "" if is_known else "at least "
    what = (
        f"a budget larger by {least}{format_duration(over_ns)}, "
        f"{format_duration(request.budget_ns + over_ns)} in all"
    )
    return Rescue(what=what, gains_ns=0, would_save=is_known)


def _rescue(what: str, gains_ns: int, over_ns: int | None) -> Rescue:
    would_save = over_ns is not None and gains_ns >= over_ns
    return Rescue(what=what, gains_ns=gains_ns, would_save=would_save)
