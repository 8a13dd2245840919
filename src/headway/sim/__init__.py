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
from headway.sim.generation_load import TierFigures, quantile, requests_of_trace, tier_figures
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
    "Fault",
    "Finish",
    "Generation",
    "GenerationRequest",
    "GenerationRun",
    "HostPause",
    "Oracle",
    "Scenario",
    "SequenceSample",
    "ShareFigures",
    "ShareMeter",
    "SharedLanes",
    "SimulatedExecutor",
    "SimulatedModel",
    "SimulatedTier",
    "SoloTimes",
    "Tally",
    "TierFigures",
    "TierTally",
    "TimedKernel",
    "Usage",
    "UsageFigures",
    "WaitFigures",
    "WaitMeter",
    "World",
    "jain_index",
    "quantile",
    "record_into",
    "requests_of_trace",
    "scenario_from_dict",
    "tier_figures",
]
