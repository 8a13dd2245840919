"""Kernel steps -> Prometheus, journal, log; requests -> spans. It may fail without harm.

Knows Records, and alters no decision; sole home of OpenTelemetry, which is loaded only where spans
are exported. Must never import a driver, a frontend or a policy.
"""

from headway.observe.background import BackgroundWriter
from headway.observe.batches import cut_reasons
from headway.observe.board import Board, Sources, TierGoal
from headway.observe.devices import Look
from headway.observe.generators import AnswerFigures, GeneratorMetrics
from headway.observe.glance import About, Glance, Kept, ModelNow
from headway.observe.journal import (
    Divergence,
    JournalHeader,
    JournalObserver,
    read_journal,
    replay,
)
from headway.observe.lives import (
    BatchEnding,
    BatchLife,
    Ended,
    Lives,
    Outcome,
    RequestLife,
    Served,
    how_ended,
)
from headway.observe.log import configure_logging
from headway.observe.metrics import Metrics
from headway.observe.pauses import PAUSE_NS_MIN, Pause, PauseWatch, paused_ns
from headway.observe.recent import HeldSteps, RecentSteps
from headway.observe.scraped import ExposedSample, Exposition, read_exposition
from headway.observe.trace_context import Sampling, TraceContext
from headway.observe.tracing import AttributeValue, RequestSpan, Tracing, open_tracing

__all__ = [
    "PAUSE_NS_MIN",
    "About",
    "AnswerFigures",
    "AttributeValue",
    "BackgroundWriter",
    "BatchEnding",
    "BatchLife",
    "Board",
    "Divergence",
    "Ended",
    "ExposedSample",
    "Exposition",
    "GeneratorMetrics",
    "Glance",
    "HeldSteps",
    "JournalHeader",
    "JournalObserver",
    "Kept",
    "Lives",
    "Look",
    "Metrics",
    "ModelNow",
    "Outcome",
    "Pause",
    "PauseWatch",
    "RecentSteps",
    "RequestLife",
    "RequestSpan",
    "Sampling",
    "Served",
    "Sources",
    "TierGoal",
    "TraceContext",
    "Tracing",
    "configure_logging",
    "cut_reasons",
    "how_ended",
    "open_tracing",
    "paused_ns",
    "read_exposition",
    "read_journal",
    "replay",
]
