"""How many rows a batch should have: as many as meet most deadlines a device time, or a segment.

Knows what batches take alone, by rows. Refuses to know who runs.
"""

from typing import Final

from headway.core import BucketView, ModelParams, Predictor, Request, SlotClass
from headway.policy.waiting_list import WaitingList

__all__ = ["Sizes"]

_GAIN_MIN: Final = 1.03
"""Rows per time of a larger batch over those of a smaller one, from which it is worth it."""
_ARRIVALS_MIN: Final = 0.05
"""High requests expected while a low one runs, below which splitting it is useless."""
_DOUBLE_MAX: Final = 1.6
"""Time of a batch of twice as many rows over its own, up to which waiting for them is worth it."""
_LOW_TIMES_MAX: Final = 1.75
"""Time alone of a low batch over that of its head, where all slots share the device: urgent work
that comes meanwhile lies beside all of it, and large batches leave it least."""
_ROWS_LOOKED_AT: Final = 64


class Sizes:
    """Rows of the next batch of a bucket.

    Args:
        predictor: says what a batch takes alone.
        waiting: knows how fast high work arrives.
        segment_ns: length of a segment that is aimed at; 0 never splits.
    """

    def __init__(self, predictor: Predictor, waiting: WaitingList, segment_ns: int) -> None:
        self._predictor = predictor
        self._waiting = waiting
        self._segment_ns = segment_ns

    def rows(self, bucket: BucketView, model: ModelParams, head: Request, now_ns: int) -> int:
        """Of a batch that need not be cut short.

        The size with most rows a time alone, of those whose end the head's deadline allows;
        doubling sizes are tried. Where batching gains nothing that is the head alone: whoever
        would ride with it would only make it later.
        """
        least = min(bucket.head_rows_left, model.batch_rows_max) if model.can_split else head.rows
        most = min(bucket.rows, model.batch_rows_max, _ROWS_LOOKED_AT)
        if not model.can_batch or most <= least:
            return least
        best, best_ns = least, self._predictor.solo_ns(head.model, least)
        left_ns = head.deadline_at_ns - now_ns
        size = least
        while size < most:
            size = min(2 * size, most)
            size_ns = self._predictor.solo_ns(head.model, size)
            if size_ns > left_ns or best_ns <= 0:
                break
            if size * best_ns > _GAIN_MIN * best * size_ns:
                best, best_ns = size, size_ns
        return best

    def shared_rows(
        self, bucket: BucketView, model: ModelParams, head: Request, now_ns: int
    ) -> int:
        """Of a low batch on a device that all slots share: not much longer than its head alone."""
        rows = self.rows(bucket, model, head, now_ns)
        longest_ns = _LOW_TIMES_MAX * self._predictor.solo_ns(head.model, head.rows)
        while rows > head.rows and self._predictor.solo_ns(head.model, rows) > longest_ns:
            rows = max(head.rows, rows // 2)
        return rows

    def gains_by_more(self, model: ModelParams, rows: int) -> bool:
        """Whether twice as many rows are allowed, and take far less than twice as long."""
        if not model.can_batch or 2 * rows > model.batch_rows_max:
            return False
        own_ns = self._predictor.solo_ns(model.name, rows)
        double_ns = self._predictor.solo_ns(model.name, 2 * rows)
        return own_ns > 0 and double_ns < _DOUBLE_MAX * own_ns

    def segment_rows(
        self, bucket: BucketView, model: ModelParams, head: Request, times: int, now_ns: int
    ) -> int:
        """Of a low batch that urgent work may have to wait for.

        All that is left of the head where it is short, or no high work is expected meanwhile.

        Args:
            bucket: of the head.
            model: of the head.
            head: the request.
            times: a segment is so many times as long as configured.
            now_ns: when.
        """
        segment_ns = times * self._segment_ns
        rows_left = min(bucket.head_rows_left, model.batch_rows_max)
        if segment_ns <= 0 or not model.can_split or rows_left <= 1:
            return self.rows(bucket, model, head, now_ns)
        whole_ns = self._predictor.solo_ns(head.model, rows_left)
        if whole_ns <= segment_ns:
            return rows_left
        streams = self._waiting.streams(SlotClass.HIGH)
        if sum([stream.rate(now_ns) for stream in streams]) * whole_ns < _ARRIVALS_MIN:
            return rows_left
        least = -(-head.rows // model.segments_max)
        return max(1, min(rows_left, max(least, rows_left * segment_ns // whole_ns)))
