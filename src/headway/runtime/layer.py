"""What stands before an engine and is one itself: it changes some calls and hands on the others."""

from collections.abc import Iterator, Mapping, Sequence

from headway.core import ModelName, RequestId
from headway.runtime.engine import (
    Engine,
    InferCall,
    InferEstimate,
    InferReply,
    ModelState,
    ModelStatistics,
    ModelStatus,
    OnEnd,
)

__all__ = ["EngineLayer"]


class EngineLayer:
    """An `Engine` that hands every call to the one behind it; a layer overrides what it changes.

    A layer that changes `submit` changes `infer` with it where it makes the same change there:
    neither is built on the other.
    """

    def __init__(self, inner: Engine) -> None:
        self.inner = inner

    @property
    def is_ready(self) -> bool:
        """See `Engine.is_ready`."""
        return self.inner.is_ready

    def now_ns(self) -> int:
        """See `Engine.now_ns`."""
        return self.inner.now_ns()

    async def infer(self, call: InferCall) -> InferReply:
        """See `Engine.infer`."""
        return await self.inner.infer(call)

    def submit(self, call: InferCall, on_end: OnEnd) -> RequestId:
        """See `Engine.submit`."""
        return self.inner.submit(call, on_end)

    def cancel(self, request_id: RequestId) -> None:
        """See `Engine.cancel`."""
        self.inner.cancel(request_id)

    def estimate(self, call: InferCall) -> InferEstimate:
        """See `Engine.estimate`."""
        return self.inner.estimate(call)

    def status(self, model: ModelName, version: str = "") -> ModelStatus:
        """See `Engine.status`."""
        return self.inner.status(model, version)

    def index(self) -> Sequence[ModelState]:
        """See `Engine.index`."""
        return self.inner.index()

    def statistics(
        self, model: ModelName | None = None, version: str = ""
    ) -> Sequence[ModelStatistics]:
        """See `Engine.statistics`."""
        return self.inner.statistics(model, version)

    async def load(self, model: ModelName, overrides: Mapping[str, object]) -> None:
        """See `Engine.load`."""
        await self.inner.load(model, overrides)

    async def unload(self, model: ModelName) -> None:
        """See `Engine.unload`."""
        await self.inner.unload(model)

    def metrics_text(self, *, is_openmetrics: bool = False) -> Iterator[bytes]:
        """See `Engine.metrics_text`."""
        return self.inner.metrics_text(is_openmetrics=is_openmetrics)
