"""The checks of runs, as a table: what Records and profilers' exports tell.

Knows words and thresholds, which it takes from the files that apply them, so that no text says
another number than the code. The reference page is written from it.
"""

from typing import Final

from headway.doctor import promises, slots, traces
from headway.doctor.chart import Check, percent
from headway.doctor.finding import Severity, Source
from headway.units import NS_PER_MS

__all__ = ["PROMISE_CHECKS", "SLOT_CHECKS"]

_RECORDS: Final = (Source.RECORDS,)
_TRACE: Final = (Source.TRACE,)

SLOT_CHECKS: Final = (
    Check(
        code="no_work",
        title="slots are idle for want of requests",
        severity=Severity.NOTE,
        needs=_RECORDS,
        criterion=(
            f"From the first arrival to the last, slots are busy for less than"
            f" {percent(slots.IDLE_RATIO_MAX)} of their time, and in"
            f" {percent(slots.STARVED_RATIO_MIN)} of the rest nothing waited anywhere."
        ),
        remedy="nothing is wrong; fewer slots or devices would do",
        look=slots.idle_for_want_of_requests,
    ),
    Check(
        code="held_back",
        title="requests were late that waited while a slot was free",
        severity=Severity.WARNING,
        needs=_RECORDS,
        criterion=(
            "More than half of the batches with late requests had waited, beyond the linger, for"
            f" {percent(slots.HELD_RATIO_MIN)} of the model's tightest budget and more while their"
            " device had a free slot."
        ),
        remedy="the policy kept the slot for others, or a limit did: see `policy.kind`, a cap such"
        " as `low_max`, and `batch.linger`; `headway plan policy` compares them on your workload",
        look=slots.held_back,
    ),
    Check(
        code="host_bound",
        title="slots wait for the host, not for the model",
        severity=Severity.WARNING,
        needs=_RECORDS,
        criterion=(
            f"More than half of a model's batches spend over {percent(slots.OVERHEAD_RATIO_MIN)} of"
            " their service beside the stages that the worker times. A note where nothing waits"
            " for it."
        ),
        remedy="make batches larger (`batch.rows_max`, `batch.linger`), send rows together, and let"
        " the model do more in one call",
        look=slots.host_bound,
    ),
    Check(
        code="transfer_bound",
        title="time goes into moving tensors",
        severity=Severity.WARNING,
        needs=(Source.RECORDS, Source.TRACE),
        criterion=(
            f"Transfers take more than {percent(slots.TRANSFER_RATIO_MIN)} of the stages of more"
            f" than half of a model's batches, or copies over the link"
            f" {percent(traces.COPY_TIME_RATIO_MIN)} of the time of kernels and copies in a"
            " profiler's export."
        ),
        remedy="send smaller tensors (uint8 instead of float32, outputs that are needed only), keep"
        " them on the device from step to step, use pinned memory, or overlap copies with more"
        " slots",
        look=traces.transfers,
    ),
    Check(
        code="small_batches",
        title="batches stay small while more of the model waits",
        severity=Severity.WARNING,
        needs=_RECORDS,
        criterion=(
            f"More than {percent(slots.LEFT_SHARE_MIN)} of a model's batches had at most"
            f" {percent(slots.FILL_RATIO_MAX)} of the rows that they may have and left others of"
            " the model waiting."
        ),
        remedy="see what keeps requests apart: shapes (`batch.buckets`), parameters"
        " (`batch_parameters` of the model), versions; or rows, where the policy chose fewer",
        look=slots.small_batches,
    ),
    Check(
        code="copies_per_row",
        title="the model copies row by row",
        severity=Severity.WARNING,
        needs=_RECORDS,
        criterion=(
            "Of the execution of the largest batches, beside the smallest, more than"
            f" {percent(slots.OWN_RATIO_MIN)} is a fixed time for each row, and that time is"
            f" {slots.COPY_NS_PER_BYTE[0]} to {slots.COPY_NS_PER_BYTE[1]} ns for each byte of the"
            " row, which is what copying takes. Beyond that it is a note: such a model may compute"
            " row by row, or be bound by arithmetic on its core. A model that passes over its whole"
            " input once, element by element, looks the same from outside."
        ),
        remedy="work on the whole batch at once: no `for row in batch`, no `.tolist()`, no `stack`"
        " of copies; write into one array made beforehand. Where it is so already, batches gain"
        " nothing: lower `batch.rows_max`",
        look=slots.rows_one_by_one,
    ),
    Check(
        code="slots_in_turn",
        title="slots take turns instead of running side by side",
        severity=Severity.WARNING,
        needs=_RECORDS,
        criterion=(
            "Executions beside others, on other lanes, take longer by"
            f" {percent(slots.SERIAL_RATIO_MIN)} and more of what one after another would take."
            " Not judged while other programs use the cores."
        ),
        remedy="a lock is shared: Python's own where the model computes in Python, one stream of a"
        " device, one session with a mutex. Use fewer slots, or a worker each"
        " (`isolation: per_model`)",
        look=slots.slots_in_turn,
    ),
    Check(
        code="small_copies",
        title="small copies stop the device between kernels",
        severity=Severity.WARNING,
        needs=_TRACE,
        criterion=(
            f"Of a profiler's export: more than {traces.SMALL_COPIES_RATIO_MIN} copies over the"
            f" link for each kernel, of at most {traces.SMALL_BYTES_MAX >> 10} KiB, between"
            " kernels."
        ),
        remedy="look for `.item()`, `.cpu()`, `.numpy()`, `print` of a tensor, and indices made on"
        " the host within the model: each waits for the device",
        look=traces.small_copies,
    ),
    Check(
        code="launch_gaps",
        title="the device waits for the host between kernels",
        severity=Severity.WARNING,
        needs=_TRACE,
        criterion=(
            f"Within runs (pauses below {traces.GAP_NS_MAX / 1e6:.0f} ms) the device is idle for"
            f" {percent(traces.GAPS_RATIO_MIN)} of the time between the beginnings of kernels."
        ),
        remedy="launch fewer, larger kernels: compile the model, use CUDA graphs, larger batches",
        look=traces.launch_gaps,
    ),
    Check(
        code="padding",
        title="batches run with much padding",
        severity=Severity.WARNING,
        needs=_RECORDS,
        criterion=(
            f"More than half of a model's batches are padding for"
            f" {percent(slots.PADDING_RATIO_MIN)} of their bytes and more."
        ),
        remedy="declare sizes that are nearer to what comes (`batch.buckets`), or lay requests end"
        " to end where the model can (`batch.ragged`)",
        look=slots.padding,
    ),
)

PROMISE_CHECKS: Final = (
    Check(
        code="budget_infeasible",
        title="budgets are shorter than the model takes alone",
        severity=Severity.SERIOUS,
        needs=_RECORDS,
        criterion=(
            f"More than {percent(promises.INFEASIBLE_RATIO_MIN)} of a tier's requests of a model"
            " have a budget that is shorter than 95 % of its services were."
        ),
        remedy="no scheduler can keep this: give the tier a longer budget, or make the model faster"
        " (smaller inputs, fewer rows a request, another precision, another device)",
        look=promises.infeasible_budgets,
    ),
    Check(
        code="poor_predictions",
        title="batches are late because their time is predicted badly",
        severity=Severity.WARNING,
        needs=_RECORDS,
        criterion=(
            f"Fewer than {percent(promises.COVERAGE_RATIO_MIN)} of the later half of a model's"
            f" bounds hold, and at least {percent(promises.BLAMED_RATIO_MIN)} of its late requests"
            " were in batches that took longer."
        ),
        remedy="measure the model (`headway profile`, then `predictor.profiles`), keep what is"
        " learnt (`predictor.state`), or look for what makes its times jump: neighbours, threads,"
        " inputs of very different sizes in one bucket",
        look=promises.poor_predictions,
    ),
    Check(
        code="cold_start",
        title="the first batch after a load is far slower than the others",
        severity=Severity.WARNING,
        needs=_RECORDS,
        criterion=(
            f"Its execution takes over {promises.COLD_FACTOR_MIN:.0f} times of what 95 % of the"
            " later ones take, and its rows so many times the median of theirs. A note where it is"
            f" below {promises.COLD_FELT_NS_MIN // NS_PER_MS} ms and made nobody late."
        ),
        remedy="warm the model up with what it will be asked: `warmup.rows` and `warmup.shapes`, or"
        " a `load` that does what the first call does now",
        look=promises.cold_starts,
    ),
    Check(
        code="crash_loop",
        title="workers die again and again",
        severity=Severity.SERIOUS,
        needs=(Source.RECORDS, Source.METRICS),
        criterion=(
            f"At least {promises.LOSSES_MIN} losses in the time that was seen; fewer are a warning."
        ),
        remedy="the server's log has the last lines of each worker. With `isolation: per_model`"
        " only the model that crashes goes down",
        look=promises.crash_loops,
    ),
    Check(
        code="failing_batches",
        title="a model raises",
        severity=Severity.SERIOUS,
        needs=_RECORDS,
        criterion=f"More than {percent(promises.FAILED_RATIO_MIN)} of its batches fail.",
        remedy="the error's message is in the answers and in the server's log",
        look=promises.failing_batches,
    ),
    Check(
        code="overload",
        title="more comes than the slots can do",
        severity=Severity.WARNING,
        needs=_RECORDS,
        criterion=(
            f"More than {percent(promises.LOST_RATIO_MIN)} of the requests are not served in time"
            f" while slots are busy for {percent(promises.OVERLOAD_RATIO_MIN)} of their time."
        ),
        remedy="add devices, send less, or say what matters less (tiers): the rest is then in time",
        look=promises.overload,
    ),
)
