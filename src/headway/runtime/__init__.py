"""The `Engine` protocol and its asyncio driver: posts events, carries out commands, owns tasks.

Knows the loop, the clock and the worker pool. Must never decide who goes first, or know HTTP.
"""

from headway.runtime.engine import (
    Engine,
    InferCall,
    InferReply,
    ModelState,
    ModelStatistics,
    ModelStatus,
    StageStatistics,
)

__all__ = [
    "Engine",
    "InferCall",
    "InferReply",
    "ModelState",
    "ModelStatistics",
    "ModelStatus",
    "StageStatistics",
]
