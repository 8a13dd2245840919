"""The checks of machines, as a table: what processes, cores, accelerators and allocators tell.

Knows words and thresholds, which it takes from the files that apply them, so that no text says
another number than the code. The reference page is written from it.
"""

from typing import Final

from headway.doctor import accelerators, machine, memory
from headway.doctor.chart import Check, percent
from headway.doctor.finding import Severity, Source

__all__ = ["CORE_CHECKS", "DEVICE_CHECKS", "MEMORY_CHECKS"]

_PROCESSES: Final = (Source.PROCESSES,)
_DEVICES: Final = (Source.DEVICES,)
_TRACE: Final = (Source.TRACE,)

MEMORY_CHECKS: Final = (
    Check(
        code="memory_leak",
        title="memory grows without end",
        severity=Severity.SERIOUS,
        needs=_PROCESSES,
        criterion=(
            f"After a warm-up of {percent(memory.WARM_UP_RATIO)} of the time: Theil-Sen slope above"
            f" 0 with 99 %, Kendall's tau of at least {memory.TAU_MIN}, every fifth of the time"
            f" higher than the one before, and {memory.GROWTH_BYTES_MIN >> 20} MiB and"
            f" {percent(memory.GROWTH_RATIO_MIN)} of growth in all (for the server's own process"
            f" {memory.SERVER_GROWTH_BYTES_MIN >> 20} MiB). Files and shared memory do not count."
        ),
        remedy="look in the model for what is kept from one call to the next: lists that grow,"
        " caches without a limit, tensors with their history. With `isolation: per_model` you see"
        " which model it is; reloading it gives the memory back meanwhile",
        look=memory.process_leaks,
    ),
    Check(
        code="device_memory_leak",
        title="device memory grows without end",
        severity=Severity.SERIOUS,
        needs=_DEVICES,
        criterion="As for `memory_leak`, for each process and device, and for what is used of a"
        " device and held by no process that it names. Where a trace has the allocator's view and"
        " what is allocated does not grow, it is a note: a cache that grew.",
        remedy="look for tensors that are kept (`.detach()` what you log, leave `no_grad` on), for"
        " models that are loaded again and not let go of, and for contexts that are not closed",
        look=memory.device_leaks,
    ),
    Check(
        code="memory_kept",
        title="memory does not come back after an unload",
        severity=Severity.WARNING,
        needs=_PROCESSES,
        criterion=(
            "Memory of workers and devices before loads and after their unloads: more than"
            f" {percent(memory.KEPT_RATIO_MIN)} of what the loads had added is kept, and at least"
            f" {memory.KEPT_BYTES_MIN >> 20} MiB, beyond what memory moves by itself. Allocators"
            " keep some, never most."
        ),
        remedy="something still refers to the model: a module's global, a thread, a session or"
        " context that `unload` does not close. Where it cannot be found, `isolation: per_model`"
        " ends the process with the model",
        look=memory.kept_after_unload,
    ),
    Check(
        code="unreleased_tensors",
        title="tensors are not let go of",
        severity=Severity.SERIOUS,
        needs=_TRACE,
        criterion="Of a torch trace with memory events: the lowest that is allocated in each"
        " stretch of time rises as in `memory_leak`. Where only what is reserved rises, it is a"
        " note: a cache.",
        remedy="look for tensors that are kept from one call to the next, with their history:"
        " `.detach()`, `torch.no_grad()`, and no lists of outputs",
        look=memory.allocator_signs,
    ),
)

CORE_CHECKS: Final = (
    Check(
        code="too_many_threads",
        title="threads outnumber the cores",
        severity=Severity.WARNING,
        needs=_PROCESSES,
        criterion=(
            f"A worker's threads that run or are ready to are {machine.THREADS_RATIO_MIN} times the"
            " cores, or slots where these are more, and wait for a core for"
            f" {percent(machine.OWN_DELAY_RATIO_MIN)} of that time. Not judged while other"
            " programs use the cores."
        ),
        remedy="one thread a slot: leave `intra_op_threads` at 1, do not set `OMP_NUM_THREADS`, and"
        " make no pool in the model; or have fewer slots, each with its threads",
        look=machine.too_many_threads,
    ),
    Check(
        code="idle_cores",
        title="cores are idle while requests wait for a slot",
        severity=Severity.NOTE,
        needs=_PROCESSES,
        criterion=(
            f"In more than half of the readings {percent(machine.FULL_SLOTS_RATIO_MIN)} of the"
            f" slots were busy and requests waited, and {percent(machine.IDLE_CORES_RATIO_MIN)} of"
            " the cores on which workers may run, at least one, were idle. Not judged where an"
            " accelerator does the work."
        ),
        remedy="give the device more cores or slots (`devices[].cores`, `slots_per_core`), or each"
        " model more threads (`intra_op_threads`) where it gains by them; where a model waits for"
        " something else than a core, more slots let others run meanwhile",
        look=machine.idle_cores,
    ),
    Check(
        code="noisy_neighbour",
        title="other programs take the cores",
        severity=Severity.WARNING,
        needs=_PROCESSES,
        criterion=(
            f"Others keep {percent(machine.NEIGHBOUR_CORES_RATIO_MIN)} of the cores busy, and a"
            f" process of the server's waits for a core for {percent(machine.DELAYED_RATIO_MIN)} of"
            " the time in which it wants one."
        ),
        remedy="give the server cores of its own (`devices[].cores`, a control group), or move the"
        " other program",
        look=machine.neighbours,
    ),
    Check(
        code="quota",
        title="the control group's quota stops the server",
        severity=Severity.WARNING,
        needs=_PROCESSES,
        criterion=(
            f"Threads were stopped for {percent(machine.QUOTA_RATIO_MIN)} of the time, for the"
            " quota of processor time was used up."
        ),
        remedy="raise the limit (`cpu.max`, `resources.limits.cpu`) or take it away and pin cores;"
        " fewer slots use less of it at once",
        look=machine.quota,
    ),
    Check(
        code="server_busy",
        title="the server's own process has no time left",
        severity=Severity.WARNING,
        needs=_PROCESSES,
        criterion=f"It uses {percent(machine.SATURATED_RATIO_MIN)} of a core, and has one thread.",
        remedy="send more rows a request and tensors as binary data, or put a second server beside"
        " it",
        look=machine.server_busy,
    ),
)

DEVICE_CHECKS: Final = (
    Check(
        code="idle_device",
        title="the device does little while slots are busy",
        severity=Severity.WARNING,
        needs=_DEVICES,
        criterion=(
            f"Its utilisation is below {percent(accelerators.LOW_RATIO_MAX)} in more than half of"
            f" the readings, while at least {percent(accelerators.BUSY_SLOTS_RATIO_MIN)} of the"
            " slots are busy, or while requests wait. Without either it is a note."
        ),
        remedy="the host keeps it waiting: see `host_bound`, `transfer_bound` and `small_batches`,"
        " and record a trace for `launch_gaps` and `small_copies`",
        look=accelerators.idle_devices,
    ),
    Check(
        code="device_neighbour",
        title="other programs use the device",
        severity=Severity.WARNING,
        needs=_DEVICES,
        criterion=(
            "Processes that are none of the server's hold"
            f" {percent(accelerators.NEIGHBOUR_MEMORY_RATIO_MIN)} of its memory; a note while it is"
            " idle."
        ),
        remedy="give the server the device for itself, or a part of its own (MIG, MPS)",
        look=accelerators.device_neighbours,
    ),
    Check(
        code="open_contexts",
        title="processes keep the device open, and become more",
        severity=Severity.WARNING,
        needs=_DEVICES,
        criterion=(
            "The number of processes that hold memory of a device rises in each third of the time,"
            f" by {accelerators.CONTEXTS_MIN} and more in all. Each context costs some hundred MiB."
        ),
        remedy="end what was started: a process that a model starts must end with it (`unload`),"
        " and a pool must be closed; one worker for all models (`isolation: shared`) needs one"
        " context",
        look=accelerators.open_contexts,
    ),
    Check(
        code="throttling",
        title="clocks are held down",
        severity=Severity.WARNING,
        needs=(Source.DEVICES, Source.PROCESSES),
        criterion=(
            f"A device names heat or power as a reason in"
            f" {percent(accelerators.THROTTLED_RATIO_MIN)} of the readings, or cores were slowed"
            " for their heat."
        ),
        remedy="see to cooling and power limits; until then the predictor learns the slower times",
        look=accelerators.throttling,
    ),
    Check(
        code="narrow_link",
        title="the link is narrower than it could be",
        severity=Severity.WARNING,
        needs=_DEVICES,
        criterion=(
            f"At {percent(accelerators.LOADED_RATIO_MIN)} utilisation and more, PCIe never had the"
            " lanes or the generation that device and slot allow. At rest links slow down by"
            " design."
        ),
        remedy="seat the card anew, try another slot, look at risers and the firmware's settings",
        look=accelerators.narrow_links,
    ),
)
