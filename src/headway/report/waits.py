"""Where the time of a wait went: each instant of it counts for what kept the request waiting then.

Asked in this order, so that every instant has one answer:

1. the host was paused: `host_pause`;
2. no device had a warm replica of the model: `cold_start`;
3. a slot was free that the model could have had: `batch_wait` while its linger lasted, and after it
   `held`, for then the policy kept the slot free on purpose;
4. every slot was taken: the instant is shared in equal parts between those that held them.
   A batch of lower priority is `blocked_lower`; one of the same or a higher priority that ran
   before the request came is `blocked_equal`, and one that started after that went first in the
   `queue`.

Knows lives. Refuses to know what a batch did on its slot, and what to do about any of it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from headway.core import DeviceName, ModelName
from headway.observe import BatchLife, Lives, Pause, RequestLife, Served

__all__ = ["Blocker", "Cause", "Wait", "split_wait"]


class Cause(StrEnum):
    """What a request's time went into; together they are all of it."""

    INTAKE = "intake"
    """First bytes seen until the scheduler had it: reading, decoding, checking."""
    HOST_PAUSE = "host_pause"
    """The scheduler's process handled nothing although things were due."""
    COLD_START = "cold_start"
    """No replica was warm, or a batch was the first of its size and took twice as long or more."""
    QUEUE = "queue"
    """Slots were held by others of its class or a higher one that started after it had come."""
    BATCH_WAIT = "batch_wait"
    """A slot was free, and its batch waited for company."""
    HELD = "held"
    """A slot was free, and the policy kept it so."""
    BLOCKED_LOWER = "blocked_lower"
    """Slots were held by batches of lower priority."""
    BLOCKED_EQUAL = "blocked_equal"
    """Slots were held by batches of its class or a higher one that ran before it came."""
    OVERHEAD = "overhead"
    """The way to the worker and back, and launching: what is in no stage."""
    TRANSFER = "transfer"
    """Inputs to the device and outputs from it."""
    OWN_WORK = "own_work"
    """What its own rows take alone on an idle device."""
    COMPANY = "company"
    """What the other rows of its batch add to that."""
    PADDING = "padding"
    """The part of the work that was spent on padding."""
    INTERFERENCE = "interference"
    """What batches beside its own added, at the rate at which they do so on average."""
    VARIANCE = "variance"
    """The rest: it took longer, alone or not, than such batches do."""


class Blocker(NamedTuple):
    """A batch that held a slot while the request waited for one."""

    batch: BatchLife
    blocked_ns: int
    """Its part of the instants in which every slot was taken."""
    cause: Cause


class Wait(NamedTuple):
    """A wait, taken apart."""

    parts_ns: Counter[Cause]
    """They add up to the wait."""
    blockers: Sequence[Blocker]
    """Who held the slots, in no order; a batch may stand there more than once."""


class _Slots:
    """What the request could have run on, as it changes over the wait."""

    def __init__(self, life: RequestLife, lives: Lives, from_ns: int, to_ns: int) -> None:
        self._known = lives.devices
        model = life.model
        self._served = [] if model is None else lives.served_between(model, from_ns, to_ns)
        if not self._served and not lives.is_whole:
            # Who was served before the records began is not known; any device may have been.
            name = model or ModelName("")
            self._served = [Served(name, device, from_ns, None) for device in lives.devices]
        self.batches = {
            device: list(lives.batches_between(device, from_ns, to_ns))
            for device in dict.fromkeys(span.device for span in self._served)
        }

    def edges_ns(self) -> Iterable[int]:
        """Instants at which the devices change."""
        for span in self._served:
            yield span.from_ns
            if span.to_ns is not None:
                yield span.to_ns

    def devices(self, at_ns: int) -> set[DeviceName]:
        """Where the model was served."""
        return {
            span.device
            for span in self._served
            if span.from_ns <= at_ns and (span.to_ns is None or at_ns < span.to_ns)
        }

    def count(self, device: DeviceName) -> int:
        """Of a device that nobody named, those that were seen to be used."""
        params = self._known.get(device)
        if params is not None:
            return len(params.slot_lanes)
        return max(1, len({batch.dispatch.slot for batch in self.batches[device]}))


class _Held(NamedTuple):
    """A span of a wait, by whether a slot was free."""

    free_ns: int
    shares_ns: "list[tuple[BatchLife, int]]"
    """The rest, in which every slot was taken, by who held them."""


def split_wait(
    life: RequestLife, from_ns: int, to_ns: int, lives: Lives, pauses: Sequence[Pause]
) -> Wait:
    """Take apart a span in which a request waited in its queue.

    Args:
        life: whose wait it is.
        from_ns: its arrival, or the end of a segment.
        to_ns: its dispatch, or its end.
        lives: as they are when the request or its batch has ended.
        pauses: of the run.

    Cost: a microsecond or two for each batch that ran meanwhile.
    """
    parts: Counter[Cause] = Counter()
    blockers: list[Blocker] = []
    if to_ns <= from_ns:
        return Wait(parts, ())
    slots = _Slots(life, lives, from_ns, to_ns)
    linger_until_ns = _linger_until_ns(life, lives)
    near = [p for p in pauses if p.to_ns > from_ns and p.from_ns < to_ns]
    edges = {from_ns, to_ns, *slots.edges_ns(), *(at_ns for pause in near for at_ns in pause)}
    if linger_until_ns is not None:
        edges.add(linger_until_ns)
    for start_ns, end_ns in pairwise(sorted(at for at in edges if from_ns <= at <= to_ns)):
        devices = slots.devices(start_ns)
        if any(pause.from_ns <= start_ns < pause.to_ns for pause in near):
            parts[Cause.HOST_PAUSE] += end_ns - start_ns
        elif not devices:
            parts[Cause.COLD_START] += end_ns - start_ns
        else:
            held = _held(slots, sorted(devices), start_ns, end_ns, lives.now_ns)
            lingers = linger_until_ns is not None and start_ns < linger_until_ns
            parts[Cause.BATCH_WAIT if lingers else Cause.HELD] += held.free_ns
            for batch, share_ns in held.shares_ns:
                cause = _blame(life, batch)
                parts[cause] += share_ns
                blockers.append(Blocker(batch, share_ns, cause))
    return Wait(parts, blockers)


def _held(
    slots: _Slots, devices: Sequence[DeviceName], from_ns: int, to_ns: int, now_ns: int
) -> _Held:
    """Who held the slots of some devices in a span over which the devices stay the same.

    While every slot is taken each holder has an equal part: over the span, in proportion to how
    much of such time it ran through. Cut to nanoseconds so that the parts are the whole.
    """
    batches = [batch for device in devices for batch in slots.batches[device]]
    count = sum(map(slots.count, devices))
    turns: list[tuple[int, int, int]] = []
    for index, batch in enumerate(batches):
        start_ns, end_ns = max(from_ns, batch.started_at_ns), min(to_ns, batch.upto_ns(now_ns))
        if start_ns < end_ns:
            turns += ((start_ns, 1, index), (end_ns, -1, index))
    turns.sort()  # ends before starts
    taken_ns = held = 0
    since_ns = from_ns
    through_ns = [0] * len(batches)
    for at_ns, change, index in turns:
        if held >= count:
            taken_ns += at_ns - since_ns
        since_ns = at_ns
        held += change
        through_ns[index] -= change * taken_ns
    if held >= count:
        taken_ns += to_ns - since_ns
    whole_ns = sum(through_ns)
    shares: list[tuple[BatchLife, int]] = []
    so_far_ns = told_ns = 0
    for batch, part_ns in zip(batches, through_ns, strict=True):
        if part_ns:
            so_far_ns += part_ns
            share_ns = taken_ns * so_far_ns // whole_ns - told_ns
            told_ns += share_ns
            shares.append((batch, share_ns))
    return _Held(to_ns - from_ns - taken_ns, shares)


def _linger_until_ns(life: RequestLife, lives: Lives) -> int | None:
    """Until when it may have waited for company; None where its model does not have requests wait.

    Where the load of the model was not recorded, all of a wait with a free slot counts as such, if
    the model was seen to run requests together.
    """
    model = life.model
    params = None if model is None else lives.models.get(model)
    if params is not None:
        return life.seen_at_ns + params.linger_ns if params.linger_ns else None
    can_batch = any(len(run.members) > 1 for run in life.runs)
    return lives.now_ns if can_batch else None


def _blame(life: RequestLife, batch: BatchLife) -> Cause:
    own = None if life.request is None else life.request.priority
    if own is not None and batch.priority is not None and batch.priority > own:
        return Cause.BLOCKED_LOWER
    return Cause.BLOCKED_EQUAL if batch.started_at_ns < life.seen_at_ns else Cause.QUEUE
