"""Checks of slots: whether they are used, and if not, what they wait for.

Pure: the course of a run in, signs out. A share of batches is judged by how many of them lie beyond
a threshold, so a few wild times change nothing, and few batches say so by their confidence.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from headway.doctor.chance import confidence_above, quantile
from headway.doctor.chart import Chart, by_subject, count_of, figure
from headway.doctor.course import BatchPast, Course
from headway.doctor.finding import Severity, Sign, Unknown
from headway.units import NS_PER_MS, NS_PER_S, NS_PER_US

__all__ = [
    "BATCHES_MIN",
    "BUSY_RATIO_MIN",
    "COPY_NS_PER_BYTE",
    "FILL_RATIO_MAX",
    "HELD_RATIO_MIN",
    "IDLE_RATIO_MAX",
    "LEFT_SHARE_MIN",
    "MOVED_NS_MIN",
    "OVERHEAD_RATIO_MIN",
    "OWN_RATIO_MIN",
    "PADDING_RATIO_MIN",
    "SERIAL_RATIO_MIN",
    "TRANSFER_RATIO_MIN",
    "held_back",
    "host_bound",
    "idle_for_want_of_requests",
    "padding",
    "rows_one_by_one",
    "slots_in_turn",
    "small_batches",
    "transfer_bound",
]

BATCHES_MIN: Final = 20
"""Of a model, before its times are judged."""
BUSY_RATIO_MIN: Final = 0.3
"""Of the slots' time: below it nothing is lost by how a batch spends its own."""
IDLE_RATIO_MAX: Final = 0.3
"""Utilisation that operators are alarmed at."""
STARVED_RATIO_MIN: Final = 0.95
"""Of the idle time, in which nothing waited: then there is only one cause."""
OVERHEAD_RATIO_MIN: Final = 0.5
"""Of a batch's service, on the way to the worker and back: more than half is not the model."""
TRANSFER_RATIO_MIN: Final = 0.4
"""Of a batch's stages, for moving tensors. The copy out of a healthy model is a few per cent."""
STAGES_NS_MIN: Final = 100 * NS_PER_US
"""Below it the clock and the scheduler are what is measured."""
MOVED_NS_MIN: Final = 300 * NS_PER_US
"""Below it the calls take the time, not the bytes: 300 us move a megabyte."""
FILL_RATIO_MAX: Final = 0.5
"""Of the rows that a batch may have; fuller ones have most of the gain."""
LEFT_SHARE_MIN: Final = 0.3
"""Of the batches, that were so small while more of the model waited."""
OWN_RATIO_MIN: Final = 0.7
"""Of a large batch's time, what each row takes for itself; what rows share is why batches pay."""
SPREAD_MIN: Final = 2.0
"""The large batch has so many times the rows of the small one."""
COPY_NS_PER_BYTE: Final = (0.1, 8.0)
"""Of a row's own time that copying explains: from one pass in a cache to several over memory. No
network computes so fast on a core."""
SIZES_BATCHES_MIN: Final = 5
SERIAL_RATIO_MIN: Final = 0.7
"""Of the slowdown that taking turns would mean: sharing memory and caches costs less."""
HELD_RATIO_MIN: Final = 0.3
"""Of the model's tightest budget, waited while a slot was free: without that it was in time."""
LATE_MIN: Final = 5
PADDING_RATIO_MIN: Final = 0.3
"""Of the bytes that batches ran with."""


def idle_for_want_of_requests(chart: Chart) -> Iterator[Sign | Unknown]:
    """Slots that are idle because nobody asks."""
    course = chart.course
    assert course is not None
    for device, use in course.use.items():
        total_ns = use.slots * course.asked_ns
        idle_ns = total_ns - use.busy_ns
        if total_ns <= 0:
            yield Unknown(subject=device, why="too few requests came to cover any time")
        elif use.busy_ns < IDLE_RATIO_MAX * total_ns and use.starved_ns >= (
            STARVED_RATIO_MIN * idle_ns
        ):
            yield Sign(
                subject=device,
                confidence_ratio=use.starved_ns / idle_ns,
                evidence=(
                    figure("slots busy", use.busy_ns / total_ns),
                    figure("idle time in which nothing waited", use.starved_ns / idle_ns),
                    figure("from the first arrival to the last", course.asked_ns / NS_PER_S, "s"),
                ),
            )


def held_back(chart: Chart) -> Iterator[Sign | Unknown]:
    """Late requests that had waited while a slot was free for them."""
    course = chart.course
    assert course is not None
    budgets_ns: dict[str, int] = {}
    for past in course.requests:
        name, budget_ns = str(past.request.model), past.request.budget_ns
        budgets_ns[name] = min(budget_ns, budgets_ns.get(name, budget_ns))
    for model, batches in by_subject(course.batches).items():
        late = [each for each in batches if each.late]
        least_ns = HELD_RATIO_MIN * budgets_ns.get(model, 0)
        held = [each for each in late if each.held_ns > least_ns]
        sure = confidence_above(len(held), len(late), 0.5) if late else 0.0
        if sum(each.late for each in held) >= LATE_MIN and sure > 0.5:
            yield Sign(
                subject=model,
                confidence_ratio=sure,
                evidence=(
                    figure("late batches", len(late)),
                    figure("of them held while a slot was free", len(held)),
                    figure("held", median(b.held_ns for b in held) / NS_PER_MS, "ms (median)"),
                ),
            )


def host_bound(chart: Chart) -> Iterator[Sign | Unknown]:
    """Slots that are taken for longer than the model runs."""
    course = chart.course
    assert course is not None
    if (noise := chart.noise()) is not None and noise.is_loud:
        yield Unknown(why=noise.words)
        return
    for model, batches in by_subject(chart.finished()).items():
        own = [each for each in batches if not each.crowd]
        slow = [e for e in own if e.service_ns - e.stages_ns > OVERHEAD_RATIO_MIN * e.service_ns]
        if not own or not _is_busy(course, own) or len(own) < BATCHES_MIN:
            continue
        sure = confidence_above(len(slow), len(own), 0.5)
        overhead_ns = median(each.service_ns - each.stages_ns for each in own)
        left = count_of(each.left_rows for each in own)
        if sure > 0.5:
            is_felt = left > 0.5 * len(own)
            yield Sign(
                subject=model,
                confidence_ratio=sure,
                severity=None if is_felt else Severity.NOTE,
                evidence=(
                    figure("service beside the stages", overhead_ns / NS_PER_MS, "ms (median)"),
                    figure("stages", median(e.stages_ns for e in own) / NS_PER_MS, "ms (median)"),
                    figure("batches of which it is more than half", len(slow) / len(own)),
                    figure("batches that left others waiting", left / len(own)),
                ),
            )


def transfer_bound(chart: Chart) -> Iterator[Sign | Unknown]:
    """Stages of which moving tensors is a large part; or copies, in a profiler's export."""
    for model, batches in by_subject(chart.finished()).items():
        moved_ns = median(each.transfer_in_ns + each.transfer_out_ns for each in batches)
        if len(batches) < BATCHES_MIN or moved_ns < MOVED_NS_MIN:
            continue
        slow = [
            each
            for each in batches
            if each.transfer_in_ns + each.transfer_out_ns > TRANSFER_RATIO_MIN * each.stages_ns
        ]
        sure = confidence_above(len(slow), len(batches), 0.5)
        if sure > 0.5:
            yield Sign(
                subject=model,
                confidence_ratio=sure,
                evidence=(
                    figure("moving tensors", moved_ns / NS_PER_MS, "ms (median)"),
                    figure(
                        "execution", median(e.execution_ns for e in batches) / NS_PER_MS,
                        "ms (median)",
                    ),
                    figure("batches", len(batches)),
                ),
            )  # fmt: skip


def small_batches(chart: Chart) -> Iterator[Sign | Unknown]:
    """Batches with room left, while more of the same model waited."""
    course = chart.course
    assert course is not None
    for model, batches in by_subject(course.batches).items():
        if len(batches) < BATCHES_MIN:
            continue
        rows_max = course.rows_max.get(batches[0].model)
        if rows_max is None:
            yield Unknown(subject=model, why="how many rows it takes at once is not known")
            continue
        small = [e for e in batches if e.left_rows and e.rows <= FILL_RATIO_MAX * rows_max]
        sure = confidence_above(len(small), len(batches), LEFT_SHARE_MIN)
        if sure > 0.5:
            causes = [cause for each in small for cause in each.left_because]
            yield Sign(
                subject=model,
                confidence_ratio=sure,
                evidence=(
                    figure("rows of a batch", median(e.rows for e in batches), "(median)"),
                    figure("rows that it may have", rows_max),
                    figure("batches with room that left others waiting", len(small) / len(batches)),
                    figure("rows left waiting", median(e.left_rows for e in small), "(median)"),
                    *(
                        figure(f"kept apart by {cause}", causes.count(cause) / len(small))
                        for cause in sorted(set(causes))
                    ),
                ),
            )


def rows_one_by_one(chart: Chart) -> Iterator[Sign | Unknown]:
    """Batches of whose time nearly all is a fixed time for each of their rows."""
    for model, batches in by_subject(chart.finished()).items():
        sizes: dict[int, list[BatchPast]] = {}
        for each in batches:
            sizes.setdefault(each.rows, []).append(each)
        known = sorted(rows for rows, some in sizes.items() if len(some) >= SIZES_BATCHES_MIN)
        if not known or known[-1] < SPREAD_MIN * known[0]:
            yield Unknown(subject=model, why="its batches were all of about one size")
        else:
            yield from _one_by_one(model, sizes[known[0]], sizes[known[-1]])


def _one_by_one(
    model: str, few: Sequence[BatchPast], many: Sequence[BatchPast]
) -> Iterator[Sign | Unknown]:
    # A low quantile: what others on the machine did then is mostly above it.
    few_ns = quantile([each.execution_ns for each in few], 0.1)
    many_ns = quantile([each.execution_ns for each in many], 0.1)
    few_rows, many_rows = few[0].rows, many[0].rows

    def own_ratio(batch_ns: float) -> float:
        """Part of a large batch's time that is not shared by its rows."""
        return (batch_ns - few_ns) / (many_rows - few_rows) * many_rows / max(1.0, batch_ns)

    if own_ratio(many_ns) < OWN_RATIO_MIN or many_ns < STAGES_NS_MIN:
        return
    row_ns = (many_ns - few_ns) / (many_rows - few_rows)
    row_bytes = median(each.payload_bytes for each in many) / many_rows
    per_byte = row_ns / row_bytes if row_bytes else None
    is_copying = per_byte is not None and (COPY_NS_PER_BYTE[0] <= per_byte <= COPY_NS_PER_BYTE[1])
    yield Sign(
        subject=model,
        confidence_ratio=confidence_above(
            count_of(own_ratio(each.execution_ns) >= OWN_RATIO_MIN for each in many),
            len(many),
            0.5,
        ),
        severity=None if is_copying else Severity.NOTE,
        title=None if is_copying else "rows of a batch take as long as one after another",
        remedy=None
        if is_copying
        else "batches gain little here: lower `batch.rows_max`, so that short requests wait"
        " for less; or, if the model goes through its rows in a loop, let it take them at once",
        evidence=(
            figure(f"execution of {few_rows} {_rows(few_rows)}", few_ns / NS_PER_MS, "ms"),
            figure(f"execution of {many_rows} rows", many_ns / NS_PER_MS, "ms"),
            figure("of the larger batch, not shared by its rows", own_ratio(many_ns)),
            *(
                # Simulated requests may have no bytes, and nothing is said of nothing.
                (figure("a row's own time for each byte of its input", per_byte, "ns"),)
                if per_byte is not None
                else ()
            ),
            figure("batches of those sizes", len(few) + len(many)),
        ),
    )


def _rows(count: int) -> str:
    return "row" if count == 1 else "rows"


def slots_in_turn(chart: Chart) -> Iterator[Sign | Unknown]:
    """Executions side by side that take as long as one after another."""
    course = chart.course
    assert course is not None
    if all(use.slots < 2 for use in course.use.values()):
        yield Unknown(why="no device has two slots")
        return
    if (noise := chart.noise()) is not None and noise.is_loud:
        yield Unknown(why=noise.words)
        return
    for model, batches in by_subject(chart.finished()).items():
        yield from _in_turn(model, [each for each in batches if each.crowd < 0.1])


def _in_turn(model: str, batches: Sequence[BatchPast]) -> Iterator[Sign | Unknown]:
    """Of one size, the one with most batches beside others."""
    alone: dict[int, list[BatchPast]] = {}
    beside: dict[int, list[BatchPast]] = {}
    for each in batches:
        if each.execution_ns >= STAGES_NS_MIN and (each.company < 0.1 or each.company > 0.8):
            kind = alone if each.company < 0.1 else beside
            kind.setdefault(each.rows, []).append(each)
    sizes = [rows for rows in beside if len(alone.get(rows, ())) >= SIZES_BATCHES_MIN]
    rows = max(sizes, key=lambda size: len(beside[size]), default=None)
    if rows is None or len(beside[rows]) < SIZES_BATCHES_MIN:
        yield Unknown(subject=model, why="it ran too seldom alone, or too seldom beside others")
        return
    alone_ns = median(each.execution_ns for each in alone[rows])
    slow = count_of(
        each.execution_ns >= alone_ns * (1 + SERIAL_RATIO_MIN * each.company)
        for each in beside[rows]
    )
    sure = confidence_above(slow, len(beside[rows]), 0.5)
    if sure > 0.5:
        beside_ns = median(each.execution_ns for each in beside[rows])
        yield Sign(
            subject=model,
            confidence_ratio=sure,
            evidence=(
                figure("execution alone", alone_ns / NS_PER_MS, "ms (median)"),
                figure("execution beside others", beside_ns / NS_PER_MS, "ms (median)"),
                figure("slower", beside_ns / alone_ns, "times"),
                figure("others beside it", median(e.company for e in beside[rows]), "(median)"),
                figure("batches alone", len(alone[rows])),
                figure("batches beside others", len(beside[rows])),
            ),
        )


def padding(chart: Chart) -> Iterator[Sign | Unknown]:
    """Bytes that batches run with for nothing."""
    course = chart.course
    assert course is not None
    for model, batches in by_subject(course.batches).items():
        wasted = [e for e in batches if e.padding_bytes > PADDING_RATIO_MIN * e.payload_bytes]
        sure = confidence_above(len(wasted), len(batches), 0.5)
        if len(batches) >= BATCHES_MIN and sure > 0.5:
            total = sum(each.payload_bytes for each in batches)
            share = sum(each.padding_bytes for each in batches) / max(1, total)
            yield Sign(
                subject=model,
                confidence_ratio=sure,
                evidence=(figure("padding", share, "of the bytes"),),
            )


def _is_busy(course: Course, batches: Sequence[BatchPast]) -> bool:
    use = course.use.get(batches[0].device)
    return use is not None and use.busy_ns >= BUSY_RATIO_MIN * use.slots * course.asked_ns
