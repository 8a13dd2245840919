"""The instant at which a request has no slack left.

Knows the usual service. Refuses to know what waits or runs.
"""

from headway.core import Predictor, Request

__all__ = ["latest_start_at_ns"]


def latest_start_at_ns(request: Request, predictor: Predictor) -> int:
    """The deadline less the usual service among today's neighbours; the deadline while unknown."""
    return request.deadline_at_ns - predictor.service_ns(request.model, request.rows)
