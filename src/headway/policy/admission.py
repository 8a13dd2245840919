"""Admission rules beyond the kernel's hard limits."""

from headway.core import Forecast, LoadView, Refusal, Request

__all__ = ["AdmitAll"]


class AdmitAll:
    """Whatever the queues have room for is admitted."""

    def refuse(
        self, request: Request, foreseen: Forecast, load: LoadView, now_ns: int
    ) -> Refusal | None:
        """Never refuses."""
        return None
