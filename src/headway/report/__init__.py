"""Tables and plots from Records and Samples.

Knows numbers that a run left behind; sole home of matplotlib. Must never import a server or a
load generator: it reads files and values, and the same ones from both.
"""

from headway.report.frontier import draw_frontier
from headway.report.intervals import Estimated, Paired, estimate, estimate_paired
from headway.report.plots import plot_comparison
from headway.report.policies import (
    ALL_MOVING,
    ClassTally,
    PolicyDifference,
    PolicyRun,
    PolicySummary,
    compare_policies,
    summarise_policies,
)
from headway.report.policy_tables import differences_table, policies_table
from headway.report.prediction_plots import (
    BoundPoint,
    plot_bounds,
    plot_calibration,
    plot_errors,
    plot_learning,
)
from headway.report.records import records_to_samples, samples_from_jsonl, samples_to_jsonl
from headway.report.roofline_plot import MeasuredWork, plot_roofline
from headway.report.scores import (
    CLASS_COUNT_MIN,
    ErrorStep,
    Observation,
    Scores,
    coverage_by_group,
    error_by_seen,
    learning_table,
    score,
    scores_table,
    settled_after,
)
from headway.report.summary import (
    GroupSummary,
    Summary,
    percentile,
    summaries_to_json,
    summarise,
    tiers_in_order,
)
from headway.report.tables import comparison_table, summary_table
from headway.report.timeline import Timeline, TimelineObserver, Window, write_timeline
from headway.report.trace_events import Phase, TraceEvent

__all__ = [
    "ALL_MOVING",
    "CLASS_COUNT_MIN",
    "BoundPoint",
    "ClassTally",
    "ErrorStep",
    "Estimated",
    "GroupSummary",
    "MeasuredWork",
    "Observation",
    "Paired",
    "Phase",
    "PolicyDifference",
    "PolicyRun",
    "PolicySummary",
    "Scores",
    "Summary",
    "Timeline",
    "TimelineObserver",
    "TraceEvent",
    "Window",
    "compare_policies",
    "comparison_table",
    "coverage_by_group",
    "differences_table",
    "draw_frontier",
    "error_by_seen",
    "estimate",
    "estimate_paired",
    "learning_table",
    "percentile",
    "plot_bounds",
    "plot_calibration",
    "plot_comparison",
    "plot_errors",
    "plot_learning",
    "plot_roofline",
    "policies_table",
    "records_to_samples",
    "samples_from_jsonl",
    "samples_to_jsonl",
    "score",
    "scores_table",
    "settled_after",
    "summaries_to_json",
    "summarise",
    "summarise_policies",
    "summary_table",
    "tiers_in_order",
    "write_timeline",
]
