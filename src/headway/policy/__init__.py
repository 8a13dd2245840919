"""Decisions: ordering, admission, batching, placement; one file a named policy.

Knows `core` and nothing above it. Must never import a clock, chance, numpy or a device.
"""

from headway.policy.admission import AdmitAll
from headway.policy.batch3 import IdleForLow, TieredLinger, batch3
from headway.policy.batching import Linger
from headway.policy.candidate import candidate
from headway.policy.clockwork import LargestInTime, LatestStart, clockwork
from headway.policy.edf import EarliestDeadline, edf
from headway.policy.fifo import ArrivalOrder, fifo
from headway.policy.headway import HeadwaySettings, headway
from headway.policy.hopeless import Hopeless
from headway.policy.lane_edf import ClassThenDeadline, OneOfEachClass, lane_edf
from headway.policy.names import POLICY_PREDICTORS
from headway.policy.nexus import SlidingWindow, nexus
from headway.policy.pcie import LinkAware, PriorityThenSlack, pcie
from headway.policy.placement import EmptiestLane
from headway.policy.priority import PriorityOrder, priority
from headway.policy.running import OneAtATime
from headway.policy.static_cap import CappedLow, static_cap
from headway.policy.strait import ClassThenSlack, HalfOfBudget, HighBacklog, WithoutHarm, strait

__all__ = [
    "POLICY_PREDICTORS",
    "AdmitAll",
    "ArrivalOrder",
    "CappedLow",
    "ClassThenDeadline",
    "ClassThenSlack",
    "EarliestDeadline",
    "EmptiestLane",
    "HalfOfBudget",
    "HeadwaySettings",
    "HighBacklog",
    "Hopeless",
    "IdleForLow",
    "LargestInTime",
    "LatestStart",
    "Linger",
    "LinkAware",
    "OneAtATime",
    "OneOfEachClass",
    "PriorityOrder",
    "PriorityThenSlack",
    "SlidingWindow",
    "TieredLinger",
    "WithoutHarm",
    "batch3",
    "candidate",
    "clockwork",
    "edf",
    "fifo",
    "headway",
    "lane_edf",
    "nexus",
    "pcie",
    "priority",
    "static_cap",
    "strait",
]
