"""Worker processes: the wire, the pool in the parent, the worker in the child, the back ends.

Knows how to load and run a model where it was told to. Must never import a policy, a queue or a
deadline; sole home of onnxruntime and torch.

The pool and what stands in for it are imported when they are first asked for: a worker enters
through this door too, and does without an event loop. So is what knows numpy, which whoever only
configures models does without.
"""

from typing import TYPE_CHECKING

from headway.executors.batch_settings import pad_bytes
from headway.executors.items import PARAMETERS, count_name, is_of_list, item_name, name_of
from headway.executors.lifeline import die_with, end_now
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
    from headway.executors.process import WorkerProcess
    from headway.executors.tensors import array_of, numpy_dtype, tensor_of

__all__ = [
    "PARAMETERS",
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
    "WorkerProcess",
    "array_of",
    "count_name",
    "die_with",
    "emulated_demand",
    "end_now",
    "is_of_list",
    "item_name",
    "name_of",
    "numpy_dtype",
    "pad_bytes",
    "tensor_of",
]


def __getattr__(name: str) -> object:
    if name == "WorkerPool":
        from headway.executors.pool import WorkerPool

        return WorkerPool
    if name == "WorkerProcess":
        from headway.executors.process import WorkerProcess

        return WorkerProcess
    if name in ("EmulatedExecutor", "emulated_demand"):
        from headway.executors import emulated

        return getattr(emulated, name)
    if name in ("array_of", "numpy_dtype", "tensor_of"):
        from headway.executors import tensors

        return getattr(tensors, name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
