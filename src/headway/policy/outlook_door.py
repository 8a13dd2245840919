"""The door of `headway`: no at once to who would be given up later.

Knows the outlook. Refuses to know lanes.
"""

from headway.core import Forecast, LoadView, Refusal, Request
from headway.policy.outlook import Outlook
from headway.policy.urgency import Promotion

__all__ = ["OutlookDoor"]


class OutlookDoor:
    """Refuses what the schedule of all that waits would give up for others' sake.

    And what others' turns would keep waiting for too long, where its tenant sends more than its
    share: to let it in and give it up later would only have made its tenant's next ones wait too.

    What would rather be late than not served (its tier says `late: serve`) is let in.

    Args:
        outlook: of what waits.
        promotion: until when it may wait.
        refuses: False lets everyone in.
    """

    def __init__(self, outlook: Outlook, promotion: Promotion, *, refuses: bool) -> None:
        self._outlook = outlook
        self._promotion = promotion
        self._refuses = refuses

    def refuse(
        self, request: Request, foreseen: Forecast, load: LoadView, now_ns: int
    ) -> Refusal | None:
        """No to a request that would be late, or would make others late that are worth more."""
        if not self._refuses or request.late_ns > 0 or load.free_slots == load.slots:
            return None
        work_ns = self._outlook.waiting.work_ns(request)
        is_hopeless = work_ns > 0.0 and now_ns + work_ns > request.deadline_at_ns
        if is_hopeless or self._outlook.would_be_lost(request, now_ns):
            return Refusal(self._outlook.backlog_ns(request))
        turn_ns = self._outlook.turn_ns(request, now_ns)
        bound_at_ns = self._promotion.promotes_at_ns(request) or request.deadline_at_ns
        if turn_ns > 0 and now_ns + turn_ns + work_ns > bound_at_ns:
            return Refusal(turn_ns)
        return None
