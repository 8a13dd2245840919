"""What runs models, as the engine sees it: a worker pool, an emulated machine, a test's script.

Knows jobs and replicas. Refuses to know requests.
"""

from typing import Protocol

from headway.core import BatchId, DeviceName, ReplicaId
from headway.errors import InternalError
from headway.executors import BatchJob, ModelSpec

__all__ = ["Executor", "NoExecutor"]


class Executor(Protocol):
    """What runs models; it reports to the engine, never from within one of these calls."""

    def load(self, replica_id: ReplicaId, spec: ModelSpec, device: DeviceName) -> None:
        """Load and warm a model."""

    def unload(self, replica_id: ReplicaId) -> None:
        """Free a model."""

    def run(self, job: BatchJob) -> None:
        """Run a batch."""

    def cancel(self, batch_id: BatchId) -> None:
        """Stop a batch at its next safe point."""

    def replace(self, replica_id: ReplicaId) -> None:
        """Kill the worker that holds a replica."""


class NoExecutor:
    """What an engine has before `attach`: using it is a mistake in how the server was built."""

    def load(self, replica_id: ReplicaId, spec: ModelSpec, device: DeviceName) -> None:
        """Refuse."""
        raise InternalError("the engine has no executor yet")

    def unload(self, replica_id: ReplicaId) -> None:
        """Refuse."""
        raise InternalError("the engine has no executor yet")

    def run(self, job: BatchJob) -> None:
        """Refuse."""
        raise InternalError("the engine has no executor yet")

    def cancel(self, batch_id: BatchId) -> None:
        """Refuse."""
        raise InternalError("the engine has no executor yet")

    def replace(self, replica_id: ReplicaId) -> None:
        """Refuse."""
        raise InternalError("the engine has no executor yet")
