"""Tables and plots from Records and Samples.

Knows numbers that a run left behind; sole home of matplotlib. Must never import a server or a
load generator: it reads files and values, and the same ones from both.
"""

from headway.report.plots import plot_comparison
from headway.report.records import records_to_samples, samples_from_jsonl, samples_to_jsonl
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
    "GroupSummary",
    "Summary",
    "comparison_table",
    "percentile",
    "plot_comparison",
    "records_to_samples",
    "samples_from_jsonl",
    "samples_to_jsonl",
    "summaries_to_json",
    "summarise",
    "summary_table",
    "tiers_in_order",
]
