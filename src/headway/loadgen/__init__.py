"""Plays a workload at a live server: open loop, one Sample a request.

Knows workloads, the Open Inference Protocol as a client, and a clock; sole home of aiohttp. Must
never import the server's objects: it runs in a process of its own and sees what a client sees.
"""

from headway.loadgen.bodies import (
    BodySource,
    InputMaker,
    InputSpec,
    ModelMetadata,
    PreparedBodies,
    prepare_bodies,
    random_inputs,
    stacked,
)
from headway.loadgen.player import (
    Clock,
    LoadLimits,
    LoadRun,
    MonotonicClock,
    OnProgress,
    Progress,
    Send,
    TierProgress,
    play,
)
from headway.loadgen.rest import RestClient
from headway.loadgen.run import precise_loop, run_load
from headway.loadgen.wire import Answer, Body, encode_body, parse_answer, tensors_of

__all__ = [
    "Answer",
    "Body",
    "BodySource",
    "Clock",
    "InputMaker",
    "InputSpec",
    "LoadLimits",
    "LoadRun",
    "ModelMetadata",
    "MonotonicClock",
    "OnProgress",
    "PreparedBodies",
    "Progress",
    "RestClient",
    "Send",
    "TierProgress",
    "encode_body",
    "parse_answer",
    "play",
    "precise_loop",
    "prepare_bodies",
    "random_inputs",
    "run_load",
    "stacked",
    "tensors_of",
]
