"""What helps against each cause of a long latency, in words that name the setting.

Knows causes and settings. Refuses to know a run: whether a cause matters is for others to say.
"""

from typing import Final

from headway.core import ModelName
from headway.report.waits import Cause

__all__ = ["LABELS", "remedy_of"]

LABELS: Final[dict[Cause, str]] = {
    Cause.INTAKE: "reading and decoding",
    Cause.HOST_PAUSE: "host paused",
    Cause.COLD_START: "cold start",
    Cause.QUEUE: "queue of its class or above",
    Cause.BATCH_WAIT: "waiting for its batch to fill",
    Cause.HELD: "held back by the policy",
    Cause.BLOCKED_LOWER: "blocked by lower priority",
    Cause.BLOCKED_EQUAL: "blocked by its class or above",
    Cause.OVERHEAD: "overhead and launch jitter",
    Cause.TRANSFER: "transfers",
    Cause.OWN_WORK: "its own work",
    Cause.COMPANY: "the rest of its batch",
    Cause.PADDING: "padding",
    Cause.INTERFERENCE: "interference",
    Cause.VARIANCE: "service time varied",
}
"""As people read them."""

_REMEDIES: Final[dict[Cause, str]] = {
    Cause.INTAKE: "send tensors as bytes (`binary_data`, gRPC `raw_input_contents`) or in shared "
    "memory, and smaller bodies",
    Cause.HOST_PAUSE: "give the server's process a core of its own (fewer worker threads, CPU "
    "limits that do not throttle), and look for whatever else runs on the machine",
    Cause.COLD_START: "warm up `{model}` with the sizes and shapes that come, load it before its "
    "load comes, and see why workers were lost if they were",
    Cause.QUEUE: "a burst: bound it (`queue.requests_max`, rate limits of tenants), add a replica "
    "or slot for `{model}`, or split its queue into tiers so that what is urgent goes first",
    Cause.BATCH_WAIT: "shorten `batch.linger` of `{model}`",
    Cause.HELD: "the policy keeps slots for others: raise its cap or lower its reserve, or give "
    "`{model}` devices of its own",
    Cause.BLOCKED_LOWER: "bound how long and how many low batches run (`static-cap`, "
    "`batch.rows_max`, `batch.oversize: split`), or use policy `headway`, which holds them back by "
    "prediction",
    Cause.BLOCKED_EQUAL: "long batches of the same class: cap their rows or lengths, or give the "
    "short ones a tier above",
    Cause.OVERHEAD: "fewer and larger batches, and a core for the workers that nobody else uses",
    Cause.TRANSFER: "smaller payloads, pinned memory, and large copies of low priority in chunks",
    Cause.OWN_WORK: "requests differ in size: cap rows and lengths, or split the queue so that "
    "long ones have a model entry or tier of their own",
    Cause.COMPANY: "cap `batch.rows_max` of `{model}`: small requests wait for the large batch "
    "that they are in",
    Cause.PADDING: "finer buckets for `{model}`, or `ragged` inputs, and lengths that are capped",
    Cause.INTERFERENCE: "fewer batches at once on the device (slots, `static-cap`), or a policy "
    "and predictor that know what neighbours cost (`headway`)",
    Cause.VARIANCE: "predict with a wider bound, pin threads and clocks, and look at `headway "
    "doctor` for throttling and noisy neighbours",
}


def remedy_of(cause: Cause, model: ModelName) -> str:
    """What to do about a cause."""
    return _REMEDIES[cause].format(model=model)
