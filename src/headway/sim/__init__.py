"""The virtual world: events in virtual time, simulated devices, faults, tallies.

Knows the kernel and a workload. Must never import asyncio or read a clock.
"""

from headway.sim.devices import Finish, SharedLanes, SimulatedExecutor, SoloTimes
from headway.sim.emulated import EmulatedDevices
from headway.sim.oracle import Oracle
from headway.sim.scenario import BudgetRange, EmulatedSetup, Scenario, SimulatedModel, SimulatedTier
from headway.sim.shares import ShareFigures, ShareMeter, jain_index
from headway.sim.spec import NICED_WEIGHTS, scenario_from_dict
from headway.sim.tally import Tally, TierTally
from headway.sim.timed import TimedKernel
from headway.sim.usage import Usage, UsageFigures
from headway.sim.waits import WaitFigures, WaitMeter
from headway.sim.world import Fault, World, record_into

__all__ = [
    "NICED_WEIGHTS",
    "BudgetRange",
    "EmulatedDevices",
    "EmulatedSetup",
    "Fault",
    "Finish",
    "Oracle",
    "Scenario",
    "ShareFigures",
    "ShareMeter",
    "SharedLanes",
    "SimulatedExecutor",
    "SimulatedModel",
    "SimulatedTier",
    "SoloTimes",
    "Tally",
    "TierTally",
    "TimedKernel",
    "Usage",
    "UsageFigures",
    "WaitFigures",
    "WaitMeter",
    "World",
    "jain_index",
    "record_into",
    "scenario_from_dict",
]
