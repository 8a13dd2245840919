"""`batch3`: three tiers of batching. Urgent work goes at once, normal work lingers, low work idles.

What serving guides advise for mixed traffic: no batching delay for interactive requests, a short
one for the rest, and offline jobs in the gaps. Tiers are ranges of priority:

- up to `high_max`: due at once, in batches of what of its tier waits already;
- between: due when full or after the model's linger, like everything under `priority`;
- from `low_min` on: due at once, but starts only on a device that runs nothing.

Nothing is predicted, and low work starves as long as no device is ever idle. While a low batch runs
others may start beside it; a second low one may not, for then the device is not idle.
"""

from collections.abc import Sequence

from headway.core import (
    BucketView,
    FleetView,
    Hold,
    ModelParams,
    Placing,
    Policy,
    Predictor,
    SlotOption,
    Start,
)
from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.priority import PriorityOrder
from headway.policy.running import emptiest

__all__ = ["IdleForLow", "TieredLinger", "batch3"]


class TieredLinger:
    """As `Linger` for the middle tier; the others do not wait for company."""

    def __init__(self, predictor: Predictor, high_max: int, low_min: int) -> None:
        self._linger = Linger(predictor)
        self._high_max = high_max
        self._low_min = low_min

    def due_at_ns(self, bucket: BucketView, model: ModelParams, now_ns: int) -> int:
        """At once for the first and the last tier; the head says which it is."""
        (head,) = bucket.front(1)
        if self._high_max < head.priority < self._low_min:
            return self._linger.due_at_ns(bucket, model, now_ns)
        return 0

    def rows_max(self, bucket: BucketView, model: ModelParams) -> int:
        """What the model can take; of a high batch, no row of another tier."""
        rows_max = self._linger.rows_max(bucket, model)
        head, *others = bucket.front(min(bucket.count, rows_max))
        if head.priority > self._high_max:
            return rows_max
        rows = head.rows
        for request in others:
            if request.priority > self._high_max:
                break
            rows += request.rows
        return min(rows, rows_max)


class IdleForLow:
    """The emptiest lane; for the lowest tier on a device that runs nothing."""

    def __init__(self, low_min: int) -> None:
        self._low_min = low_min

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """Low work waits until a device is idle; the rest starts."""
        (head,) = bucket.front(1)
        is_low = head.priority >= self._low_min
        best = emptiest(
            option
            for option in options
            if not (is_low and any(fleet.device(option.device).lane_running.values()))
        )
        return Hold() if best is None else Start(best)


def batch3(predictor: Predictor, *, high_max: int = 0, low_min: int = 5) -> Policy:
    """Three tiers by priority: at once, after a linger, only on an idle device."""
    return Policy(
        name="batch3",
        ordering=PriorityOrder(),
        admission=AdmitAll(),
        batching=TieredLinger(predictor, high_max, low_min),
        placement=IdleForLow(low_min),
        predictor=predictor,
    )
