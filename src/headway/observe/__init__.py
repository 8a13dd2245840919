"""Kernel steps -> Prometheus, journal, log. It may fail without harm, and alters no decision.

Knows Records. Must never import a driver, a frontend or a policy.
"""

from headway.observe.background import BackgroundWriter
from headway.observe.journal import (
    Divergence,
    JournalHeader,
    JournalObserver,
    read_journal,
    replay,
)
from headway.observe.log import configure_logging
from headway.observe.metrics import Metrics

__all__ = [
    "BackgroundWriter",
    "Divergence",
    "JournalHeader",
    "JournalObserver",
    "Metrics",
    "configure_logging",
    "read_journal",
    "replay",
]
