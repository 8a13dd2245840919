"""The door: whether a request that arrives is let in, and who would have to go for it.

Hard limits first, then the policy's admission, which is shown what is foreseen. Judges and changes
nothing, so that the same answer can be had of a request that is only considered.
"""

from typing import NamedTuple

from headway.core.fleet import Fleet
from headway.core.forecast import Forecast
from headway.core.lifecycle import Lifecycle
from headway.core.params import KernelParams
from headway.core.ports import LoadView, Policy
from headway.core.request import RejectReason, Request
from headway.core.room import FULL, WaitingRoom
from headway.core.waiting import Entry, ModelQueue

__all__ = ["Door", "Verdict"]


class Verdict(NamedTuple):
    """Yes, with those who make place for it; or no, with the reason."""

    reason: RejectReason | None = None
    """None lets it in."""
    retry_after_ns: int = 0
    victims: tuple[Entry, ...] = ()


_YES = Verdict()


class Answer(NamedTuple):
    """A policy's word."""

    reason: RejectReason | None
    """None lets it in."""
    retry_after_ns: int


_LET_IN = Answer(None, 0)


class Door:
    """Judges arrivals of one engine."""

    __slots__ = ("_fleet", "_lifecycle", "_params", "_policy", "_room", "is_draining")

    def __init__(
        self,
        params: KernelParams,
        policy: Policy,
        room: WaitingRoom,
        fleet: Fleet,
        lifecycle: Lifecycle,
    ) -> None:
        self._params = params
        self._policy = policy
        self._room = room
        self._fleet = fleet
        self._lifecycle = lifecycle
        self.is_draining = False

    def judge(self, request: Request, now_ns: int) -> Verdict:
        """Whether the limits let in a request that arrives now."""
        queue = self._room.queues.get(request.model)
        reason = self._refusal(request, queue, now_ns)
        if queue is None:
            return Verdict(reason)
        victims: list[Entry] = []
        if reason in FULL and self._policy.displaces:
            victims = self._room.victims(request, queue)
        if reason is not None and not victims:
            return Verdict(reason, self.retry_after_ns(queue))
        return Verdict(victims=tuple(victims)) if victims else _YES

    def ask_policy(self, request: Request, foreseen: Forecast, now_ns: int) -> Answer:
        """What the policy says of a request that the limits would let in."""
        queue = self._room.queues[request.model]
        load = LoadView(queue.count, queue.rows, self._fleet.slots, self._fleet.free_slots)
        refusal = self._policy.admission.refuse(request, foreseen, load, now_ns)
        if refusal is None:
            return _LET_IN
        params = self._params
        least_ns, most_ns = params.retry_after_ns_min, params.retry_after_ns_max
        return Answer(
            RejectReason.PREDICTED_LATE, max(least_ns, min(most_ns, refusal.retry_after_ns))
        )

    def retry_after_ns(self, queue: ModelQueue) -> int:
        """Predicted time until what waits now is done, within the configured range."""
        params = queue.params
        rows_max = params.batch_rows_max if params.can_batch else 1
        each_ns = self._policy.predictor.service_ns(params.name, rows_max)
        wait_ns = -(-queue.rows * each_ns // (rows_max * self._fleet.slots))
        return max(self._params.retry_after_ns_min, min(self._params.retry_after_ns_max, wait_ns))

    def _refusal(
        self, request: Request, queue: ModelQueue | None, now_ns: int
    ) -> RejectReason | None:
        """The hard limits, cheapest and most telling first."""
        if self.is_draining:
            return RejectReason.DRAINING
        if queue is None or not self._lifecycle.takes(request.model, request.version):
            return RejectReason.MODEL_NOT_FOUND
        if request.expires_at_ns <= now_ns:
            return RejectReason.DEADLINE_PAST
        if not self._lifecycle.has_hope(request.model):
            return RejectReason.MODEL_UNAVAILABLE
        return self._room.refusal(request, queue)
