"""What-if: which policies are worth trying on a workload, and how devices may be shared for it.

Knows scenarios, devices and what is to be placed on them as plain values; sole home of OR-Tools
and SciPy.
Must never import a live server.
"""

from headway.plan.batching import BatchPoint, batching_curve
from headway.plan.bounds import Bound, quick_bound, solved_bound
from headway.plan.candidates import Candidate, candidates_for, with_linger
from headway.plan.capacity import (
    CapacityAnswer,
    CapacityPoint,
    ModelCapacity,
    capacity,
    first_look,
    servers_needed,
)
from headway.plan.character import Character, characterise
from headway.plan.check import Breach, breaches
from headway.plan.conflicts import conflicts_of, ways_out
from headway.plan.cuts import Cut, cut_of, times_there, whole_cut
from headway.plan.demand import (
    Chain,
    Demand,
    IsolationNeed,
    MeasuredTimes,
    ModelDemand,
    Spread,
)
from headway.plan.fleet import Fleet, FleetDevice
from headway.plan.generating import EngineAnswer, EnginePoint, TierVerdict, engines_needed
from headway.plan.geometry import (
    GeometryChange,
    MigProduct,
    MigProfile,
    MigToday,
    Placement,
    cheapest_change,
    geometries,
    geometries_beside,
    maximal_geometries,
    mig_product,
    mig_products,
    placed_beside,
    placed_sets,
    placement_problems,
    remaining_geometries,
    stranded_sm_count,
)
from headway.plan.node_topology import NodeTopology, Proximity, read_topology
from headway.plan.placed import PlayLimits, PolicyMaker, play_plan
from headway.plan.planning import explain_unplaced, plan_sharing
from headway.plan.preemption import (
    Crossover,
    PreemptionPoint,
    PrefillLaw,
    SwapLaw,
    TransformerShape,
    crossover,
    fitted_prefill,
    preemption_curve,
    swap_law,
)
from headway.plan.program import Effort
from headway.plan.queueing import Wait, Work, erlang_c, fastest_decay, wait_of
from headway.plan.seats import LOAD_MAX, Refusal, SeatTerms, seat_terms
from headway.plan.sharing import (
    DeviceShare,
    Judge,
    PlacedSlice,
    PlanMaker,
    Seat,
    SharingMode,
    SharingPlan,
    Unplaced,
    Verdict,
    Waste,
)
from headway.plan.solver import SearchLimits
from headway.plan.terms import Terms
from headway.plan.topology import ChainReach, chain_reaches, proximity
from headway.plan.verdicts import bound_verdicts

__all__ = [
    "LOAD_MAX",
    "BatchPoint",
    "Bound",
    "Breach",
    "Candidate",
    "CapacityAnswer",
    "CapacityPoint",
    "Chain",
    "ChainReach",
    "Character",
    "Crossover",
    "Cut",
    "Demand",
    "DeviceShare",
    "Effort",
    "EngineAnswer",
    "EnginePoint",
    "Fleet",
    "FleetDevice",
    "GeometryChange",
    "IsolationNeed",
    "Judge",
    "MeasuredTimes",
    "MigProduct",
    "MigProfile",
    "MigToday",
    "ModelCapacity",
    "ModelDemand",
    "NodeTopology",
    "PlacedSlice",
    "Placement",
    "PlanMaker",
    "PlayLimits",
    "PolicyMaker",
    "PreemptionPoint",
    "PrefillLaw",
    "Proximity",
    "Refusal",
    "SearchLimits",
    "Seat",
    "SeatTerms",
    "SharingMode",
    "SharingPlan",
    "Spread",
    "SwapLaw",
    "Terms",
    "TierVerdict",
    "TransformerShape",
    "Unplaced",
    "Verdict",
    "Wait",
    "Waste",
    "Work",
    "batching_curve",
    "bound_verdicts",
    "breaches",
    "candidates_for",
    "capacity",
    "chain_reaches",
    "characterise",
    "cheapest_change",
    "conflicts_of",
    "crossover",
    "cut_of",
    "engines_needed",
    "erlang_c",
    "explain_unplaced",
    "fastest_decay",
    "first_look",
    "fitted_prefill",
    "geometries",
    "geometries_beside",
    "maximal_geometries",
    "mig_product",
    "mig_products",
    "placed_beside",
    "placed_sets",
    "placement_problems",
    "plan_sharing",
    "play_plan",
    "preemption_curve",
    "proximity",
    "quick_bound",
    "read_topology",
    "remaining_geometries",
    "seat_terms",
    "servers_needed",
    "solved_bound",
    "stranded_sm_count",
    "swap_law",
    "times_there",
    "wait_of",
    "ways_out",
    "whole_cut",
    "with_linger",
]
