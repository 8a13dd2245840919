"""`clockwork`: one batch at a time, the latest start first; what would be late is given up.

Follows Clockwork (Gujarati et al., OSDI 2020), whose idea is that inference takes the same time
again and again as long as nothing runs beside it, so that a controller can plan to the millisecond:

- an execution has the device to itself; here it has a lane to itself where slots share lanes, as on
  cores, and otherwise the device. `at_once` says it by number;
- it is expected to take as long as the slowest of the last ten of its model and size: the predictor
  `max10`, which this policy has unless another is configured;
- the request that has to start soonest goes first, and its batch is the largest of a few sizes
  that still ends before its deadline;
- what cannot end in time even alone is given up at once, for time spent on it would be lost.

It differs: Clockwork plans some milliseconds ahead, sends actions to its workers early, and loads
and unloads models as it goes. Here the next batch is chosen when a slot frees, and models stay
loaded. Places in the order are kept from the arrival on, with the usual service of that time,
where Clockwork recomputes them.
"""

from collections.abc import Iterator, Sequence

from headway.core import (
    BucketView,
    FleetView,
    GiveUp,
    Hold,
    ModelParams,
    Placing,
    Policy,
    Predictor,
    Request,
    SlotOption,
    Start,
)
from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.candidate import candidate
from headway.policy.hopeless import Hopeless
from headway.policy.running import OneAtATime
from headway.policy.slack import latest_start_at_ns

__all__ = ["LargestInTime", "LatestStart", "clockwork"]


class LatestStart:
    """Whoever has to start soonest."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def key(self, request: Request) -> tuple[int, ...]:
        """The deadline less the usual service; the kernel breaks ties by arrival."""
        return (latest_start_at_ns(request, self._predictor),)


class LargestInTime:
    """A slot without neighbours, for the largest batch that its head can bear."""

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
        """Give up what would be late, wait while all is busy, else start what is in time."""
        (head,) = bucket.front(1)
        option = self._slots.pick(options, fleet)
        if option is None:
            return Hold()
        alone_ns = self._service_ns(bucket, model, option, bucket.head_rows_left, now_ns)
        if self._hopeless.gives_up(head, alone_ns, now_ns):
            return GiveUp()
        left_ns = head.deadline_at_ns - now_ns
        for rows in _sizes(bucket, model):
            if self._service_ns(bucket, model, option, rows, now_ns) <= left_ns:
                return Start(option, rows)
        return Start(option, min(bucket.head_rows_left, model.batch_rows_max))

    def _service_ns(
        self,
        bucket: BucketView,
        model: ModelParams,
        option: SlotOption,
        rows: int,
        now_ns: int,
    ) -> int:
        run = candidate(bucket, model, option, rows)
        return self._predictor.beside(run, run.device, now_ns)[0].mean_ns


def _sizes(bucket: BucketView, model: ModelParams) -> Iterator[int]:
    """Sizes beyond the head's own to try, the largest first: all that waits, then powers of two."""
    rows_max = model.batch_rows_max if model.can_batch else 1
    rows = min(bucket.rows, rows_max)
    while rows > bucket.head_rows_left:
        yield rows
        rows = 1 << ((rows - 1).bit_length() - 1)


def clockwork(predictor: Predictor, *, at_once: int = 0) -> Policy:
    """One batch at a time, latest start first, batches as large as the head can bear."""
    hopeless = Hopeless()
    return Policy(
        name="clockwork",
        ordering=LatestStart(predictor),
        admission=AdmitAll(),
        batching=Linger(predictor),
        placement=LargestInTime(predictor, hopeless, at_once),
        predictor=predictor,
        feedback=hopeless,
    )
