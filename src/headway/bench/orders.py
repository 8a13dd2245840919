"""What the recorder's process is asked for and what it tells: messages, a line of JSON each.

Also the sidecar, the file beside a journal that says under which circumstances it was recorded.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from headway.bench.plan import Shift
from headway.bench.setups import Setup
from headway.core import BucketKey, DeviceName, ModelName
from headway.predict import ModelProfile, SoloTime

__all__ = [
    "NEWS",
    "ORDERS",
    "OTHERS_CORES_MAX",
    "SIDECARS",
    "Order",
    "Progress",
    "Recorded",
    "RunOrder",
    "Sidecar",
    "SoloClass",
    "SoloMeasured",
    "profiles_of",
]

OTHERS_CORES_MAX: Final = 0.3
"""Cores that other programs may use before a figure is doubted."""


class RunOrder(Struct, frozen=True, kw_only=True):
    """One recording."""

    path: str
    """Of the journal; the sidecar's ends in `.json`."""
    utilisation: float
    """Offered work over what the cores can do; with a shift, that of the first half."""
    utilisation_after: float | None = None
    """That of the second half; None leaves it as it was."""
    seed: int
    duration_ns: int
    shift: Shift = Shift.NONE


class Order(Struct, frozen=True, kw_only=True):
    """Recordings under one set-up."""

    setup: Setup
    cache: str
    """Folder of the fetched models."""
    solo_rounds: int
    """Executions of each class from which its time alone is taken."""
    capacity_ns: int
    """How long the cores are kept full to see what they can do."""
    runs: tuple[RunOrder, ...]
    others_cores_max: float = OTHERS_CORES_MAX
    """A recording during which other programs used more than this is made again."""
    tries_max: int = 2
    """Then the quietest of them stays."""


class SoloClass(Struct, frozen=True, kw_only=True):
    """A class alone on the machine, one request at a time."""

    name: str
    model: str
    bucket: str
    rows: int
    median_ns: int
    """Of the execution."""
    p95_ns: int
    overhead_ns: int
    """What the service takes beside its stages, of which copies are two; the median."""
    payload_bytes: int
    runs: int
    """Executions that these are of, warm-up apart."""


class SoloMeasured(Struct, frozen=True, kw_only=True, tag=True):
    """Every class was timed alone."""

    classes: tuple[SoloClass, ...]
    capacity_ratio: float
    """Work that the cores do in their time when they are never idle, at its time alone.
    Neighbours and the way to the workers cost the rest."""
    others_cores: float | None


class Progress(Struct, frozen=True, kw_only=True, tag=True):
    """How far one recording is."""

    path: str
    done_ratio: float


class Recorded(Struct, frozen=True, kw_only=True, tag=True):
    """One recording is whole; the files have their names."""

    path: str
    busy_ratio: float
    others_cores: float | None


class Sidecar(Struct, frozen=True, kw_only=True):
    """The circumstances of one journal."""

    config: str
    """Name of the set-up."""
    seed: int
    utilisation: float
    utilisation_after: float
    busy: float
    """Processor time of everything that served, over what there was."""
    others_cores: float | None
    """Cores that other programs kept busy meanwhile."""
    shift: Shift
    shift_at_ns: int | None
    """On the journal's clock; None without a shift."""
    load_at_ns: int
    """When the load began, on the journal's clock."""
    duration_ns: int
    cores: int
    capacity_ratio: float
    """Work that the cores can do, at its time alone, over their time."""
    solo: tuple[SoloClass, ...]
    """What was measured before, under the same set-up."""

    @property
    def solo_ns(self) -> dict[str, int]:
        """Execution alone, by class."""
        return {kind.name: kind.median_ns for kind in self.solo}

    def profiles(self, device: DeviceName) -> list[ModelProfile]:
        """What was measured, as predictors take it."""
        return profiles_of(self.solo, device)


def profiles_of(solo: Iterable[SoloClass], device: DeviceName) -> list[ModelProfile]:
    """Classes as predictors take them: one profile for each model and shape."""
    by_shape: dict[tuple[str, str], list[SoloClass]] = {}
    for kind in solo:
        by_shape.setdefault((kind.model, kind.bucket), []).append(kind)
    return [
        _profile(sorted(kinds, key=lambda kind: kind.rows), device) for kinds in by_shape.values()
    ]


def _profile(kinds: list[SoloClass], device: DeviceName) -> ModelProfile:
    first = kinds[0]
    return ModelProfile(
        model=ModelName(first.model),
        device=device,
        bucket=BucketKey(first.bucket),
        solo=tuple(
            SoloTime(rows=kind.rows, median_ns=kind.median_ns, p95_ns=kind.p95_ns, runs=kind.runs)
            for kind in kinds
        ),
        transfer_in_bytes=first.payload_bytes // first.rows,
        overhead_ns=first.overhead_ns,
    )


ORDERS: Final = msgspec.json.Decoder(Order)
NEWS: Final[msgspec.json.Decoder[SoloMeasured | Progress | Recorded]] = msgspec.json.Decoder(
    SoloMeasured | Progress | Recorded
)
SIDECARS: Final = msgspec.json.Decoder(Sidecar)
