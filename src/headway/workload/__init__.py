"""Seeded arrivals, recorded traces, and the samples of what became of them.

Knows when who asks for what, in numbers; may use numpy. Must never import a clock, a loop or a
network, and sends nothing: `sim` and `loadgen` play a workload.
"""

from headway.workload.arrivals import (
    Arrivals,
    Gamma,
    OnOff,
    Phase,
    Piecewise,
    Poisson,
    Recorded,
    Uniform,
)
from headway.workload.bursts import BurstLoad, PowerLaw, burst_trace
from headway.workload.faults import located
from headway.workload.rows import FixedRows, Rows, UniformRows, WeightedRows
from headway.workload.samples import Outcome, Sample
from headway.workload.shapes import GapFamily, GapShape
from headway.workload.spec import StreamSpec, WorkloadSpec, workload_from_dict
from headway.workload.streams import Arrival, Stream, Workload
from headway.workload.traces import (
    SERVEGEN_WINDOW_NS,
    DisbTask,
    FunctionLoad,
    Trace,
    TraceFormat,
    load_arrivals,
    load_disb,
    load_faasrail,
    load_servegen,
    load_trace,
)

__all__ = [
    "SERVEGEN_WINDOW_NS",
    "Arrival",
    "Arrivals",
    "BurstLoad",
    "DisbTask",
    "FixedRows",
    "FunctionLoad",
    "Gamma",
    "GapFamily",
    "GapShape",
    "OnOff",
    "Outcome",
    "Phase",
    "Piecewise",
    "Poisson",
    "PowerLaw",
    "Recorded",
    "Rows",
    "Sample",
    "Stream",
    "StreamSpec",
    "Trace",
    "TraceFormat",
    "Uniform",
    "UniformRows",
    "WeightedRows",
    "Workload",
    "WorkloadSpec",
    "burst_trace",
    "load_arrivals",
    "load_disb",
    "load_faasrail",
    "load_servegen",
    "load_trace",
    "located",
    "workload_from_dict",
]
