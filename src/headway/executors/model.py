"""What an executor is asked to load, to run, and what it reports: values shared with the runtime.

Knows bytes and names. Never a queue, a policy or a deadline.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from headway.core import (
    BatchId,
    Buffer,
    Datatype,
    DeviceName,
    ReplicaId,
    SlotClass,
    SlotIndex,
    Tensor,
)

__all__ = [
    "AxisBuckets",
    "BatchJob",
    "ExecutorListener",
    "LaneSpec",
    "ModelSpec",
    "ParameterValue",
    "RaggedInputs",
    "Signature",
    "StageTimes",
    "TensorSpec",
    "WorkerGroup",
]

ParameterValue = str | int | float | bool


class TensorSpec(Struct, frozen=True, kw_only=True):
    """Name, datatype and shape of an input or output; -1 is any size."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    """With the batch axis first where the model has one."""


class Signature(Struct, frozen=True, kw_only=True):
    """What a loaded model takes and gives."""

    platform: str
    """As in the Open Inference Protocol's metadata, e.g. `onnxruntime_onnx`, `python`."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    can_batch: bool
    """Every input and output has a free leading axis."""
    memory_bytes: int = 0
    """What loading added to the worker's resident size."""
    parameters: tuple[str, ...] | None = None
    """Request parameters that change what is computed; None where any may."""
    free_inputs: tuple[str, ...] = ()
    """Of a function: names of inputs that are taken in any datatype and shape, lists of such
    included. Where there are some, `inputs` is empty."""


class AxisBuckets(Struct, frozen=True, kw_only=True):
    """Sizes to which a free axis is padded, so that requests of several sizes share a batch."""

    sizes: tuple[int, ...]
    """Ascending."""
    inputs: dict[str, int]
    """The axis of each input that has this size, the batch's being 0."""
    outputs: dict[str, int] = {}
    """The axis of each output that grows with it, and is cut back."""
    pads: dict[str, float] = {}
    """What an input is padded with; 0, or an empty text, where it is not named."""
    is_strict: bool = True
    """What is larger than the largest size is refused; else it is run as it is, for itself."""


class RaggedInputs(Struct, frozen=True, kw_only=True):
    """Inputs whose requests are laid end to end along their free axis, with no padding between.

    A client sends (rows, size, ...); the model is handed (all sizes together, ...), and the size of
    each row beside it.
    """

    inputs: tuple[str, ...]
    """They share the size of a request."""
    lengths: str
    """The input that is given the size of each row: (rows,), whole numbers. No client sends it."""


class ModelSpec(Struct, frozen=True, kw_only=True):
    """How to load a model in a worker."""

    name: str
    version: str = "1"
    backend: str
    """`onnx` or `python`."""
    path: str
    """A model file; for `python` a class or function, `file.py:name` or `module:name`."""
    options: dict[str, ParameterValue] = {}
    """Passed to the back end: `intra_op_threads` for `onnx`; for `python` keyword arguments of
    `load`."""
    inputs: tuple[TensorSpec, ...] = ()
    """Overrides what the model itself declares."""
    outputs: tuple[TensorSpec, ...] = ()
    warmup_rows: tuple[int, ...] = (1,)
    """Batch sizes run before the model is ready; free axes other than the batch are taken as 1
    unless `warmup_shapes` names the input."""
    warmup_shapes: dict[str, tuple[int, ...]] = {}
    """Shape of one row per input name, for the warm-up."""
    needs_batch: bool = False
    """Settings were made that make sense only where rows of several requests run together: then a
    model without a batch axis is not loaded."""
    buckets: tuple[AxisBuckets, ...] = ()
    """Free axes that are padded; no two of them are of the same input's axis."""
    ragged: RaggedInputs | None = None
    """Inputs that are not padded, but laid end to end."""
    arguments: tuple[str, ...] = ()
    """Of a function: what it will be called with, to be checked when it is loaded."""


class BatchJob(Struct, frozen=True, kw_only=True):
    """One batch, ready to run: each member's inputs, in the order of the batch."""

    batch_id: BatchId
    replica_id: ReplicaId
    slot: SlotIndex
    slot_class: SlotClass
    members: Sequence[Sequence[Tensor]]
    """Per member its inputs; shapes agree but for the leading axis."""
    member_rows: Sequence[int]
    """Rows per member: the leading axis of all but ragged inputs. A model without a batch axis has
    one member."""
    can_batch: bool = True
    outputs: tuple[str, ...] = ()
    """Names wanted by any member; empty for all."""
    parameters: dict[str, ParameterValue] = {}
    """Parameters that change the computation, the same for every member."""


class StageTimes(Struct, frozen=True, kw_only=True):
    """Where a batch's time went, each stage timed where it happened."""

    transfer_in_ns: int
    """Shared memory to the back end's inputs."""
    execution_ns: int
    transfer_out_ns: int
    """The back end's outputs to shared memory."""


class LaneSpec(Struct, frozen=True, kw_only=True):
    """Where a slot's thread runs, and how nice it is for each class of batch."""

    cores: tuple[int, ...] = ()
    """Cores that the thread is pinned to; empty leaves it to the system."""
    niceness_high: int = 0
    niceness_low: int = 0


class WorkerGroup(Struct, frozen=True, kw_only=True):
    """A device as the pool sees it: its slots, and how its models share processes."""

    device: DeviceName
    slots: tuple[LaneSpec, ...]
    is_isolated: bool = False
    """One worker process a model instead of one for all."""
    arena_bytes_max: int = 256 << 20
    """Shared memory of one slot of one worker: the inputs and outputs of one batch."""


class ExecutorListener(Protocol):
    """Who is told what happened, on the event loop's thread and never from within a pool's call."""

    def on_loaded(self, replica_id: ReplicaId, signature: Signature) -> None:
        """The model is in memory; warm-up runs."""

    def on_warmed(self, replica_id: ReplicaId) -> None:
        """The replica may take batches."""

    def on_load_failed(self, replica_id: ReplicaId, message: str) -> None:
        """Loading or warming raised; nothing of it is left."""

    def on_unloaded(self, replica_id: ReplicaId) -> None:
        """The replica has left the worker's memory."""

    def on_finished(
        self, batch_id: BatchId, replies: Sequence[Sequence[Tensor]], stages: StageTimes
    ) -> None:
        """A batch ran: each member's outputs, in the batch's order.

        The tensors' buffers view shared memory and are valid only until this call returns: encode
        or copy them in it.
        """

    def on_failed(self, batch_id: BatchId, code: str, message: str) -> None:
        """The back end raised, or the batch was cancelled (code `cancelled`)."""

    def on_lost(self, replica_ids: tuple[ReplicaId, ...], message: str) -> None:
        """A worker process died with these replicas; every batch it held is gone."""


def buffer_bytes(data: Buffer) -> int:
    """Bytes of a buffer, a memoryview of any item size included."""
    return data.nbytes if isinstance(data, memoryview) else len(data)
