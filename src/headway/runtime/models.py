"""The live side of models: what was asked for, what was loaded, and which calls it takes.

A *generation* is one load of one model: its plan, and its signature once a replica is in memory.
The kernel decides when a generation takes over; here is remembered what it is.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from headway.core import (
    ConcludeLoad,
    Kernel,
    LoadReplica,
    ModelName,
    ModelParams,
    ReplicaId,
    ReplicaState,
    SlotClass,
    TierName,
)
from headway.errors import HeadwayError, LoadError, ModelNotFoundError, UnavailableError
from headway.executors import ModelSpec, Signature
from headway.runtime.binding import Binding
from headway.runtime.engine import ModelState, ModelStatus
from headway.runtime.tokens import is_token_count

__all__ = ["Catalogue", "Generation", "ModelPlan", "Models", "TierParams"]


class TierParams(Struct, frozen=True, kw_only=True):
    """What a tier grants."""

    priority: int
    budget_ns: int
    slot_class: SlotClass
    late_ns: int = 0
    """How long after its deadline a request is still served; 0 gives it up at its deadline."""


class ModelPlan(Struct, frozen=True, kw_only=True):
    """Everything needed to load a model: the kernel's part and the worker's."""

    params: ModelParams
    spec: ModelSpec
    tier: TierName


class Catalogue(Protocol):
    """The configured models."""

    def names(self) -> Sequence[ModelName]:
        """Every configured model; the server is ready when all of them are."""

    def plan(self, model: ModelName, overrides: Mapping[str, object]) -> ModelPlan:
        """How to load one.

        Raises:
            ModelNotFoundError: not configured, and the overrides do not suffice.
            ConfigError: an override is wrong.
        """


class Generation:
    """One load of one model."""

    __slots__ = ("binding", "counts_tokens", "plan", "replica_ids", "signature")

    def __init__(self, plan: ModelPlan) -> None:
        self.plan = plan
        self.signature: Signature | None = None
        self.binding: Binding | None = None
        self.counts_tokens = False
        """One of its outputs says how many there are."""
        self.replica_ids: set[ReplicaId] = set()

    def learn(self, signature: Signature) -> None:
        """A replica is in memory and says what it takes."""
        self.signature = signature
        self.counts_tokens = any(is_token_count(spec) for spec in signature.outputs)
        self.binding = Binding(
            signature,
            can_batch=signature.can_batch and self.plan.params.can_batch,
            buckets=self.plan.spec.buckets,
            ragged=self.plan.spec.ragged,
        )


class _Model:
    __slots__ = (
        "current",
        "error",
        "is_unloading",
        "loading",
        "versions",
        "waiters",
        "was_unloaded",
    )

    def __init__(self) -> None:
        self.current: Generation | None = None
        self.loading: deque[Generation] = deque()
        self.versions: dict[str, Generation] = {}
        self.waiters: deque[asyncio.Future[None]] = deque()
        self.error = ""
        self.is_unloading = False
        self.was_unloaded = False
        """Someone asked for it to go, and nobody for it to come back."""


class Models:
    """All generations of all models.

    Invariants: ``waiters`` and ``loading`` of a model grow and shrink together, oldest first, as
    the kernel concludes loads in the order in which they were asked for.
    """

    def __init__(self, kernel: Kernel, catalogue: Catalogue) -> None:
        self._kernel = kernel
        self._catalogue = catalogue
        self._models: dict[ModelName, _Model] = {}
        self._by_replica: dict[ReplicaId, Generation] = {}

    def begin_load(self, plan: ModelPlan, future: "asyncio.Future[None]") -> None:
        """Remember a load before the kernel is told of it."""
        model = self._models.setdefault(plan.params.name, _Model())
        model.loading.append(Generation(plan))
        model.waiters.append(future)
        model.is_unloading = False
        model.was_unloaded = False

    def generation_to_load(self, command: LoadReplica) -> Generation:
        """The generation of a replica that is to be loaded, for the first time or again."""
        generation = self._by_replica.get(command.replica_id)
        if generation is None:
            generation = self._models[command.model].loading[-1]
            self._by_replica[command.replica_id] = generation
            generation.replica_ids.add(command.replica_id)
        return generation

    def generation_of(self, replica_id: ReplicaId) -> Generation | None:
        """The generation of a replica that is known."""
        return self._by_replica.get(replica_id)

    def forget(self, replica_id: ReplicaId) -> None:
        """A replica is gone for good."""
        generation = self._by_replica.pop(replica_id, None)
        if generation is None:
            return
        generation.replica_ids.discard(replica_id)
        model = self._models[generation.plan.params.name]
        if not generation.replica_ids:
            version = generation.plan.params.version
            if model.versions.get(version) is generation:
                del model.versions[version]

    def conclude_load(self, command: ConcludeLoad) -> None:
        """The kernel says how the oldest load of a model ended."""
        model = self._models[command.model]
        generation = model.loading.popleft()
        future = model.waiters.popleft()
        if command.error is None:
            model.current = generation
            model.versions[command.version] = generation
            model.was_unloaded = False  # an unload that this load overtook has just ended
            model.error = ""
        else:
            model.error = command.error
            if model.current is not None and not self._has_replica(command.model):
                model.current = None
        self._sweep(command.model)
        if future.done():
            return
        if command.error is None:
            future.set_result(None)
        else:
            future.set_exception(
                LoadError(f"model `{command.model}` could not be loaded: {command.error}")
            )

    def begin_unload(self, name: ModelName) -> None:
        """Remember that a model is going."""
        self._models[name].is_unloading = True

    def conclude_unload(self, name: ModelName) -> None:
        """A model is gone; its name stays in the index."""
        model = self._models[name]
        model.current = None
        model.versions.clear()
        model.is_unloading = False
        model.was_unloaded = True
        model.error = "unloaded"
        self._sweep(name)

    def abandon(self, error: HeadwayError) -> None:
        """The scheduler has stopped: answer everyone who waits for a load."""
        for model in self._models.values():
            while model.waiters:
                future = model.waiters.popleft()
                if not future.done():
                    future.set_exception(error)
            model.loading.clear()

    def serving(self, name: ModelName, version: str) -> Generation:
        """The generation that answers a call.

        Raises:
            ModelNotFoundError: no such model or version.
            UnavailableError: the model is still loading, or failed to load.
        """
        model = self._models.get(name)
        if model is None or (model.current is None and not model.loading):
            why = f": {model.error}" if model is not None and model.error else ""
            known = ", ".join(f"`{m}`" for m in self.served()) or "none"
            raise ModelNotFoundError(
                f"model `{name}` is not served{why}", hint=f"served models: {known}"
            )
        generation = model.versions.get(version) if version else model.current
        if generation is None and version and model.current is not None:
            raise ModelNotFoundError(
                f"model `{name}` has no version `{version}`",
                hint=f"served versions: {', '.join(sorted(model.versions))}",
            )
        if generation is None or generation.binding is None:
            raise UnavailableError(f"model `{name}` is still loading", hint="try again shortly")
        return generation

    def served(self) -> list[ModelName]:
        """Models that answer calls now."""
        return [name for name, model in self._models.items() if model.current is not None]

    def is_ready(self, name: ModelName) -> bool:
        """A replica of the model takes batches now."""
        model = self._models.get(name)
        if model is None or model.current is None or model.is_unloading:
            return False
        replicas = self._kernel.fleet.by_model.get(name, ())
        return any(r.state is ReplicaState.READY and r.is_current for r in replicas)

    def are_configured_ready(self) -> bool:
        """Every configured model is ready, but those that were unloaded on purpose."""
        return all(
            self.is_ready(name) or self._is_gone_on_purpose(name)
            for name in self._catalogue.names()
        )

    def status(
        self, name: ModelName, version: str, tiers: Mapping[TierName, TierParams]
    ) -> ModelStatus:
        """What a model takes, gives and may do.

        Raises:
            ModelNotFoundError: no such model or version.
            UnavailableError: it is still loading.
        """
        generation = self.serving(name, version)
        binding, plan = generation.binding, generation.plan
        assert binding is not None, "a serving generation has a binding"
        signature = binding.signature
        queue = self._kernel.queues.get(name)
        params = plan.params if queue is None else queue.params
        return ModelStatus(
            name=name,
            version=plan.params.version,
            is_ready=self.is_ready(name),
            platform=signature.platform,
            inputs=signature.inputs,
            outputs=signature.outputs,
            can_batch=signature.can_batch,
            batch_rows_max=plan.params.batch_rows_max,
            linger_ns=plan.params.linger_ns,
            queue_requests_max=params.queue_requests_max,
            tier=plan.tier,
            budget_ns=tiers[plan.tier].budget_ns,
            slots=self._kernel.fleet.slots,
        )

    def index(self) -> list[ModelState]:
        """Configured and known models, in that order, each once."""
        names = dict.fromkeys((*self._catalogue.names(), *self._models))
        return [self._state(name) for name in names]

    def _state(self, name: ModelName) -> ModelState:
        model = self._models.get(name)
        if model is None:
            return ModelState(name=name, version="", state="UNAVAILABLE", reason="not loaded")
        version = model.current.plan.params.version if model.current is not None else ""
        if model.is_unloading:
            return ModelState(name=name, version=version, state="UNLOADING", reason="")
        if self.is_ready(name):
            return ModelState(name=name, version=version, state="READY", reason="")
        if model.loading or model.current is not None:
            reason = "" if model.loading else "its worker was lost and is being restarted"
            return ModelState(name=name, version=version, state="LOADING", reason=reason)
        return ModelState(name=name, version="", state="UNAVAILABLE", reason=model.error)

    def _sweep(self, name: ModelName) -> None:
        """Forget replicas that the kernel gave up while they were lost: nobody reports those."""
        known = self._kernel.fleet.replicas
        for replica_id, generation in list(self._by_replica.items()):
            if generation.plan.params.name == name and replica_id not in known:
                self.forget(replica_id)

    def _has_replica(self, name: ModelName) -> bool:
        return name in self._kernel.fleet.by_model

    def _is_gone_on_purpose(self, name: ModelName) -> bool:
        model = self._models.get(name)
        return model is not None and model.was_unloaded
