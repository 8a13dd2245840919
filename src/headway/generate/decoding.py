"""Who decodes in a step: all, unless slots, memory or somebody's pace are short.

- *Slots.* Where more sequences decode than a step takes, the more important go first, then those
  whose tag has more rounds of credit, then the earliest arrived. The others pause: they keep what
  they hold and go on later. A pause costs nothing, so it is what makes room for the urgent wherever
  memory does not bind.
- *Pace.* Where decoding lasts as long as there are sequences in it, as on CPUs, less important ones
  pause for a step if the more important would be late for their next token otherwise; one of
  them always stays. Never where that would save less than half of the step.
- *Memory.* A sequence that needs a block when none is free takes one from somebody after it, whom
  the caller preempts; where nobody is, it pauses. The first of all is thus never without a block
  for longer than it takes those who cannot be preempted to end.

A class that is owed something (`aging`) has a slot in any case: the one of it that has waited
longest.

Knows sequences and a law. Refuses to know the waiting.
"""

from collections.abc import Callable, Iterable

from headway.core import TenantId
from headway.generate.credits import TagCredits
from headway.generate.sequence import Sequence, urgency_of
from headway.generate.step_times import StepLaw

__all__ = ["pick_for_slots", "trim_for_pace", "with_owed"]


def pick_for_slots(
    decoding: Iterable[Sequence], credits_of: Callable[[int], TagCredits], slots: int
) -> list[Sequence]:
    """Those who have a slot, in order of urgency; the others pause."""
    carried: dict[tuple[int, TenantId], int] = {}
    keyed = []
    for sequence in decoding:
        key = (sequence.priority, sequence.tag)
        rounds = carried.get(key)
        if rounds is None:
            rounds = carried[key] = credits_of(sequence.priority).carried(sequence.tag)
        keyed.append(
            (
                sequence.priority,
                -rounds,
                sequence.params.arrived_at_ns,
                sequence.sequence_id,
                sequence,
            )
        )
    keyed.sort()
    return [entry[4] for entry in keyed[:slots]]


def with_owed(
    chosen: list[Sequence], decoding: Iterable[Sequence], is_owed: Callable[[int], bool]
) -> list[Sequence]:
    """Those chosen, but that each class that is owed has its longest pausing one among them."""
    present = {each.sequence_id for each in chosen}
    owed: dict[int, Sequence] = {}
    for each in decoding:
        if each.sequence_id in present or not is_owed(each.priority):
            continue
        longest = owed.get(each.priority)
        if longest is None or each.waits_since_ns < longest.waits_since_ns:
            owed[each.priority] = each
    waiting = list(owed.values())[: len(chosen)]
    return chosen[: len(chosen) - len(waiting)] + waiting


def trim_for_pace(decoding: list[Sequence], law: StepLaw, now_ns: int) -> list[Sequence]:
    """All, or fewer of the less important, so that the more important are in time."""
    step_ns = law.step_ns(0, len(decoding), sum([each.known_tokens for each in decoding]))
    if step_ns <= 2.0 * law.base_ns:
        return decoding
    priorities = sorted({each.priority for each in decoding})
    for priority in priorities[:-1]:
        chosen = [each for each in decoding if each.priority <= priority]
        others = [each for each in decoding if each.priority > priority]
        allowances = [each.allowance_ns(now_ns) for each in chosen]
        least_ns = min([each for each in allowances if each is not None], default=None)
        if least_ns is None or least_ns >= step_ns:
            continue
        alone_ns = law.step_ns(0, len(chosen), sum([each.known_tokens for each in chosen]))
        limit_ns = max(least_ns, 2.0 * alone_ns)
        return chosen + _while_within(others, law, limit_ns - alone_ns, now_ns)
    return decoding


def _while_within(
    others: list[Sequence], law: StepLaw, spare_ns: float, now_ns: int
) -> list[Sequence]:
    """The most pressing, one at least, as far as they take no more time than that."""

    def pressure(sequence: Sequence) -> tuple[int, int, int, int, int]:
        due_at_ns = sequence.due_at_ns()
        left_ns = 1 << 62 if due_at_ns is None else due_at_ns - now_ns
        return (left_ns, sequence.waits_since_ns, *urgency_of(sequence))

    kept: list[Sequence] = []
    for sequence in sorted(others, key=pressure):
        spare_ns -= law.decode_ns + law.context_ns * sequence.known_tokens
        if spare_ns < 0.0 and kept:
            break
        kept.append(sequence)
    return kept
