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
    Secret,
    StageStatistics,
)
from headway.runtime.executor import Executor
from headway.runtime.layer import EngineLayer
from headway.runtime.models import Catalogue, ModelPlan, TierParams
from headway.runtime.outcomes import ExpiredError, outcome_of
from headway.runtime.pipeline_plan import PipelinePlan, Source, StepPlan
from headway.runtime.pipeline_served import Patience, RunObserver
from headway.runtime.pipelines import Pipelines
from headway.runtime.tokens import TOKENS, is_token_count
from headway.runtime.training import Trainer

__all__ = [
    "TOKENS",
    "AsyncEngine",
    "Catalogue",
    "Clock",
    "Driver",
    "Effects",
    "Engine",
    "EngineLayer",
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
    "Patience",
    "PipelinePlan",
    "Pipelines",
    "RunObserver",
    "Secret",
    "Source",
    "StageStatistics",
    "StepPlan",
    "TierParams",
    "Timings",
    "Trainer",
    "is_token_count",
    "outcome_of",
]
