"""A predictor that says what a test wants to hear, for what is made of predictions elsewhere."""

from headway.core import UNKNOWN, Forecast, QueueView, Request, Run
from headway.testing import MeanPredictor


def a_forecast(mean_ns: int, bound_ns: int | None = None, queue_ns: int = 0) -> Forecast:
    """A prediction whose parts add up: so much of it is queue, the rest is the model alone."""
    return Forecast(
        mean_ns=mean_ns,
        bound_ns=2 * mean_ns if bound_ns is None else bound_ns,
        queue_ns=queue_ns,
        base_ns=mean_ns - queue_ns,
    )


class ScriptedPredictor(MeanPredictor):
    """Takes each request for `each_ns`, one after the other; silent while that is 0."""

    def __init__(self, each_ns: int = 0) -> None:
        super().__init__()
        self.each_ns = each_ns

    def foresee(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """Those before it, then itself."""
        if not self.each_ns:
            return UNKNOWN
        queue_ns = queue.count * self.each_ns
        return a_forecast(queue_ns + self.each_ns, queue_ns=queue_ns)

    def started(self, run: Run, queue: QueueView, now_ns: int) -> Forecast:
        """As if it ran alone."""
        super().started(run, queue, now_ns)
        return a_forecast(self.each_ns) if self.each_ns else UNKNOWN
