"""The virtual world: events in virtual time, simulated devices, faults, tallies.

Knows the kernel and a workload. Must never import asyncio or read a clock.
"""

from headway.sim.devices import Finish, SharedLanes, SimulatedExecutor, SoloTimes
from headway.sim.emulated import EmulatedDevices
from headway.sim.scenario import BudgetRange, EmulatedSetup, Scenario, SimulatedModel, SimulatedTier
from headway.sim.spec import NICED_WEIGHTS, scenario_from_dict
from headway.sim.tally import Tally, TierTally
from headway.sim.world import Fault, World, record_into

__all__ = [
    "NICED_WEIGHTS",
    "BudgetRange",
    "EmulatedDevices",
    "EmulatedSetup",
    "Fault",
    "Finish",
    "Scenario",
    "SharedLanes",
    "SimulatedExecutor",
    "SimulatedModel",
    "SimulatedTier",
    "SoloTimes",
    "Tally",
    "TierTally",
    "World",
    "record_into",
    "scenario_from_dict",
]
