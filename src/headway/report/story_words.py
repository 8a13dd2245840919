"""A request's story in sentences, for a terminal.

Knows stories. Refuses to work anything out: every number is one of the story's.
"""

from collections.abc import Iterator
from typing import Final

from headway.observe import BatchEnding
from headway.report.remedies import LABELS
from headway.report.story import BesideStory, BlockedStory, RunStory, Story
from headway.report.waits import Cause
from headway.units import format_duration

__all__ = ["story_lines"]

_LABEL_WIDTH: Final = max(map(len, LABELS.values())) + 2
_BLOCKED: Final[dict[Cause, str]] = {
    Cause.QUEUE: "came first in the queue",
    Cause.BLOCKED_EQUAL: "ran already when it came",
    Cause.BLOCKED_LOWER: "of lower priority",
}
_WAITING: Final = (
    Cause.QUEUE,
    Cause.BLOCKED_EQUAL,
    Cause.BLOCKED_LOWER,
    Cause.BATCH_WAIT,
    Cause.HELD,
    Cause.COLD_START,
)


def story_lines(story: Story) -> Iterator[str]:
    """The story, line by line."""
    yield from _call_lines(story) if story.is_pipeline_call else _request_lines(story)


def _request_lines(story: Story) -> Iterator[str]:
    yield _title(story)
    yield _fate(story)
    if not story.is_whole:
        yield "The records begin after its arrival, so what came before is not known."
    yield from _why(story)
    yield from _parts(story)
    yield from _blocked(story)
    for run in story.runs:
        yield from _run(run, number=len(story.runs))
    yield from _predicted(story)
    yield from _rescues(story)


def _title(story: Story) -> str:
    what = f"Request {story.request_id}"
    if story.model is not None:
        what += f" of {story.model}"
    if story.is_whole:
        what += f": {_count(story.rows or 0, 'row')}, tier {story.tier}"
        what += f", priority {story.priority}, tenant {story.tenant}"
    if story.call_id is not None:
        what += f"; a step of pipeline call {story.call_id}"
    return what


def _fate(story: Story) -> str:
    """When it came and what became of it."""
    came = "" if story.arrived_ns is None else f"It came {_time(story.arrived_ns)} after the start"
    if story.budget_ns is not None:
        came += f" with a budget of {_time(story.budget_ns)}"
    came = f"{came}. " if came else ""
    after = "" if story.latency_ns is None else f" after {_time(story.latency_ns)}"
    match story.outcome:
        case "completed" if story.late_ns:
            end = f"It was answered{after}, {_time(story.late_ns)} late."
        case "completed" if story.budget_ns is not None and story.latency_ns is not None:
            spare_ns = story.budget_ns - story.latency_ns
            end = f"It was answered{after}, with {_time(spare_ns)} to spare."
        case "completed":
            end = f"It was answered{after}."
        case "rejected":
            end = f"It was refused: {story.reason}."
        case "expired" if story.reason == "deadline_past":
            end = f"Its time was up{after}, while it was {story.stage}."
        case "expired":
            end = f"It was given up{after}: {story.reason}."
        case "failed":
            end = f"It failed{after}: {story.reason}, {story.message}"
        case "cancelled":
            end = f"Its client took it back{after}, while it was {story.stage}."
        case _:
            end = "It had not ended when the records did."
    return came + end


def _why(story: Story) -> Iterator[str]:
    """What a request without an answer met."""
    seen = story.seen
    if seen is not None and story.outcome in ("rejected", "expired", "unfinished"):
        yield (
            f"Then {_count(seen.waiting, 'other')} waited, {seen.waiting_of_model} of them for its "
            f"model, and {_count(seen.running, 'batch')} ran on {_count(seen.slots, 'slot')}."
        )
    if story.retry_after_ns is not None:
        yield f"Its client was told to try again after {_time(story.retry_after_ns)}."


def _parts(story: Story) -> Iterator[str]:
    whole_ns = sum(story.parts_ns.values())
    if not whole_ns:
        return
    yield ""
    yield "Where its time went:"
    for cause, part_ns in story.parts_ns.items():
        label = LABELS[cause].ljust(_LABEL_WIDTH)
        yield f"  {label}{_time(part_ns):>10}  {part_ns / whole_ns:>5.1%}"


def _blocked(story: Story) -> Iterator[str]:
    if story.blocked_by:
        yield ""
        yield "Who held the slots while it waited for one:"
    for one in story.blocked_by:
        yield f"  {_time(one.blocked_ns):>10}  {_batches(one)}, {_BLOCKED[one.cause]}"


def _batches(one: BlockedStory | BesideStory) -> str:
    priority = "" if one.priority is None else f", priority {one.priority}"
    return f"{_count(one.batches, 'batch')} of {one.model}{priority}"


def _run(run: RunStory, *, number: int) -> Iterator[str]:
    yield ""
    what = f"batch {run.batch_id}: {_count(run.rows, 'row')}"
    if run.is_segment:
        what += f" of it, from row {run.first_row} on"
    else:
        others = run.requests - 1
        company = f"with {_count(others, 'other')}" if others else "alone"
        what += f", {company}"
    part = "Its batch" if number == 1 else "A part of it ran in"
    colon = ", " if number == 1 else " "
    yield f"{part}{colon}{what}, on {run.device} slot {run.slot}, {_took(run)}"
    if run.execution_ns is not None:
        transfers_ns = (run.transfer_in_ns or 0) + (run.transfer_out_ns or 0)
        overhead_ns = max(0, run.took_ns - run.execution_ns - transfers_ns)
        yield (
            f"  execution {_time(run.execution_ns)}, transfers {_time(transfers_ns)}, overhead "
            f"{_time(overhead_ns)}{_typical(run)}"
        )
    if run.expected_ns is not None and run.bound_ns is not None:
        bound = f"at most {_time(run.bound_ns)}{_held(run, run.bound_ns)}"
        yield f"  predicted at its start {_time(run.expected_ns)}, {bound}"
    for other in run.beside:
        yield f"  beside it {_batches(other)}, for {_time(other.beside_ns)} in all"
    if run.error is not None:
        yield f"  it ended with: {run.error}"


def _held(run: RunStory, bound_ns: int) -> str:
    """Whether the bound held, which one that did not run to its end can only disprove."""
    if run.took_ns > bound_ns:
        return ", which it broke"
    return ", which held" if run.ending is BatchEnding.FINISHED else ""


def _took(run: RunStory) -> str:
    match run.ending:
        case BatchEnding.FINISHED:
            return f"took {_time(run.took_ns)}"
        case BatchEnding.RUNNING:
            return f"had run for {_time(run.took_ns)} then"
        case _:
            return f"{run.ending} after {_time(run.took_ns)}"


def _typical(run: RunStory) -> str:
    return "" if run.typical_ns is None else f"; alone such a batch takes {_time(run.typical_ns)}"


def _predicted(story: Story) -> Iterator[str]:
    foreseen = story.foreseen
    if foreseen is None:
        return
    yield ""
    yield (
        f"At its admission {_time(foreseen.mean_ns)} was expected, at most "
        f"{_time(foreseen.bound_ns)}. Its parts, beside what they took:"
    )
    parts = story.parts_ns
    measured = {
        "queue": (foreseen.queue_ns, sum(parts.get(cause, 0) for cause in _WAITING)),
        "overhead": (foreseen.overhead_ns, parts.get(Cause.OVERHEAD, 0)),
        "transfer": (foreseen.transfer_ns, parts.get(Cause.TRANSFER, 0)),
        "execution": (
            foreseen.execution_ns,
            sum(parts.get(cause, 0) for cause in _EXECUTING),
        ),
    }
    for name, (expected_ns, took_ns) in measured.items():
        yield f"  {name:<10}{_time(expected_ns):>10}  {_time(took_ns):>10}"


_EXECUTING: Final = (
    Cause.OWN_WORK,
    Cause.COMPANY,
    Cause.PADDING,
    Cause.INTERFERENCE,
    Cause.VARIANCE,
)


def _rescues(story: Story) -> Iterator[str]:
    if not story.rescues:
        if story.is_violation and story.outcome == "failed":
            yield ""
            yield "It failed for what it met, not for its time; see the error."
        return
    yield ""
    yield "What would have saved it:" if story.is_violation else "What would have made it faster:"
    has_saving = any(rescue.would_save for rescue in story.rescues)
    for rescue in story.rescues:
        alone = ""
        if story.is_violation and has_saving:
            alone = " (enough alone)" if rescue.would_save else " (not enough alone)"
        yield f"  - {rescue.what}{alone}"


# --- a call of a pipeline -------------------------------------------------------------------------


def _call_lines(story: Story) -> Iterator[str]:
    count = len(story.steps) + story.steps_left_out
    steps = _count(count, "request")
    yield f"Call {story.request_id} of a pipeline, of which the records tell {steps}"
    if story.latency_ns is not None:
        yield (
            f"The first came {_time(story.arrived_ns or 0)} after the start, and the last ended "
            f"{_time(story.latency_ns)} after it."
        )
    ill = next((step for step in story.steps if step.outcome != "completed"), None)
    if ill is not None:
        reason = "" if ill.reason is None else f" ({ill.reason})"
        how = "had not ended" if ill.outcome == "unfinished" else f"ended {ill.outcome}{reason}"
        yield f"It has no answer there: request {ill.request_id} {how}."
    yield ""
    yield "Its requests, from when they came to when they ended, after the first had come:"
    for step in story.steps:
        yield f"  {_step(step, story.arrived_ns or 0)}"
    if story.steps_left_out:
        yield f"  and {story.steps_left_out} more"
    slowest = max(story.steps, key=lambda step: step.latency_ns or 0)
    yield ""
    yield "The one that took longest:"
    yield ""
    yield from _request_lines(slowest)


def _step(step: Story, began_ns: int) -> str:
    from_ns = (step.arrived_ns or began_ns) - began_ns
    until = "?" if step.latency_ns is None else _time(from_ns + step.latency_ns)
    most = next(iter(step.parts_ns), None)
    why = "" if most is None else f", most of it {LABELS[most]}"
    return f"{step.request_id} of {step.model}: {_time(from_ns)} to {until}, {step.outcome}{why}"


def _count(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count} {what}{'es' if what.endswith('ch') else 's'}"


def _time(duration_ns: int) -> str:
    return format_duration(duration_ns)
