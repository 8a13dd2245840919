"""How requests end: each end is a move in the books, a word to the policy, and a command.

Knows the books and the policy's `Feedback`. Never decides that something ends.
"""

from headway.core.commands import Cancel, Command, Complete, Expire, Fail, Reject
from headway.core.fleet import Batch
from headway.core.ledger import Ledger
from headway.core.ports import Feedback
from headway.core.request import ExpireReason, RejectReason, Request, RequestStep
from headway.core.waiting import Entry

__all__ = ["Endings"]


class Endings:
    """Ends requests, each once.

    Invariants: whoever was admitted is told of to `Feedback.ended` once, with its end.
    """

    __slots__ = ("_feedback", "ledger")

    def __init__(self, ledger: Ledger, feedback: Feedback | None) -> None:
        self.ledger = ledger
        self._feedback = feedback

    def refuse(
        self,
        request: Request,
        reason: RejectReason,
        retry_after_ns: int,
        now_ns: int,
        out: list[Command],
    ) -> None:
        """The request that arrived last is not let in."""
        self.ledger.refuse()
        self._tell(request, False, now_ns)
        out.append(_reject(request, reason, retry_after_ns))

    def displace(self, entry: Entry, retry_after_ns: int, now_ns: int, out: list[Command]) -> None:
        """A waiting request is refused after all, for the sake of a more important one."""
        self.ledger.end(entry, RequestStep.DISPLACE)
        self._tell(entry.request, False, now_ns)
        out.append(_reject(entry.request, RejectReason.DISPLACED, retry_after_ns))

    def expire(self, entry: Entry, reason: ExpireReason, now_ns: int, out: list[Command]) -> None:
        """Its time is up, or it is given up; the caller settles what that leaves behind."""
        request = entry.request
        stage = self.ledger.end(entry, RequestStep.EXPIRE)
        self._tell(request, False, now_ns)
        out.append(
            Expire(
                request_id=request.request_id, stage=stage, reason=reason, foreseen=entry.foreseen
            )
        )

    def cancel(self, entry: Entry, now_ns: int, out: list[Command]) -> None:
        """Its client is gone."""
        request = entry.request
        stage = self.ledger.end(entry, RequestStep.CANCEL)
        self._tell(request, False, now_ns)
        out.append(Cancel(request_id=request.request_id, stage=stage))

    def fail(self, entry: Entry, code: str, message: str, now_ns: int, out: list[Command]) -> None:
        """What it needed broke."""
        request = entry.request
        stage = self.ledger.end(entry, RequestStep.FAIL)
        self._tell(request, False, now_ns)
        out.append(Fail(request_id=request.request_id, stage=stage, code=code, message=message))

    def complete(self, entry: Entry, batch: Batch, now_ns: int, out: list[Command]) -> None:
        """It is answered."""
        request = entry.request
        self.ledger.end(entry, RequestStep.COMPLETE)
        self._tell(request, now_ns <= entry.deadline_at_ns, now_ns)
        out.append(
            Complete(
                request_id=request.request_id,
                batch_id=batch.batch_id,
                batch_rows=batch.rows,
                queue_delay_ns=entry.started_at_ns - request.arrived_at_ns,
                service_ns=entry.service_ns,
                foreseen=entry.foreseen,
            )
        )

    def _tell(self, request: Request, is_met: bool, now_ns: int) -> None:
        if self._feedback is not None:
            self._feedback.ended(request, is_met, now_ns)


def _reject(request: Request, reason: RejectReason, retry_after_ns: int) -> Reject:
    return Reject(request_id=request.request_id, reason=reason, retry_after_ns=retry_after_ns)
