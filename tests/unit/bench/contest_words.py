"""What the tests of the contest are made of: a mix of two sides, its times alone, and runs."""

from headway.bench import ContestRun, Mix, MixClass
from headway.units import NS_PER_MS, NS_PER_S

SOLO_NS = {
    "minilm-32 x1": 10 * NS_PER_MS,
    "ocr-recognise x1": 20 * NS_PER_MS,
    "minilm-bulk x4": 120 * NS_PER_MS,
}


def a_mix(**fields):
    """One high class and two low ones, the larger of which may be split; it moves."""
    given = {
        "name": "m",
        "site": "A test.",
        "high": (MixClass(model="minilm-32", weight=1.0, deadline_factor=3, priority=0),),
        "low": (
            MixClass(model="ocr-recognise", weight=0.75, deadline_factor=6, priority=3),
            MixClass(
                model="minilm-bulk",
                rows=4,
                weight=0.25,
                deadline_factor=5,
                priority=3,
                can_split=True,
            ),
        ),
        "load_min": 0.6,
        "load_max": 1.2,
        "high_share": (0.2, 0.8),
        "gap_cv": 3.0,
    }
    return Mix(**given | fields)


def a_run(**fields):
    """Of `fifo` for two seconds."""
    given = {
        "mix": "m",
        "load": None,
        "policy": "fifo",
        "settings": {"kind": "fifo", "class_slots": True},
        "predictor": "headway",
        "niced": True,
        "seed": 1,
        "duration_ns": 2 * NS_PER_S,
    }
    return ContestRun(**given | fields)
