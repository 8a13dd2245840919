"""Tables and plots from Records and Samples.

Knows numbers that a run left behind; sole home of matplotlib. Must never import a server or a
load generator: it reads files and values, and the same ones from both.
"""

from headway.report.causes import Parts, Typical, TypicalTimes, parts_of
from headway.report.curves_plot import CurveAxis, plot_curves
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
from headway.report.remedies import LABELS, remedy_of
from headway.report.rescues import Rescue
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
from headway.report.sharing_plot import DrawnDevice, DrawnSeat, DrawnSlice, plot_sharing
from headway.report.story import BesideStory, BlockedStory, RunStory, Story, tell, tell_worst
from headway.report.story_words import story_lines
from headway.report.summary import (
    GroupSummary,
    Summary,
    percentile,
    summaries_to_json,
    summarise,
    tiers_in_order,
)
from headway.report.tables import comparison_table, summary_table
from headway.report.tail import (
    TailCause,
    TailGroup,
    TailReport,
    split_tail,
    tail_to_json,
)
from headway.report.tail_plot import plot_tail
from headway.report.tail_words import remedy_lines, tail_table
from headway.report.timeline import (
    Timeline,
    TimelineObserver,
    Window,
    timeline_bytes,
    write_timeline,
)
from headway.report.trace_events import Phase, TraceEvent
from headway.report.waits import Cause
from headway.report.watch_plot import WatchPanel, plot_watch

__all__ = [
    "ALL_MOVING",
    "CLASS_COUNT_MIN",
    "LABELS",
    "BesideStory",
    "BlockedStory",
    "BoundPoint",
    "Cause",
    "ClassTally",
    "CurveAxis",
    "DrawnDevice",
    "DrawnSeat",
    "DrawnSlice",
    "ErrorStep",
    "Estimated",
    "GroupSummary",
    "MeasuredWork",
    "Observation",
    "Paired",
    "Parts",
    "Phase",
    "PolicyDifference",
    "PolicyRun",
    "PolicySummary",
    "Rescue",
    "RunStory",
    "Scores",
    "Story",
    "Summary",
    "TailCause",
    "TailGroup",
    "TailReport",
    "Timeline",
    "TimelineObserver",
    "TraceEvent",
    "Typical",
    "TypicalTimes",
    "WatchPanel",
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
    "parts_of",
    "percentile",
    "plot_bounds",
    "plot_calibration",
    "plot_comparison",
    "plot_curves",
    "plot_errors",
    "plot_learning",
    "plot_roofline",
    "plot_sharing",
    "plot_tail",
    "plot_watch",
    "policies_table",
    "records_to_samples",
    "remedy_lines",
    "remedy_of",
    "samples_from_jsonl",
    "samples_to_jsonl",
    "score",
    "scores_table",
    "settled_after",
    "split_tail",
    "story_lines",
    "summaries_to_json",
    "summarise",
    "summarise_policies",
    "summary_table",
    "tail_table",
    "tail_to_json",
    "tell",
    "tell_worst",
    "tiers_in_order",
    "timeline_bytes",
    "write_timeline",
]
