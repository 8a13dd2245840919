"""Worker processes: the wire, the pool in the parent, the worker in the child, the back ends.

Knows how to load and run a model where it was told to. Must never import a policy, a queue or a
deadline; sole home of onnxruntime and torch.
"""

from headway.executors.model import (
    BatchJob,
    ExecutorListener,
    LaneSpec,
    ModelSpec,
    ParameterValue,
    Signature,
    StageTimes,
    TensorSpec,
    WorkerGroup,
)

__all__ = [
    "BatchJob",
    "ExecutorListener",
    "LaneSpec",
    "ModelSpec",
    "ParameterValue",
    "Signature",
    "StageTimes",
    "TensorSpec",
    "WorkerGroup",
]
