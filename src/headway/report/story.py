"""One request's story as values: where its time went, who was in the way, what would have saved it.

The records are read twice, as for the tail: once for what is typical of the run, once to stop at
the request and take it apart while what was around it is still known. A call of a pipeline is told
by the requests of its steps.

Knows lives and causes. `story_words` says it in sentences.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heappush, heappushpop
from typing import Final

from msgspec import UNSET, Struct

from headway.core import (
    BatchId,
    Cancel,
    Complete,
    DeviceParams,
    Expire,
    Fail,
    Forecast,
    ModelName,
    Record,
    Reject,
    RequestId,
)
from headway.observe import BatchEnding, BatchLife, Lives, PauseWatch, RequestLife, how_ended
from headway.report.causes import Parts, Typical, TypicalTimes, parts_of
from headway.report.rescues import Rescue, rescues_of
from headway.report.waits import Cause

__all__ = ["BesideStory", "BlockedStory", "RunStory", "Seen", "Story", "tell", "tell_worst"]

_BLOCKED_MAX: Final = 8
_BESIDE_MAX: Final = 8
_STEPS_MAX: Final = 256
"""Requests of one call of a pipeline that are told; the others are counted."""


class BlockedStory(Struct, frozen=True, kw_only=True):
    """Batches of one model and priority that held slots while the request waited for one."""

    model: ModelName
    priority: int | None
    batches: int
    blocked_ns: int
    """Their part of the instants in which every slot was taken."""
    cause: Cause


class BesideStory(Struct, frozen=True, kw_only=True):
    """Batches of one model and priority that ran beside its own on the same device."""

    model: ModelName
    priority: int | None
    batches: int
    beside_ns: int
    """Added up."""


class RunStory(Struct, frozen=True, kw_only=True):
    """A batch that the request was in."""

    batch_id: int
    device: str
    slot: int
    rows: int
    first_row: int
    is_segment: bool
    requests: int
    """Its members."""
    started_ns: int
    """After the run's start."""
    ending: BatchEnding
    error: str | None
    took_ns: int
    """To its end, or to the request's where that came first."""
    expected_ns: int | None
    """At dispatch; None where nothing was predicted."""
    bound_ns: int | None
    transfer_in_ns: int | None
    """Stages are None where nobody timed them."""
    execution_ns: int | None
    transfer_out_ns: int | None
    typical_ns: int | None
    """What such a batch takes alone."""
    beside: list[BesideStory]


class Seen(Struct, frozen=True, kw_only=True):
    """How things were when the request was refused or given up, or now if it still waits."""

    waiting_of_model: int
    waiting: int
    running: int
    slots: int


class Story(Struct, frozen=True, kw_only=True):
    """All that the records tell of a request."""

    request_id: int
    is_whole: bool
    """Its arrival was recorded."""
    is_pipeline_call: bool = False
    """It is a client's call of a pipeline, and `steps` are its requests."""
    call_id: int | None = None
    """The pipeline call that it is a step of."""
    model: str | None
    tier: str | None
    tenant: str | None
    priority: int | None
    rows: int | None
    arrived_ns: int | None
    """After the run's start."""
    budget_ns: int | None
    outcome: str
    """completed, rejected, expired, cancelled, failed or unfinished."""
    reason: str | None
    """Of a refusal, an expiry or a failure."""
    stage: str | None
    message: str | None
    retry_after_ns: int | None
    let_in_after_ns: int | None
    """Of a refused one: when the next request of its model, tier and size or larger was let in."""
    latency_ns: int | None
    late_ns: int
    """Beyond its deadline; 0 where it was in time or had none."""
    is_violation: bool
    parts_ns: dict[Cause, int]
    """They add up to the latency; the largest first."""
    foreseen: Forecast | None
    """At admission, from then on; None where nothing was, or where the records do not say."""
    runs: list[RunStory]
    blocked_by: list[BlockedStory]
    seen: Seen | None
    rescues: list[Rescue]
    """What would have saved it, or have made it faster; the surest first."""
    steps: "list[Story]" = []
    steps_left_out: int = 0


class _Wanted:
    """Whom the second reading stops at."""

    def __init__(self, ids: Iterable[RequestId]) -> None:
        self.ids = set(ids)
        self.stories: dict[RequestId, Story] = {}
        self.steps: dict[RequestId, list[Story]] = {}
        self.steps_left_out: dict[RequestId, int] = {}
        self.refused: dict[RequestId, RequestLife] = {}
        """Of those wanted, the ones for whom nobody was let in yet."""

    def calls_for(self, life: RequestLife) -> bool:
        return life.request_id in self.ids or self._call_of(life) is not None

    def _call_of(self, life: RequestLife) -> RequestId | None:
        request = life.request
        if request is None or request.origin is UNSET or request.origin not in self.ids:
            return None
        return request.origin

    def keep(self, life: RequestLife, story: Story) -> None:
        call_id = self._call_of(life)
        if call_id is not None:
            steps = self.steps.setdefault(call_id, [])
            if len(steps) < _STEPS_MAX:
                steps.append(story)
            else:
                self.steps_left_out[call_id] = self.steps_left_out.get(call_id, 0) + 1
        if life.request_id in self.ids:
            self.stories[life.request_id] = story
            if isinstance(life.outcome, Reject):
                self.refused[life.request_id] = life


def tell(
    read: Callable[[], Iterable[Record]], devices: Sequence[DeviceParams], request_id: int
) -> Story | None:
    """The story of one request, or of one call of a pipeline.

    Args:
        read: gives the Records from the start; called twice.
        devices: of the run.
        request_id: as its client was told it; negative for a pipeline's call.

    Returns:
        None where the records know nothing of it.
    """
    typical, _ = _read_first(read(), devices, 0)
    stories = _read_again(read(), devices, typical, [RequestId(request_id)])
    return stories[0] if stories else None


def tell_worst(
    read: Callable[[], Iterable[Record]], devices: Sequence[DeviceParams], count: int
) -> list[Story]:
    """The stories of those that took longest for what they were granted, the worst first.

    Answered and expired ones are compared by latency over budget. Refused ones never had the time.
    """
    typical, worst = _read_first(read(), devices, count)
    return _read_again(read(), devices, typical, worst)


def _read_first(
    records: Iterable[Record], devices: Sequence[DeviceParams], count: int
) -> "tuple[Typical, list[RequestId]]":
    lives, times, watch = Lives(devices), TypicalTimes(), PauseWatch()
    worst: list[tuple[float, int]] = []
    for record in records:
        watch.step(record)
        ended = lives.step(record)
        for batch in ended.batches:
            times.add(batch, lives)
        for life in ended.requests if count else ():
            latency_ns = life.latency_ns
            if (
                latency_ns is None
                or life.request is None
                or not isinstance(life.outcome, Complete | Expire)
            ):
                continue
            ratio = latency_ns / max(1, life.request.budget_ns)
            push = heappush if len(worst) < count else heappushpop
            push(worst, (ratio, life.request_id))
    watch.finish()
    ids = [RequestId(request_id) for _, request_id in sorted(worst, reverse=True)]
    return times.typical(watch.pauses), ids


def _read_again(
    records: Iterable[Record],
    devices: Sequence[DeviceParams],
    typical: Typical,
    ids: Sequence[RequestId],
) -> list[Story]:
    lives, wanted = Lives(devices), _Wanted(ids)
    for record in records:
        for life in lives.step(record).requests:
            if wanted.calls_for(life):
                wanted.keep(life, _story(life, lives, typical))
        if wanted.refused:
            _note_let_in(lives, wanted)
    for life in lives.finish().requests:
        if wanted.calls_for(life):
            wanted.keep(life, _story(life, lives, typical))
    told = []
    for request_id in ids:
        if request_id in wanted.stories:
            told.append(wanted.stories[request_id])
        elif request_id in wanted.steps:
            left_out = wanted.steps_left_out.get(request_id, 0)
            told.append(_call(request_id, wanted.steps[request_id], left_out))
    return told


def _note_let_in(lives: Lives, wanted: _Wanted) -> None:
    """Somebody like a refused request may have just been let in."""
    newest = next(reversed(lives.requests.values()), None)
    if newest is None or newest.request is None or newest.seen_at_ns != lives.now_ns:
        return
    request = newest.request
    for request_id, life in list(wanted.refused.items()):
        refused = life.request
        assert refused is not None or life.ended_at_ns is not None, "it was refused"
        is_alike = (
            refused is not None
            and (request.model, request.tier) == (refused.model, refused.tier)
            and request.rows >= refused.rows
        )
        if is_alike and life.ended_at_ns is not None:
            del wanted.refused[request_id]
            after_ns = lives.now_ns - life.ended_at_ns
            old = wanted.stories[request_id]
            wanted.stories[request_id] = _with_let_in(old, after_ns)


def _with_let_in(story: Story, after_ns: int) -> Story:
    fields = {name: getattr(story, name) for name in story.__struct_fields__}
    fields["let_in_after_ns"] = after_ns
    fields["rescues"] = [*story.rescues, Rescue.retry(after_ns)]
    return Story(**fields)


# --- one request ----------------------------------------------------------------------------------


def _story(life: RequestLife, lives: Lives, typical: Typical) -> Story:
    request, outcome = life.request, life.outcome
    word, why = ("unfinished", "") if outcome is None else how_ended(outcome)
    taken = parts_of(life, lives, typical)
    parts = {} if taken is None else _in_order(taken)
    foreseen = life.foreseen if life.foreseen.bound_ns else None
    late_ns = 0
    if request is not None and life.ended_at_ns is not None:
        late_ns = max(0, life.ended_at_ns - request.deadline_at_ns)
    rescues = [] if taken is None else rescues_of(life, taken, lives, typical)
    return Story(
        request_id=life.request_id,
        is_whole=request is not None,
        call_id=None if request is None or request.origin is UNSET else request.origin,
        model=life.model,
        tier=None if request is None else request.tier,
        tenant=None if request is None else request.tenant,
        priority=None if request is None else request.priority,
        rows=None if request is None else request.rows,
        arrived_ns=life.arrived_at_ns,
        budget_ns=None if request is None else request.budget_ns,
        outcome=word,
        reason=why or None,
        stage=str(outcome.stage) if isinstance(outcome, Expire | Cancel | Fail) else None,
        message=outcome.message if isinstance(outcome, Fail) else None,
        retry_after_ns=outcome.retry_after_ns if isinstance(outcome, Reject) else None,
        let_in_after_ns=None,
        latency_ns=life.latency_ns,
        late_ns=late_ns if isinstance(outcome, Complete) else 0,
        is_violation=life.is_violation,
        parts_ns=parts,
        foreseen=foreseen,
        runs=[_run(run, life, lives, typical) for run in life.runs],
        blocked_by=[] if taken is None else _blocked(taken),
        seen=None if isinstance(outcome, Complete) else _seen(life, lives),
        rescues=rescues,
    )


def _in_order(taken: Parts) -> dict[Cause, int]:
    """The largest first; what took no time is left out."""
    return {cause: part_ns for cause, part_ns in taken.parts_ns.most_common() if part_ns}


def _run(run: BatchLife, life: RequestLife, lives: Lives, typical: Typical) -> RunStory:
    dispatch = run.dispatch
    stages = run.stages if run.has_stages else None
    end_ns = run.upto_ns(lives.now_ns)
    if life.ended_at_ns is not None:
        end_ns = min(end_ns, life.ended_at_ns)
    has_bound = dispatch.bound_ns > 0
    return RunStory(
        batch_id=dispatch.batch_id,
        device=dispatch.device,
        slot=dispatch.slot,
        rows=dispatch.rows,
        first_row=dispatch.first_row,
        is_segment=dispatch.is_segment,
        requests=len(dispatch.request_ids),
        started_ns=run.started_at_ns,
        ending=run.ending,
        error=run.error,
        took_ns=end_ns - run.started_at_ns,
        expected_ns=dispatch.expected_ns if has_bound else None,
        bound_ns=dispatch.bound_ns if has_bound else None,
        transfer_in_ns=None if stages is None else stages.transfer_in_ns,
        execution_ns=None if stages is None else stages.execution_ns,
        transfer_out_ns=None if stages is None else stages.transfer_out_ns,
        typical_ns=typical.base_ns(dispatch.model, run.bucket or "", dispatch.rows),
        beside=_beside(run, end_ns, lives),
    )


def _beside(run: BatchLife, end_ns: int, lives: Lives) -> list[BesideStory]:
    found: dict[tuple[ModelName, int | None], list[int]] = {}
    for other in lives.batches_between(run.dispatch.device, run.started_at_ns, end_ns):
        if other is not run:
            start_ns = max(run.started_at_ns, other.started_at_ns)
            overlap_ns = min(end_ns, other.upto_ns(lives.now_ns)) - start_ns
            found.setdefault((other.dispatch.model, other.priority), []).append(overlap_ns)
    stories = [
        BesideStory(model=model, priority=priority, batches=len(each), beside_ns=sum(each))
        for (model, priority), each in found.items()
        if sum(each) > 0
    ]
    return sorted(stories, key=lambda one: -one.beside_ns)[:_BESIDE_MAX]


def _blocked(taken: Parts) -> list[BlockedStory]:
    found: dict[tuple[ModelName, int | None, Cause], Counter[BatchId]] = {}
    for batch, blocked_ns, cause in taken.blockers:
        key = (batch.dispatch.model, batch.priority, cause)
        found.setdefault(key, Counter())[batch.dispatch.batch_id] += blocked_ns
    stories = [
        BlockedStory(
            model=model,
            priority=priority,
            batches=len(each),
            blocked_ns=each.total(),
            cause=cause,
        )
        for (model, priority, cause), each in found.items()
    ]
    return sorted(stories, key=lambda one: -one.blocked_ns)[:_BLOCKED_MAX]


def _seen(life: RequestLife, lives: Lives) -> Seen:
    waiting = [other for other in lives.requests.values() if _waits(other) and other is not life]
    return Seen(
        waiting_of_model=sum(other.model == life.model for other in waiting),
        waiting=len(waiting),
        running=len(lives.running),
        slots=sum(len(device.slot_lanes) for device in lives.devices.values()),
    )


def _waits(life: RequestLife) -> bool:
    return not any(run.ended_at_ns is None for run in life.runs)


# --- a call of a pipeline -------------------------------------------------------------------------


def _call(call_id: RequestId, steps: Sequence[Story], left_out: int) -> Story:
    """A call, by the requests of its steps; what lies between them stands in no record."""
    in_order = sorted(steps, key=lambda step: (step.arrived_ns or 0, step.request_id))
    first = in_order[0]
    ends = [_end_of(step) for step in in_order]
    known = [end_ns for end_ns in ends if end_ns is not None]
    latency_ns = None
    if first.arrived_ns is not None and len(known) == len(ends):
        latency_ns = max(known) - first.arrived_ns
    ill = [step for step in in_order if step.outcome != "completed"]
    worst = ill[0] if ill else in_order[-1]
    return Story(
        request_id=call_id,
        is_whole=all(step.is_whole for step in in_order),
        is_pipeline_call=True,
        model=None,
        tier=first.tier,
        tenant=first.tenant,
        priority=first.priority,
        rows=None,
        arrived_ns=first.arrived_ns,
        budget_ns=None,
        outcome=worst.outcome,
        reason=worst.reason,
        stage=None,
        message=worst.message,
        retry_after_ns=worst.retry_after_ns,
        let_in_after_ns=None,
        latency_ns=latency_ns,
        late_ns=0,
        is_violation=any(step.outcome in ("rejected", "expired", "failed") for step in ill),
        parts_ns={},
        foreseen=None,
        runs=[],
        blocked_by=[],
        seen=None,
        rescues=[],
        steps=in_order,
        steps_left_out=left_out,
    )


def _end_of(step: Story) -> int | None:
    if step.arrived_ns is None or step.latency_ns is None:
        return None
    return step.arrived_ns + step.latency_ns
