"""A scripted executor: batches take the time that a test says, and give back what they were given.

Stands where the worker pool stands, on any `Clock`. Knows jobs, times and which replicas share a
worker. Refuses to compute: an output is an input, so each caller can see its own rows come back.
"""

from collections.abc import Callable, Sequence
from typing import Final

from headway.core import BatchId, Datatype, DeviceName, ReplicaId, Tensor, Timer
from headway.executors import (
    BatchJob,
    ExecutorListener,
    ModelSpec,
    Signature,
    StageTimes,
    TensorSpec,
)
from headway.runtime import Clock

__all__ = ["ECHO_SIGNATURE", "ScriptedError", "ScriptedExecutor"]

Callback = Callable[[], None]

ECHO_SIGNATURE: Final = Signature(
    platform="scripted",
    inputs=(TensorSpec(name="INPUT", datatype=Datatype.FP32, shape=(-1, -1)),),
    outputs=(TensorSpec(name="OUTPUT", datatype=Datatype.FP32, shape=(-1, -1)),),
    can_batch=True,
)
"""What every model takes and gives unless the test says otherwise."""


class ScriptedError(Exception):
    """Raised by a script's `service_ns` to have the batch fail at once.

    Args:
        code: a stable code of `headway.errors`.
    """

    def __init__(self, message: str, *, code: str = "executor_failed") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class ScriptedExecutor:
    """An `Executor` whose every report is scheduled on the clock, in the order of its causes.

    Args:
        clock: the engine's clock.
        listener: who is told, usually the `AsyncEngine`.
        service_ns: how long a batch runs, a number or a function of the job; None from the
            function hangs the batch, `ScriptedError` raised in it fails the batch.
        load_ns: time from a load to a warm replica.
        signature: what a model says of itself once loaded; a function raises to fail the load.

    Output ``i`` of a batch is input ``i`` under the output's name, a view of the caller's bytes.

    Invariants: nothing is reported from within a call; a batch ends once, or is lost with its
    worker; one worker a device.
    """

    def __init__(
        self,
        clock: Clock,
        listener: ExecutorListener,
        *,
        service_ns: int | Callable[[BatchJob], int | None] = 1_000_000,
        load_ns: int = 0,
        signature: Signature | Callable[[ModelSpec], Signature] = ECHO_SIGNATURE,
    ) -> None:
        self._clock = clock
        self._listener = listener
        self._service_ns = service_ns
        self._load_ns = load_ns
        self._signature = signature
        self._signatures: dict[ReplicaId, Signature] = {}
        self._devices: dict[ReplicaId, DeviceName] = {}
        self._loads: dict[ReplicaId, list[Timer[Callback]]] = {}
        self._ends: dict[BatchId, Timer[Callback] | None] = {}
        self._replicas: dict[BatchId, ReplicaId] = {}
        self.jobs: list[BatchJob] = []
        """Every batch it was given, oldest first."""
        self.loads: list[tuple[ReplicaId, ModelSpec, DeviceName]] = []
        self.unloads: list[ReplicaId] = []
        self.cancelled: list[BatchId] = []

    @property
    def running(self) -> list[BatchId]:
        """Batches that have not ended, oldest first."""
        return list(self._ends)

    def load(self, replica_id: ReplicaId, spec: ModelSpec, device: DeviceName) -> None:
        """Load and warm after the scripted time, or fail then."""
        self.loads.append((replica_id, spec, device))
        self._devices[replica_id] = device
        at_ns = self._clock.now_ns() + self._load_ns
        try:
            signature = self._signature(spec) if callable(self._signature) else self._signature
        except Exception as error:  # noqa: BLE001 - whatever a script raises is the load's failure
            message = str(error)
            steps: list[Callback] = [lambda: self._load_failed(replica_id, message)]
        else:
            self._signatures[replica_id] = signature
            steps = [
                lambda: self._listener.on_loaded(replica_id, signature),
                lambda: self._warmed(replica_id),
            ]
        self._loads[replica_id] = [self._clock.call_at(at_ns, step) for step in steps]

    def unload(self, replica_id: ReplicaId) -> None:
        """Gone at once; a load that had not ended never will."""
        self.unloads.append(replica_id)
        self._forget(replica_id)
        self._soon(lambda: self._listener.on_unloaded(replica_id))

    def run(self, job: BatchJob) -> None:
        """Run a batch as scripted; where the replica has no worker it fails, as in the pool."""
        self.jobs.append(job)
        if job.replica_id not in self._devices:
            message = f"replica {job.replica_id} has no worker"
            self._soon(lambda: self._listener.on_failed(job.batch_id, "worker_lost", message))
            return
        self._replicas[job.batch_id] = job.replica_id
        timer: Timer[Callback] | None = None
        try:
            ns = self._service_ns(job) if callable(self._service_ns) else self._service_ns
        except ScriptedError as error:
            code, message = error.code, error.message
            timer = self._soon(lambda: self.fail(job.batch_id, code, message))
        else:
            if ns is not None:
                timer = self._clock.call_at(
                    self._clock.now_ns() + ns, lambda: self._finished(job, ns)
                )
        self._ends[job.batch_id] = timer

    def cancel(self, batch_id: BatchId) -> None:
        """Only noted: a batch that runs runs to its end, as most back ends do."""
        self.cancelled.append(batch_id)

    def replace(self, replica_id: ReplicaId) -> None:
        """Kill the worker, hung or not."""
        device = self._devices.get(replica_id)
        if device is not None:
            self.lose(device, "hung batch")

    # What a test does to it.

    def finish(self, batch_id: BatchId) -> None:
        """End a batch now, whatever was scripted; not from within a call of the engine."""
        job = next(job for job in self.jobs if job.batch_id == batch_id)
        self._finished(job, 0)

    def fail(
        self, batch_id: BatchId, code: str = "executor_failed", message: str = "scripted"
    ) -> None:
        """Fail a batch now."""
        self._end(batch_id)
        self._listener.on_failed(batch_id, code, message)

    def lose(self, device: DeviceName, message: str = "scripted worker loss") -> None:
        """End the device's worker: its batches never end, its replicas are reported lost."""
        lost = tuple(r for r, d in self._devices.items() if d == device)
        for batch_id in [b for b, r in self._replicas.items() if r in lost]:
            self._end(batch_id)
        for replica_id in lost:
            self._forget(replica_id)
        self._soon(lambda: self._listener.on_lost(lost, message))

    def _soon(self, callback: Callback) -> Timer[Callback]:
        return self._clock.call_at(self._clock.now_ns(), callback)

    def _warmed(self, replica_id: ReplicaId) -> None:
        del self._loads[replica_id]
        self._listener.on_warmed(replica_id)

    def _load_failed(self, replica_id: ReplicaId, message: str) -> None:
        self._forget(replica_id)
        self._listener.on_load_failed(replica_id, message)

    def _forget(self, replica_id: ReplicaId) -> None:
        self._devices.pop(replica_id, None)
        self._signatures.pop(replica_id, None)
        for timer in self._loads.pop(replica_id, ()):
            self._clock.cancel(timer)

    def _finished(self, job: BatchJob, execution_ns: int) -> None:
        signature = self._signatures[job.replica_id]
        self._end(job.batch_id)
        self._listener.on_finished(
            job.batch_id,
            [_echo(member, signature, job.outputs) for member in job.members],
            StageTimes(transfer_in_ns=0, execution_ns=execution_ns, transfer_out_ns=0),
        )

    def _end(self, batch_id: BatchId) -> None:
        timer = self._ends.pop(batch_id)
        del self._replicas[batch_id]
        if timer is not None:
            self._clock.cancel(timer)


def _echo(
    inputs: Sequence[Tensor], signature: Signature, wanted: Sequence[str]
) -> Sequence[Tensor]:
    """One member's outputs, those wanted, in the order in which the model lists them."""
    return [
        Tensor(spec.name, tensor.datatype, tensor.shape, tensor.data)
        for spec, tensor in zip(signature.outputs, inputs, strict=False)
        if not wanted or spec.name in wanted
    ]
