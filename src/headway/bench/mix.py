"""The requests of the prediction benchmark: eight classes of six real models, 0.1 to 90 ms alone.

Pure. Knows models, rows, shapes and weights. Never how long a class takes: that is measured.

Two requests of one model never share a batch: each carries more than half of the rows that a batch
may hold. So a batch is one request, and what is predicted is the execution of that request.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["LATE_MODEL", "MIX", "TrafficClass", "rows_max_of"]


class TrafficClass(NamedTuple):
    """Requests of one model, size and shape."""

    name: str
    model: str
    rows: int
    weight: float
    """Part of all requests."""
    shape: tuple[int, ...] = ()
    """Shape of one row of the first input; empty takes whatever the model has."""
    published: str = ""
    """Name in the demo's catalogue where it is served under another; empty is the same."""

    @property
    def catalogue_name(self) -> str:
        """Its name in the demo's catalogue."""
        return self.published or self.model


MIX: Final = (
    TrafficClass("silero-vad x1", "silero-vad", 1, 0.05),
    TrafficClass("magika x1", "magika", 1, 0.24),
    TrafficClass("minilm x2", "minilm", 2, 0.20, (32,)),
    TrafficClass("minilm x3", "minilm", 3, 0.12, (64,)),
    TrafficClass("ocr-recognise x2", "ocr-recognise", 2, 0.12, (3, 48, 320)),
    TrafficClass("ocr-recognise x3", "ocr-recognise", 3, 0.06, (3, 48, 320)),
    TrafficClass("ocr-detect x1", "ocr-detect", 1, 0.15, (3, 320, 320)),
    TrafficClass("opennsfw x4", "opennsfw", 4, 0.06, (224, 224, 3)),
)
LATE_MODEL: Final = "opennsfw"
"""The one that joins half way, where one does: the slowest, so that it matters."""


def rows_max_of(model: str, mix: Sequence[TrafficClass] = MIX) -> int:
    """The largest request of a model.

    Raises:
        ValueError: two requests of the model would fit into one batch.
    """
    rows = [traffic.rows for traffic in mix if traffic.model == model]
    if 2 * min(rows) <= max(rows):
        raise ValueError(f"requests of `{model}` with {min(rows)} and {max(rows)} rows could merge")
    return max(rows)
