"""`nexus`: early drop. Heads that would spoil a batch are given up, so that batches stay large.

Follows Nexus (Shen et al., SOSP 2019). Under overload the oldest request has little time left; a
batch small enough for it is inefficient, so the next ones have less time still, and throughput
collapses. Nexus slides a window of the batch size it aims at over the queue, in order of arrival,
and drops the requests at the front until the whole window would end before the deadline of its
first:

- the size it aims at is the largest whose time, twice over, fits the budget: a request may just
  have missed a batch, waits for that one, and runs in the next. Where fewer rows wait, the window
  is what waits;
- times are fixed and those of a batch alone: the predictor `fixed`, which this policy has unless
  another is configured;
- one batch at a time has the device to itself; here it has a lane to itself where slots share
  lanes, as on cores, and otherwise the device. `at_once` says it by number.

It differs: Nexus packs models onto devices by their rates and serves those of a device in turn, a
fixed cycle. Here models stay where they are configured, and those of a device are served in order
of arrival.
"""

from collections.abc import Sequence

from headway.core import (
    BucketView,
    FleetView,
    GiveUp,
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
from headway.policy.fifo import ArrivalOrder
from headway.policy.hopeless import Hopeless
from headway.policy.running import OneAtATime

__all__ = ["SlidingWindow", "nexus"]


class SlidingWindow:
    """A slot without neighbours, for a window of requests that its first can bear."""

    def __init__(self, predictor: Predictor, hopeless: Hopeless, at_once: int) -> None:
        self._predictor = predictor
        self._hopeless = hopeless
        self._slots = OneAtATime(at_once)

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """Drop a head that the window would make late, wait while all is busy, else start it."""
        (head,) = bucket.front(1)
        rows = self._window_rows(bucket, model, head.budget_ns)
        if self._hopeless.gives_up(head, self._predictor.solo_ns(model.name, rows), now_ns):
            return GiveUp()
        option = self._slots.pick(options, fleet)
        return Hold() if option is None else Start(option, rows)

    def _window_rows(self, bucket: BucketView, model: ModelParams, budget_ns: int) -> int:
        """Rows of the head and of those behind it that fit into the size aimed at."""
        target = self._target_rows(model, budget_ns)
        head, *others = bucket.front(min(bucket.count, target))
        rows = min(bucket.head_rows_left, model.batch_rows_max) if model.can_batch else head.rows
        for request in others:
            if rows + request.rows > target:
                break
            rows += request.rows
        return rows

    def _target_rows(self, model: ModelParams, budget_ns: int) -> int:
        """The largest batch of which two in a row fit a budget; at least one row."""
        if not model.can_batch:
            return 1
        low, high = 1, model.batch_rows_max
        while low < high:
            middle = (low + high + 1) // 2
            if 2 * self._predictor.solo_ns(model.name, middle) <= budget_ns:
                low = middle
            else:
                high = middle - 1
        return low


def nexus(predictor: Predictor, *, at_once: int = 0) -> Policy:
    """Arrival order, one batch at a time, heads that would spoil a batch given up."""
    hopeless = Hopeless()
    return Policy(
        name="nexus",
        ordering=ArrivalOrder(),
        admission=AdmitAll(),
        batching=Linger(predictor),
        placement=SlidingWindow(predictor, hopeless, at_once),
        predictor=predictor,
        feedback=hopeless,
        displaces=False,
    )
