"""The batch that a bucket would start now, as predictors are shown it.

Knows buckets and free slots. Decides nothing.
"""

from headway.core import BucketView, ModelParams, Run, SlotClass, SlotOption

__all__ = ["candidate"]


def candidate(bucket: BucketView, model: ModelParams, option: SlotOption, rows_max: int) -> Run:
    """The batch of the bucket's head and of those behind it that fit."""
    head, *others = bucket.front(min(bucket.count, rows_max))
    rows = min(bucket.head_rows_left, rows_max) if model.can_split else head.rows
    payload_bytes = head.payload_bytes * rows // head.rows
    slot_class = head.slot_class
    priority = head.priority
    for request in others:
        if rows + request.rows > rows_max:
            break
        rows += request.rows
        payload_bytes += request.payload_bytes
        priority = min(priority, request.priority)
        if request.slot_class is SlotClass.HIGH:
            slot_class = SlotClass.HIGH
    return Run(
        model=head.model,
        bucket=head.bucket,
        rows=rows,
        payload_bytes=payload_bytes,
        device=option.device,
        slot=option.slot,
        lane=option.lane,
        slot_class=slot_class,
        priority=priority,
    )
