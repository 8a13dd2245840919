"""What the benchmarks of token-by-token models share: engines, tiers, schedulers by name, rows.

Everything here is simulated: a cost model in place of an accelerator, recorded lengths and arrivals
in place of clients. Knows `headway.generate` and `headway.sim`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import harness

from headway.core import TenantId
from headway.generate import (
    CopyLaw,
    EngineLimits,
    FcfsOrder,
    HeadwayScheduler,
    MarkAction,
    PriorityOrder,
    StepLaw,
    StepScheduler,
    StepSettings,
    StockScheduler,
    StockSettings,
    TierTerms,
    VtcOrder,
    WatermarkSettings,
)
from headway.units import NS_PER_MS, NS_PER_S

__all__ = [
    "A100_8B",
    "A100_LIMITS",
    "NOTES",
    "TIERS",
    "generation_parser",
    "headway",
    "rounded",
    "stock",
    "traces_folder",
    "vtc",
]

A100_8B = StepLaw()
"""An eight-billion model on an A100: 12 ms of weights, 67 us a token beyond 128, 65 ns a token
read."""
A100_LIMITS = EngineLimits(blocks=3_000, law=A100_8B, copies=CopyLaw())
"""48,000 tokens of keys and values, in blocks of 16."""
NOTES = (
    "Simulated: a cost model in place of an accelerator; every figure is of virtual time.",
    "fcfs, priority and vtc are our own, written from what vLLM's V1 scheduler and its paper say.",
)
GOLD = TierTerms(name="gold", priority=0, ttft_ns=300 * NS_PER_MS, tpot_ns=50 * NS_PER_MS)
SILVER = TierTerms(name="silver", priority=1, ttft_ns=500 * NS_PER_MS, tpot_ns=100 * NS_PER_MS)
BRONZE = TierTerms(
    name="bronze", priority=2, ttft_ns=10 * NS_PER_S, tpot_ns=200 * NS_PER_MS, is_gated=True
)
TIERS = (GOLD, SILVER, BRONZE, BRONZE, BRONZE)
"""Dealt out in turn: 1 to 1 to 3."""


def generation_parser(doc: str | None, quick: str) -> argparse.ArgumentParser:
    """The flags of every benchmark, and where the recorded traces are."""
    parser = harness.quick_parser(doc, quick)
    parser.add_argument(
        "--traces",
        type=Path,
        default=os.environ.get("HEADWAY_TRACES"),
        help="folder that holds the recorded traces (HEADWAY_TRACES)",
    )
    return parser


def traces_folder(arguments: argparse.Namespace) -> Path:
    """Where the traces are.

    Raises:
        SystemExit: nowhere.
    """
    if arguments.traces is None or not Path(arguments.traces).is_dir():
        raise SystemExit("no recorded traces. hint: name their folder with --traces")
    return Path(arguments.traces)


def stock(name: str, limits: EngineLimits, step_tokens: int) -> StepScheduler:
    """`fcfs` or `priority` with a constant budget."""
    order = {"fcfs": FcfsOrder, "priority": PriorityOrder}[name]()
    return StockScheduler(limits, order, StockSettings(step_tokens=step_tokens))


def vtc(
    limits: EngineLimits, step_tokens: int, weights: Mapping[TenantId, float] | None = None
) -> StepScheduler:
    """Virtual token counters on the same loop."""
    order = VtcOrder(weights=weights)
    return StockScheduler(limits, order, StockSettings(step_tokens=step_tokens))


def headway(limits: EngineLimits, *, evicts: bool = False, **settings: object) -> StepScheduler:
    """Ours; `evicts` for the textbook form of watermarks."""
    action = MarkAction.EVICT if evicts else MarkAction.GATE
    marks = WatermarkSettings(action=action)
    return HeadwayScheduler(limits, StepSettings(**({"watermark": marks} | settings)))


def rounded(row: Mapping[str, object]) -> harness.Row:
    """A row with numbers as short as they can be read."""
    return {
        key: round(value, 3) if isinstance(value, float) else value  # type: ignore[misc]
        for key, value in row.items()
    }
