"""The virtual world: events in virtual time, simulated devices, faults, tallies.

Knows the kernel and a workload. Must never import asyncio or read a clock.
"""

from headway.sim.devices import Finish, SharedLanes, SimulatedExecutor, SoloTimes
from headway.sim.emulated import EmulatedDevices
from headway.sim.generation import (
    Generation,
    GenerationRequest,
    GenerationRun,
    SequenceSample,
)
from headway.sim.generation_fleet import FleetRun, GenerationFleet, HandedPool, HandOver
from headway.sim.generation_load import (
    TargetFigures,
    TierFigures,
    quantile,
    requests_of_trace,
    target_figures,
    tier_figures,
)
from headway.sim.generation_scenario import (
    EngineShape,
    GenerationScenario,
    Layout,
    RequestSource,
    SchedulerChoice,
)
from headway.sim.generation_spec import generation_from_dict, is_generation
from headway.sim.oracle import Oracle
from headway.sim.scenario import BudgetRange, EmulatedSetup, Scenario, SimulatedModel, SimulatedTier
from headway.sim.shares import ShareFigures, ShareMeter, jain_index
from headway.sim.spec import NICED_WEIGHTS, scenario_from_dict
from headway.sim.tally import Tally, TierTally
from headway.sim.timed import TimedKernel
from headway.sim.usage import Usage, UsageFigures
from headway.sim.waits import WaitFigures, WaitMeter
from headway.sim.world import Fault, HostPause, World, record_into

__all__ = [
    "NICED_WEIGHTS",
    "BudgetRange",
    "EmulatedDevices",
    "EmulatedSetup",
    "EngineShape",
    "Fault",
    "Finish",
    "FleetRun",
    "Generation",
    "GenerationFleet",
    "GenerationRequest",
    "GenerationRun",
    "GenerationScenario",
    "HandOver",
    "HandedPool",
    "HostPause",
    "Layout",
    "Oracle",
    "RequestSource",
    "Scenario",
    "SchedulerChoice",
    "SequenceSample",
    "ShareFigures",
    "ShareMeter",
    "SharedLanes",
    "SimulatedExecutor",
    "SimulatedModel",
    "SimulatedTier",
    "SoloTimes",
    "Tally",
    "TargetFigures",
    "TierFigures",
    "TierTally",
    "TimedKernel",
    "Usage",
    "UsageFigures",
    "WaitFigures",
    "WaitMeter",
    "World",
    "generation_from_dict",
    "is_generation",
    "jain_index",
    "quantile",
    "record_into",
    "requests_of_trace",
    "scenario_from_dict",
    "target_figures",
    "tier_figures",
]
