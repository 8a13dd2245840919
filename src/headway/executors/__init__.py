"""Worker processes: the wire, the pool in the parent, the worker in the child, the back ends.

Knows how to load and run a model where it was told to. Must never import a policy, a queue or a
deadline; sole home of onnxruntime and torch.

The pool and what stands in for it are imported when they are first asked for: a worker enters
through this door too, and does without an event loop.
"""

from typing import TYPE_CHECKING

from headway.executors.batch_settings import pad_bytes
from headway.executors.model import (
    AxisBuckets,
    BatchJob,
    ExecutorListener,
    LaneSpec,
    ModelSpec,
    ParameterValue,
    RaggedInputs,
    Signature,
    StageTimes,
    TensorSpec,
    WorkerGroup,
)

if TYPE_CHECKING:
    from headway.executors.emulated import EmulatedExecutor, emulated_demand
    from headway.executors.pool import WorkerPool

__all__ = [
    "AxisBuckets",
    "BatchJob",
    "EmulatedExecutor",
    "ExecutorListener",
    "LaneSpec",
    "ModelSpec",
    "ParameterValue",
    "RaggedInputs",
    "Signature",
    "StageTimes",
    "TensorSpec",
    "WorkerGroup",
    "WorkerPool",
    "emulated_demand",
    "pad_bytes",
]


def __getattr__(name: str) -> object:
    if name == "WorkerPool":
        from headway.executors.pool import WorkerPool

        return WorkerPool
    if name in ("EmulatedExecutor", "emulated_demand"):
        from headway.executors import emulated

        return getattr(emulated, name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
