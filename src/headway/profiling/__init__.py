"""Profiles: what a model takes on this machine, measured, counted from its graph, or imported.

Knows executors, devices and graphs. Must never import a kernel, a policy's decisions or a frontend.
"""

from headway.profiling.bench import Bench, BenchLimits, Timed, benched
from headway.profiling.device_activity import (
    AllocatorPoint,
    CopySpan,
    DeviceActivity,
    DeviceSpan,
    read_activity,
)
from headway.profiling.estimate import can_count_graphs, estimated_profile
from headway.profiling.files import (
    Probed,
    ProfileFile,
    ReadProfiles,
    merged,
    read_profiles,
    write_profiles,
)
from headway.profiling.graph import GraphCost, count_graph, profile_from_graph, profile_of
from headway.profiling.inputs import bucket_of, make_rows, row_shapes
from headway.profiling.keeper import Keeper
from headway.profiling.learnt import Circumstances, Recalled, read_learnt, write_learnt
from headway.profiling.measure import Measured, Plan, Step, Subject, measure
from headway.profiling.nsight import Copies, Direction, KernelTotal, NsightProfile
from headway.profiling.nsight_compute import read_ncu
from headway.profiling.nsight_systems import read_nsys
from headway.profiling.probes import Probe, ProbeEffort, Request, pressures_of, probe
from headway.profiling.roofline import (
    Bounds,
    Limit,
    Roof,
    SoloEstimate,
    bounds_of,
    estimate_solo_ns,
)
from headway.profiling.spread import Spread, StopRule, is_enough, spread_of
from headway.profiling.stressors import (
    STRESSORS,
    Cores,
    Place,
    Stressor,
    choose_cores,
    open_stressor,
)
from headway.profiling.verdict import Explanation, MeasuredRun, NodeShare, SoloRun, explain
from headway.profiling.walk import NodeCost

__all__ = [
    "STRESSORS",
    "AllocatorPoint",
    "Bench",
    "BenchLimits",
    "Bounds",
    "Circumstances",
    "Copies",
    "CopySpan",
    "Cores",
    "DeviceActivity",
    "DeviceSpan",
    "Direction",
    "Explanation",
    "GraphCost",
    "Keeper",
    "KernelTotal",
    "Limit",
    "Measured",
    "MeasuredRun",
    "NodeCost",
    "NodeShare",
    "NsightProfile",
    "Place",
    "Plan",
    "Probe",
    "ProbeEffort",
    "Probed",
    "ProfileFile",
    "ReadProfiles",
    "Recalled",
    "Request",
    "Roof",
    "SoloEstimate",
    "SoloRun",
    "Spread",
    "Step",
    "StopRule",
    "Stressor",
    "Subject",
    "Timed",
    "benched",
    "bounds_of",
    "bucket_of",
    "can_count_graphs",
    "choose_cores",
    "count_graph",
    "estimate_solo_ns",
    "estimated_profile",
    "explain",
    "is_enough",
    "make_rows",
    "measure",
    "merged",
    "open_stressor",
    "pressures_of",
    "probe",
    "profile_from_graph",
    "profile_of",
    "read_activity",
    "read_learnt",
    "read_ncu",
    "read_nsys",
    "read_profiles",
    "row_shapes",
    "spread_of",
    "write_learnt",
    "write_profiles",
]
