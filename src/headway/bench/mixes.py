"""What is asked of the policies: mixes of real models, each for one kind of site.

Pure data. Knows models, rows, deadlines and shares of work. Never how long anything takes: a
deadline is a multiple of the time alone, which is measured. Where that multiple would be shorter
than a few of the system's own time slices, those would decide and not the policy, so no deadline is
below `BUDGET_MIN_NS`.

`stationary` is one Poisson process at one load. The others move: within a run the load and the high
classes' part of the work change every few seconds, and every class comes in bursts of its own.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from headway.bench.mix import TrafficClass
from headway.errors import ConfigError
from headway.units import NS_PER_MS

__all__ = [
    "BUDGET_MIN_NS",
    "MIXES",
    "MOVING",
    "STATIONARY",
    "Mix",
    "MixClass",
    "find_mix",
    "kinds_of",
]

BUDGET_MIN_NS: Final = 15 * NS_PER_MS
"""Tightest deadline. A busy core is shared out in slices of some 3 ms."""
_SHAPES: Final[Mapping[str, tuple[str, tuple[int, ...]]]] = MappingProxyType(
    {
        "silero-vad": ("silero-vad", ()),
        "magika": ("magika", ()),
        "minilm-32": ("minilm", (32,)),
        "minilm-64": ("minilm", (64,)),
        "minilm-128": ("minilm", (128,)),
        "ocr-recognise": ("ocr-recognise", (3, 48, 320)),
        "ocr-detect": ("ocr-detect", (3, 320, 320)),
        "ocr-detect-640": ("ocr-detect", (3, 640, 640)),
        "opennsfw": ("opennsfw", ()),
        "magika-bulk": ("magika", ()),
        "minilm-bulk": ("minilm", (128,)),
        "opennsfw-bulk": ("opennsfw", ()),
    }
)
"""Name under which it is served -> the published model, and the shape of one row where it may
vary. `bulk` is a replica of its own for jobs that send many rows at once."""


class MixClass(Struct, frozen=True, kw_only=True):
    """Requests of one model and size under one deadline."""

    model: str
    """Name under which it is served."""
    rows: int = 1
    weight: float
    """Part of its side's requests, relative to the others of that side."""
    deadline_factor: float
    """Budget over the time alone."""
    priority: int
    """Lower is served first; that of all low classes is the same."""
    can_split: bool = False
    """A policy may run its rows in several batches."""

    @property
    def name(self) -> str:
        """As its executions are called."""
        return f"{self.model} x{self.rows}"

    @property
    def traffic(self) -> TrafficClass:
        """What its requests are made of."""
        graph, shape = _SHAPES[self.model]
        return TrafficClass(self.name, self.model, self.rows, self.weight, shape, graph)

    def budget_ns(self, solo_ns: int) -> int:
        """Time from arrival to the last byte, for a class that takes so long alone."""
        return max(BUDGET_MIN_NS, round(self.deadline_factor * solo_ns))


class Mix(Struct, frozen=True, kw_only=True):
    """Two sides, high and low, and how they share the work.

    Invariants: a served model has one size in a mix, so that two requests never share a batch and
    what is measured is the order of service.
    """

    name: str
    site: str
    """The kind of site that it stands for, in one sentence."""
    high: tuple[MixClass, ...]
    low: tuple[MixClass, ...]
    load_min: float
    """Offered work over what the cores can do."""
    load_max: float
    high_share: tuple[float, float] | None = None
    """Least and most of the work that is high; None sends as many high requests as low."""
    gap_cv: float = 1.0
    """Of the gaps between two requests of a class, 1 or more; 1 is Poisson."""

    @property
    def classes(self) -> tuple[MixClass, ...]:
        """All, the high ones first; arrivals name them by their index here."""
        return self.high + self.low

    @property
    def moves(self) -> bool:
        """Whether load and shares change within a run."""
        return self.high_share is not None


def _high(
    model: str, deadline_factor: float, priority: int = 0, *, weight: float = 1.0
) -> MixClass:
    return MixClass(model=model, weight=weight, deadline_factor=deadline_factor, priority=priority)


def _low(
    model: str,
    deadline_factor: float,
    *,
    rows: int = 1,
    weight: float = 1.0,
    can_split: bool = False,
) -> MixClass:
    return MixClass(
        model=model,
        rows=rows,
        weight=weight,
        deadline_factor=deadline_factor,
        priority=_LOW_PRIORITY,
        can_split=can_split,
    )


def _moving(
    index: int, site: str, high: Sequence[MixClass], low: Sequence[MixClass], *, gap_cv: float
) -> Mix:
    return Mix(
        name=f"moving-{index}",
        site=site,
        high=tuple(high),
        low=tuple(low),
        load_min=0.6,
        load_max=1.3,
        high_share=(0.10, 0.85),
        gap_cv=gap_cv,
    )


_LOW_PRIORITY: Final = 3

STATIONARY: Final = Mix(
    name="stationary",
    site="One interactive embedding model beside steady OCR, document and moderation work.",
    high=(_high("minilm-32", 3.5),),
    low=(
        _low("ocr-recognise", 6, weight=0.4),
        _low("minilm-128", 6, weight=0.3),
        _low("opennsfw-bulk", 6, rows=4, weight=0.3),
    ),
    load_min=0.88,
    load_max=0.88,
)
MOVING: Final = (
    _moving(
        1,
        "A voice assistant: speech windows, queries and picture checks, while files are indexed.",
        (_high("silero-vad", 5), _high("minilm-32", 2.5, 1), _high("opennsfw", 3, 2, weight=0.5)),
        (
            _low("ocr-detect", 6, weight=0.5),
            _low("minilm-bulk", 5, rows=4, weight=0.5, can_split=True),
        ),
        gap_cv=3.0,
    ),
    _moving(
        2,
        "Document intake: lines read and queries answered at once, whole pages when there is time.",
        (_high("ocr-recognise", 3), _high("minilm-32", 5, 1)),
        (
            _low("ocr-detect", 8, weight=0.5),
            _low("ocr-detect-640", 4, weight=0.2),
            _low("opennsfw", 6, weight=0.3),
        ),
        gap_cv=3.5,
    ),
    _moving(
        3,
        "An upload scanner: each file and picture is checked at once, old stock in batches.",
        (_high("magika", 2, weight=2.0), _high("opennsfw", 2.5, 1)),
        (
            _low("magika-bulk", 5, rows=16, weight=0.25, can_split=True),
            _low("opennsfw-bulk", 6, rows=8, weight=0.25, can_split=True),
            _low("ocr-recognise", 8, weight=0.5),
        ),
        gap_cv=4.0,
    ),
    _moving(
        4,
        "Search: short queries in tight time, documents embedded in large jobs beside.",
        (_high("minilm-32", 2, weight=2.0), _high("minilm-64", 4, 1)),
        (
            _low("minilm-bulk", 3, rows=16, weight=0.1, can_split=True),
            _low("opennsfw-bulk", 5, rows=4, weight=0.3, can_split=True),
            _low("ocr-detect", 6, weight=0.6),
        ),
        gap_cv=3.0,
    ),
    _moving(
        5,
        "Cameras: each frame and each window of sound is due at once, archives are gone through.",
        (_high("ocr-detect", 1.5), _high("silero-vad", 5, 1, weight=0.5)),
        (
            _low("ocr-detect-640", 3, weight=0.2),
            _low("opennsfw", 5, weight=0.4),
            _low("minilm-128", 8, weight=0.4),
        ),
        gap_cv=4.0,
    ),
    _moving(
        6,
        "Chat support in three classes, with embedding jobs of hundreds of milliseconds behind.",
        (
            _high("silero-vad", 5, 0, weight=0.8),
            _high("minilm-64", 3, 1),
            _high("minilm-128", 2.5, 2, weight=0.5),
        ),
        (
            _low("minilm-bulk", 4, rows=8, weight=0.4, can_split=True),
            _low("magika-bulk", 6, rows=16, weight=0.6, can_split=True),
        ),
        gap_cv=3.5,
    ),
    _moving(
        7,
        "A cash desk that reads receipts in tight time, with four kinds of small work behind.",
        (_high("ocr-recognise", 1.5), _high("magika", 5, 1)),
        (
            _low("ocr-detect", 5, weight=0.3),
            _low("minilm-128", 4, weight=0.3),
            _low("opennsfw", 8, weight=0.3),
            _low("ocr-detect-640", 6, weight=0.1),
        ),
        gap_cv=3.0,
    ),
    _moving(
        8,
        "Moderation: new posts in three classes, reports re-examined in jobs with tight deadlines.",
        (_high("opennsfw", 2), _high("minilm-32", 3, 1), _high("magika", 5, 2)),
        (
            _low("opennsfw-bulk", 3, rows=8, weight=0.25, can_split=True),
            _low("minilm-bulk", 8, rows=4, weight=0.25, can_split=True),
            _low("ocr-recognise", 5, weight=0.5),
        ),
        gap_cv=4.0,
    ),
)
MIXES: Final[Mapping[str, Mix]] = MappingProxyType({mix.name: mix for mix in (STATIONARY, *MOVING)})


def find_mix(name: str) -> Mix:
    """The mix of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in MIXES:
        hint = f"valid: {', '.join(MIXES)}"
        raise ConfigError(f"there is no mix `{name}`", path="mixes", value=name, hint=hint)
    return MIXES[name]


def kinds_of(mixes: Sequence[Mix]) -> list[TrafficClass]:
    """Everything that is timed alone for these mixes, each once.

    Of what may be split also a single row: else nothing would be known of a part of it.
    """
    kinds: dict[str, TrafficClass] = {}
    for mix in mixes:
        for one in mix.classes:
            kinds.setdefault(one.name, one.traffic)
            if one.can_split:
                single = one.traffic._replace(name=f"{one.model} x1", rows=1)
                kinds.setdefault(single.name, single)
    return list(kinds.values())
