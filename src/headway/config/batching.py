"""How the requests of one model are put together, and taken apart: the section `batch`.

Knows what may be written. Refuses to know how batches form.
"""

from enum import StrEnum

from pydantic import Field

from headway.config.quantities import Duration
from headway.config.section import Count, Section

__all__ = ["BatchConfig", "BucketsConfig", "Larger", "Oversize", "RaggedConfig"]


class Oversize(StrEnum):
    """What becomes of a request with more rows than a batch may have."""

    REFUSE = "refuse"
    SPLIT = "split"


class Larger(StrEnum):
    """What becomes of a request that is larger than the largest bucket."""

    REFUSE = "refuse"
    UNPADDED = "unpadded"


class BucketsConfig(Section):
    """Sizes to which a free axis is padded, so that requests of several sizes share a batch."""

    sizes: tuple[Count, ...] = Field(min_length=1, max_length=64)
    """Ascending. A request is padded to the first that it fits in."""
    inputs: dict[str, Count] = Field(min_length=1)
    """The axis of each input that has this size, the batch's being 0. Inputs that are named
    together are as long as each other in every request, as tokens and their mask are."""
    outputs: dict[str, Count] = Field(default_factory=dict)
    """The axis of each output that grows with it: what padding brought is cut off. An output that
    is a whole part or a whole multiple as long is cut likewise."""
    pad: dict[str, float] = Field(default_factory=dict)
    """What an input is padded with, where that is not 0; texts are padded with empty ones."""
    larger: Larger = Larger.REFUSE
    """A request that is larger than the largest size: `refuse` answers it with an error, `unpadded`
    runs it as it is, with none but its equals."""


class RaggedConfig(Section):
    """Inputs whose requests are laid end to end, with no padding between.

    A client sends (rows, size, ...) and no lengths; the model is handed (all sizes together, ...)
    and the size of each row. Each of its outputs has one entry a row.
    """

    inputs: tuple[str, ...] = Field(min_length=1)
    """They are as long as each other in every request."""
    lengths: str = Field(min_length=1)
    """The input, INT32 or INT64 of shape [-1], that is given the size of each row."""


class BatchConfig(Section):
    """How requests of one model are put together."""

    rows_max: int = Field(default=8, ge=1, le=65536, strict=True)
    """Rows of one batch; `oversize` says what becomes of a request with more. A model without
    a batch axis runs one request at a time; it is not loaded where more than 1 is asked for."""
    linger: Duration = 0
    """Longest wait for a fuller batch. 0 takes whatever waits when a slot becomes free."""
    oversize: Oversize = Oversize.REFUSE
    """A request with more rows than `rows_max`: `refuse` answers it with an error, `split` runs its
    rows in several batches and answers it whole. `split` says that no row of the model's output
    depends on another row of the input; a policy may then also run a smaller request in parts, so
    that urgent work need not wait for all of it."""
    segments_max: Count = 8
    """Parts that a policy may run a request in that would fit in one batch, where `oversize` is
    `split`. One that would not fit runs in as many as it needs."""
    buckets: tuple[BucketsConfig, ...] = Field(default=(), max_length=8)
    """Free axes other than the batch's, and the sizes that they are padded to. Only for models
    whose answer does not depend on padding, because a mask or a length says what is none."""
    ragged: RaggedConfig | None = None
    """For a model that takes requests of several lengths in one run."""

    @property
    def is_asked_for(self) -> bool:
        """Something was set that has an effect only where several requests share a batch."""
        is_sized = "rows_max" in self.model_fields_set and self.rows_max > 1
        is_shaped = bool(self.buckets) or self.ragged is not None
        return is_sized or is_shaped or self.linger > 0 or self.oversize is Oversize.SPLIT
