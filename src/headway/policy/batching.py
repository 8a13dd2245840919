"""When a batch starts and how large it may be."""

from headway.core import BucketView, ModelParams, Predictor

__all__ = ["Linger"]


class Linger:
    """Start when full, or when the oldest has lingered, but never past the latest safe start.

    With no linger whatever waits when a slot frees is one batch, up to the largest. The latest
    safe start is the tightest deadline less the predicted service time of a full batch: waiting
    for company must not itself cause a miss.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def due_at_ns(self, bucket: BucketView, model: ModelParams, now_ns: int) -> int:
        """The earlier of oldest arrival + linger and the latest safe start; 0 when full."""
        is_full = bucket.rows >= model.batch_rows_max or not model.can_batch
        if model.linger_ns == 0 or is_full:
            return 0
        service_ns = self._predictor.service_ns(model.name, model.batch_rows_max)
        return min(
            bucket.oldest_arrived_at_ns + model.linger_ns,
            bucket.tightest_deadline_at_ns - service_ns,
        )

    def rows_max(self, bucket: BucketView, model: ModelParams) -> int:
        """Whatever the model can take; a single row where it has no batch axis."""
        return model.batch_rows_max if model.can_batch else 1
