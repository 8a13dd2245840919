"""The `Engine` protocol and its asyncio driver: posts events, carries out commands, owns tasks.

Knows the loop, the clock and the worker pool. Must never decide who goes first, or know HTTP.
"""

from headway.runtime.async_engine import AsyncEngine
from headway.runtime.clock import Clock, LoopClock
from headway.runtime.driver import Driver, Effects, Observer, Timings
from headway.runtime.engine import (
    Engine,
    InferCall,
    InferEstimate,
    InferReply,
    ModelState,
    ModelStatistics,
    ModelStatus,
    OnEnd,
    StageStatistics,
)
from headway.runtime.executor import Executor
from headway.runtime.models import Catalogue, ModelPlan, TierParams
from headway.runtime.outcomes import ExpiredError
from headway.runtime.training import Trainer

__all__ = [
    "AsyncEngine",
    "Catalogue",
    "Clock",
    "Driver",
    "Effects",
    "Engine",
    "Executor",
    "ExpiredError",
    "InferCall",
    "InferEstimate",
    "InferReply",
    "LoopClock",
    "ModelPlan",
    "ModelState",
    "ModelStatistics",
    "ModelStatus",
    "Observer",
    "OnEnd",
    "StageStatistics",
    "TierParams",
    "Timings",
    "Trainer",
]
