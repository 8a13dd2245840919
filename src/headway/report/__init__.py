"""Tables and plots from Records and Samples.

Knows numbers that a run left behind; sole home of matplotlib. Must never import a server or a
load generator: it reads files and values, and the same ones from both.
"""

from headway.report.plots import plot_comparison
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

__all__ = [
    "CLASS_COUNT_MIN",
    "BoundPoint",
    "ErrorStep",
    "GroupSummary",
    "MeasuredWork",
    "Observation",
    "Scores",
    "Summary",
    "comparison_table",
    "coverage_by_group",
    "error_by_seen",
    "learning_table",
    "percentile",
    "plot_bounds",
    "plot_calibration",
    "plot_comparison",
    "plot_errors",
    "plot_learning",
    "plot_roofline",
    "records_to_samples",
    "samples_from_jsonl",
    "samples_to_jsonl",
    "score",
    "scores_table",
    "settled_after",
    "summaries_to_json",
    "summarise",
    "summary_table",
    "tiers_in_order",
]
