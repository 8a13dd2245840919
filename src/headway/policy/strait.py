"""`strait`: two classes by slack; low work starts where prediction says that it breaks no deadline.

Follows the published idea of slack order on latencies that are predicted with both transfers and
interference, and of promotion of the starved: the last step of a comparison whose first ones are
`fifo`, `priority` and `pcie`. The predictor is `windowed-pcie` unless another is configured.

- The classes are those of slots, whatever the priorities. In each the least slack goes first,
  which is the deadline less the usual service among today's neighbours.
- High work starts on the emptiest lane. Low work starts on the emptiest lane of the first device
  where its own forecast, with the high work that waits added, is in time, and so is that of every
  high batch that runs there; else it is held until something changes.
- Low work that has waited for half of its budget joins the high class: it is ordered by its slack
  among them, and starts without being asked what it breaks.

It differs in that nothing is dropped here but what the kernel drops under every policy, and that
slack is reckoned once, when a request arrives.
"""

from collections.abc import Sequence

from headway.core import (
    BatchView,
    BucketView,
    FleetView,
    Forecast,
    Hold,
    ModelParams,
    Placing,
    Policy,
    Predictor,
    Request,
    RequestId,
    SlotClass,
    SlotOption,
    Start,
)
from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.candidate import candidate
from headway.policy.running import by_device, emptiest_of
from headway.policy.slack import latest_start_at_ns

__all__ = ["ClassThenSlack", "HalfOfBudget", "HighBacklog", "WithoutHarm", "strait"]


class ClassThenSlack:
    """High before low, the least slack first in each."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def key(self, request: Request) -> tuple[int, ...]:
        """The class, then the instant at which slack ends; the kernel breaks ties by arrival."""
        return (int(request.slot_class is SlotClass.LOW), self.slack_ends_at_ns(request))

    def slack_ends_at_ns(self, request: Request) -> int:
        """The latest start, by the usual service."""
        return latest_start_at_ns(request, self._predictor)


class HalfOfBudget:
    """Low work joins the high class once it has waited for half of its budget."""

    def __init__(self, ordering: ClassThenSlack) -> None:
        self._ordering = ordering

    def promotes_at_ns(self, request: Request) -> int | None:
        """Never, for high work."""
        if request.slot_class is SlotClass.HIGH:
            return None
        return request.arrived_at_ns + request.budget_ns // 2

    def promoted_key(self, request: Request) -> tuple[int, ...]:
        """Among the high, by slack."""
        return (0, self._ordering.slack_ends_at_ns(request))


class HighBacklog:
    """How long the high work that waits will take, each piece by its usual service at arrival.

    Invariants: it holds the high requests that were admitted and have neither started nor ended.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._waiting_ns: dict[RequestId, int] = {}
        self.total_ns = 0

    def admitted(self, request: Request, now_ns: int) -> None:
        """One more waits."""
        if request.slot_class is SlotClass.HIGH:
            service_ns = self._predictor.service_ns(request.model, request.rows)
            self._waiting_ns[request.request_id] = service_ns
            self.total_ns += service_ns

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """It waits no longer; of a request that runs in segments the first start counts."""
        self._forget(request)

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Of no consequence."""

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """It may have ended while it waited."""
        self._forget(request)

    def _forget(self, request: Request) -> None:
        self.total_ns -= self._waiting_ns.pop(request.request_id, 0)


class WithoutHarm:
    """High and promoted work on the emptiest lane; low work where no deadline is broken."""

    def __init__(
        self, predictor: Predictor, batching: Linger, aging: HalfOfBudget, backlog: HighBacklog
    ) -> None:
        self._predictor = predictor
        self._batching = batching
        self._aging = aging
        self._backlog = backlog

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """Start high work; start low work where it harms nobody, else wait for a change."""
        (head,) = bucket.front(1)
        promotes_at_ns = self._aging.promotes_at_ns(head)
        if promotes_at_ns is None or promotes_at_ns <= now_ns:
            return Start(emptiest_of(options))
        for _, group in by_device(options):
            option = emptiest_of(group)
            if self._is_harmless(bucket, model, option, fleet, now_ns):
                return Start(option)
        return Hold()

    def _is_harmless(
        self,
        bucket: BucketView,
        model: ModelParams,
        option: SlotOption,
        fleet: FleetView,
        now_ns: int,
    ) -> bool:
        (head,) = bucket.front(1)
        run = candidate(bucket, model, option, self._batching.rows_max(bucket, model))
        own, *others = self._predictor.beside(run, run.device, now_ns)
        high_ns = self._backlog.total_ns // fleet.slots
        if now_ns + own.mean_ns + high_ns > head.deadline_at_ns:
            return False
        high = [b for b in fleet.device(option.device).running() if b.slot_class is SlotClass.HIGH]
        return not _breaks_any(high, others, now_ns)


def _breaks_any(high: Sequence[BatchView], forecasts: Sequence[Forecast], now_ns: int) -> bool:
    """Whether a batch that could be in time is not; one that is late already has no say."""
    left_ns = {forecast.batch_id: forecast.mean_ns for forecast in forecasts}
    return any(
        now_ns <= batch.deadline_at_ns < now_ns + left_ns.get(batch.batch_id, 0) for batch in high
    )


def strait(predictor: Predictor) -> Policy:
    """Two classes by predicted slack; low work where it breaks nothing; the starved promoted."""
    ordering = ClassThenSlack(predictor)
    aging = HalfOfBudget(ordering)
    backlog = HighBacklog(predictor)
    batching = Linger(predictor)
    return Policy(
        name="strait",
        ordering=ordering,
        admission=AdmitAll(),
        batching=batching,
        placement=WithoutHarm(predictor, batching, aging, backlog),
        predictor=predictor,
        aging=aging,
        feedback=backlog,
    )
