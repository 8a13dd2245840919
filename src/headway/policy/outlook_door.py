"""The door of `headway`: no at once to who would be given up later.

Knows the outlook. Refuses to know lanes.
"""

from headway.core import Forecast, LoadView, Refusal, Request
from headway.policy.outlook import Outlook

__all__ = ["OutlookDoor"]


class OutlookDoor:
    """Refuses what the schedule of all that waits would give up for others' sake.

    What would rather be late than not served (its tier says `late: serve`) is let in.

    Args:
        outlook: of what waits.
        refuses: False lets everyone in.
    """

    def __init__(self, outlook: Outlook, *, refuses: bool) -> None:
        self._outlook = outlook
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
        return None
