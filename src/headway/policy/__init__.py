"""Decisions: ordering, admission, batching, placement; one file a named policy.

Knows `core` and nothing above it. Must never import a clock, chance, numpy or a device.
"""

from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.edf import EarliestDeadline, edf
from headway.policy.fifo import ArrivalOrder, fifo
from headway.policy.placement import EmptiestLane
from headway.policy.priority import PriorityOrder, priority

__all__ = [
    "AdmitAll",
    "ArrivalOrder",
    "EarliestDeadline",
    "EmptiestLane",
    "Linger",
    "PriorityOrder",
    "edf",
    "fifo",
    "priority",
]
