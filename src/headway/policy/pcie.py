"""`pcie`: strict priority by slack, and low inputs wait while high ones are on the link.

The middle step of the published comparison of schedulers that know the link: fixed priority, then
priority with a model of transfers, then with one of interference as well (here `strait`). Inside a
priority the request with the least slack goes first, which is its deadline less the usual service.
And two copies to one device at once halve one another, so a low batch is held while the inputs of
a high one are being copied to its device; transfer times are the predictor's.

What is in flight is known from the starts: a high batch copies from its start for as long as its
transfers were expected to take, both directions counted as one at its front. High work that waits
needs no rule, for it is asked before low work and starts where there is a slot. Where copies take
no time, as on cores, nothing is held, and this is `priority` by slack.
"""

from collections.abc import Sequence

from headway.core import (
    BucketView,
    DeviceName,
    FleetView,
    Hold,
    ModelParams,
    Placing,
    Policy,
    Predictor,
    Request,
    SlotClass,
    SlotOption,
    Start,
)
from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.candidate import candidate
from headway.policy.running import emptiest_of
from headway.policy.slack import latest_start_at_ns

__all__ = ["LinkAware", "PriorityThenSlack", "pcie"]


class PriorityThenSlack:
    """The smaller number first, and the least slack first among equals."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def key(self, request: Request) -> tuple[int, ...]:
        """Slack shrinks for all alike as time goes by, so the instant at which it ends will do."""
        return (request.priority, latest_start_at_ns(request, self._predictor))


class LinkAware:
    """The emptiest lane, but for low inputs not on a device that high ones are copied to.

    Invariants: one instant a device is kept; a low batch is held until that instant at most, unless
    another high one starts.
    """

    def __init__(self, predictor: Predictor, batching: Linger) -> None:
        self._predictor = predictor
        self._batching = batching
        self._copied_at_ns: dict[DeviceName, int] = {}
        """When the inputs of the high batches that started so far will be on the device."""

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """High work starts and is remembered; low work may have to wait for its copies."""
        (head,) = bucket.front(1)
        if head.slot_class is SlotClass.LOW:
            return self._place_low(bucket, model, options, now_ns)
        best = emptiest_of(options)
        copied_at_ns = now_ns + self._transfer_ns(bucket, model, best, now_ns)
        before_ns = self._copied_at_ns.get(best.device, 0)
        self._copied_at_ns[best.device] = max(before_ns, copied_at_ns)
        return Start(best)

    def _place_low(
        self, bucket: BucketView, model: ModelParams, options: Sequence[SlotOption], now_ns: int
    ) -> Placing:
        quiet = [o for o in options if self._copied_at_ns.get(o.device, 0) <= now_ns]
        best = emptiest_of(quiet or options)
        if quiet or self._transfer_ns(bucket, model, best, now_ns) == 0:
            return Start(best)
        return Hold(min(self._copied_at_ns[option.device] for option in options))

    def _transfer_ns(
        self, bucket: BucketView, model: ModelParams, option: SlotOption, now_ns: int
    ) -> int:
        rows_max = self._batching.rows_max(bucket, model)
        run = candidate(bucket, model, option, rows_max)
        return self._predictor.beside(run, run.device, now_ns)[0].transfer_ns


def pcie(predictor: Predictor) -> Policy:
    """Strict priority, least slack first inside one; low copies wait for high ones."""
    batching = Linger(predictor)
    return Policy(
        name="pcie",
        ordering=PriorityThenSlack(predictor),
        admission=AdmitAll(),
        batching=batching,
        placement=LinkAware(predictor, batching),
        predictor=predictor,
    )
