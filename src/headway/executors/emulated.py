"""An executor whose batches take the time that an emulated machine says, in real time.

Stands where the worker pool stands. Knows jobs, a machine (`devices/emulated.py`) and a clock.
Refuses to compute: outputs are zeros of the declared shapes. What is measured through it is
emulated and must be labelled so; a model's platform says `emulated`.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, Protocol

from msgspec.structs import replace

from headway.core import BatchId, DeviceName, ModelName, ReplicaId, Tensor, Timer
from headway.devices import EmulatedBatch, EmulatedEnd, EmulatedMachine, EmulatedModel
from headway.errors import HeadwayError, LoadError
from headway.executors.batch_settings import check_settings
from headway.executors.model import (
    BatchJob,
    ExecutorListener,
    ModelSpec,
    Signature,
    StageTimes,
    TensorSpec,
    buffer_bytes,
)

__all__ = ["EmulatedExecutor", "TimerClock", "emulated_demand"]

Callback = Callable[[], None]

PLATFORM: Final = "emulated"
_BYTES_ELEMENT: Final = 4
"""An empty string: four bytes that say how long it is."""


class TimerClock(Protocol):
    """The engine's clock, as far as it is needed here."""

    def now_ns(self) -> int:
        """Nanoseconds since the engine started."""

    def call_at(self, at_ns: int, callback: Callback) -> Timer[Callback]:
        """Call back at an instant."""

    def cancel(self, timer: Timer[Callback]) -> None:
        """Forget a call."""


class EmulatedExecutor:
    """All devices of one emulated machine, on a running clock.

    Args:
        load_ns: time from a load to a warm replica.

    A model needs `inputs` and `outputs` in its specification and the options of
    `EmulatedModel.of`; free axes other than the batch are taken as 1.

    Invariants: nothing is reported from within a call; a batch ends once, or is lost with its
    device; one timer is armed, for the next end.
    """

    def __init__(
        self,
        machine: EmulatedMachine,
        clock: TimerClock,
        listener: ExecutorListener,
        *,
        load_ns: int = 0,
    ) -> None:
        self._machine = machine
        self._clock = clock
        self._listener = listener
        self._load_ns = load_ns
        self._devices: dict[ReplicaId, DeviceName] = {}
        self._signatures: dict[ReplicaId, Signature] = {}
        self._loads: dict[ReplicaId, list[Timer[Callback]]] = {}
        self._jobs: dict[BatchId, BatchJob] = {}
        self._alarm: Timer[Callback] | None = None

    async def start(self) -> None:
        """Nothing is to be started."""

    async def stop(self) -> None:
        """Nothing is called afterwards."""
        for replica_id in list(self._devices):
            self._forget(replica_id)
        for batch_id in list(self._jobs):
            self._drop(batch_id)
        self._arm()

    def worker_pids(self) -> dict[str, int]:
        """There are no worker processes."""
        return {}

    def load(self, replica_id: ReplicaId, spec: ModelSpec, device: DeviceName) -> None:
        """Know a model; `on_loaded`, `on_warmed` or `on_load_failed` follow."""
        at_ns = self._clock.now_ns() + self._load_ns
        try:
            if device not in self._machine.devices:
                raise LoadError(f"there is no device `{device}`")
            signature = _signature(spec)
            check_settings(signature, spec)
            self._machine.know(EmulatedModel.of(_name(replica_id), spec.options))
        except HeadwayError as error:
            message = str(error)
            self._call(at_ns, lambda: self._listener.on_load_failed(replica_id, message))
            return
        self._devices[replica_id] = device
        self._signatures[replica_id] = signature
        self._loads[replica_id] = [
            self._call(at_ns, lambda: self._listener.on_loaded(replica_id, signature)),
            self._call(at_ns, lambda: self._warmed(replica_id)),
        ]

    def unload(self, replica_id: ReplicaId) -> None:
        """Gone at once; a load that had not ended never will."""
        self._forget(replica_id)
        self._soon(lambda: self._listener.on_unloaded(replica_id))

    def run(self, job: BatchJob) -> None:
        """Let a batch take its emulated time; `on_finished` or its replica's loss follows."""
        device = self._devices.get(job.replica_id)
        if device is None:
            message = f"replica {job.replica_id} has no worker"
            self._soon(lambda: self._listener.on_failed(job.batch_id, "worker_lost", message))
            return
        now_ns = self._clock.now_ns()
        rows = sum(job.member_rows)
        self._jobs[job.batch_id] = job
        self._machine.start(
            EmulatedBatch(
                job.batch_id,
                _name(job.replica_id),
                max(1, rows),
                device,
                job.slot_class,
                sum(buffer_bytes(t.data) for member in job.members for t in member),
                _size_bytes(self._wanted(job), max(1, rows)),
            ),
            now_ns,
        )
        self._arm()

    def cancel(self, batch_id: BatchId) -> None:
        """A batch that runs runs to its end, as on a real accelerator."""

    def replace(self, replica_id: ReplicaId) -> None:
        """The device is reset: all that runs on it is lost with every replica."""
        device = self._devices.get(replica_id)
        if device is None:
            return
        lost = tuple(r for r, d in self._devices.items() if d == device)
        for batch_id, job in list(self._jobs.items()):
            if job.replica_id in lost:
                self._drop(batch_id)
        for lost_id in lost:
            self._forget(lost_id)
        self._arm()
        self._soon(lambda: self._listener.on_lost(lost, f"emulated device `{device}` was reset"))

    def _warmed(self, replica_id: ReplicaId) -> None:
        del self._loads[replica_id]
        self._listener.on_warmed(replica_id)

    def _forget(self, replica_id: ReplicaId) -> None:
        self._devices.pop(replica_id, None)
        self._signatures.pop(replica_id, None)
        self._machine.forget(_name(replica_id))
        for timer in self._loads.pop(replica_id, ()):
            self._clock.cancel(timer)

    def _drop(self, batch_id: BatchId) -> None:
        del self._jobs[batch_id]
        self._machine.drop(batch_id)

    def _arm(self) -> None:
        """Be called at the next end."""
        if self._alarm is not None:
            self._clock.cancel(self._alarm)
            self._alarm = None
        ends = self._machine.next_ends()
        if ends:
            self._alarm = self._call(min(end.at_ns for end in ends.values()), self._wake)

    def _wake(self) -> None:
        self._alarm = None
        for end in self._machine.advance(self._clock.now_ns()):
            self._report(end)
        self._arm()

    def _report(self, end: EmulatedEnd) -> None:
        job = self._jobs.pop(end.batch_id)
        outputs = self._wanted(job)
        self._listener.on_finished(
            job.batch_id,
            [[_zeros(spec, rows) for spec in outputs] for rows in job.member_rows],
            StageTimes(
                transfer_in_ns=end.transfer_in_ns,
                execution_ns=end.execution_ns,
                transfer_out_ns=end.transfer_out_ns,
            ),
        )

    def _wanted(self, job: BatchJob) -> Sequence[TensorSpec]:
        outputs = self._signatures[job.replica_id].outputs
        return [spec for spec in outputs if not job.outputs or spec.name in job.outputs]

    def _soon(self, callback: Callback) -> Timer[Callback]:
        return self._call(self._clock.now_ns(), callback)

    def _call(self, at_ns: int, callback: Callback) -> Timer[Callback]:
        return self._clock.call_at(at_ns, callback)


def emulated_demand(spec: ModelSpec) -> EmulatedModel:
    """What a model asks of an emulated device: its options, and the bytes of its tensors.

    Raises:
        ConfigError: an option is missing, unknown, or out of its range.
    """
    demand = EmulatedModel.of(ModelName(spec.name), spec.options)
    return replace(
        demand, in_bytes=_size_bytes(spec.inputs, 1), out_bytes=_size_bytes(spec.outputs, 1)
    )


def _name(replica_id: ReplicaId) -> ModelName:
    """Each replica is a model of its own to the machine: versions may differ in what they ask."""
    return ModelName(f"replica-{replica_id}")


def _signature(spec: ModelSpec) -> Signature:
    if not spec.inputs or not spec.outputs:
        raise LoadError(
            f"model `{spec.name}` is emulated and has no file to read its tensors from",
            hint="declare its inputs and outputs",
        )
    tensors = (*spec.inputs, *spec.outputs)
    return Signature(
        platform=PLATFORM,
        inputs=spec.inputs,
        outputs=spec.outputs,
        can_batch=all(tensor.shape[:1] == (-1,) for tensor in tensors),
        parameters=(),
    )


def _shape(spec: TensorSpec, rows: int) -> tuple[int, ...]:
    """The leading free axis is the batch's, any other is 1."""
    first = (rows if size == -1 else size for size in spec.shape[:1])
    return (*first, *(1 if size == -1 else size for size in spec.shape[1:]))


def _size_bytes(specs: Sequence[TensorSpec], rows: int) -> int:
    return sum(
        prod(_shape(spec, rows)) * (spec.datatype.item_bytes or _BYTES_ELEMENT) for spec in specs
    )


def _zeros(spec: TensorSpec, rows: int) -> Tensor:
    return Tensor(spec.name, spec.datatype, _shape(spec, rows), bytes(_size_bytes([spec], rows)))
