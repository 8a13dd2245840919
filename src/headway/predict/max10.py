"""`max10`: an execution takes as long as the slowest of the last ten of its kind.

Knows past executions of the same model, shapes and rows. Refuses to know neighbours.
"""

from headway.core import Run
from headway.predict.recent import Key, Recent
from headway.predict.scene import Ended, Scene

__all__ = ["Max10Model"]

_WINDOW = 10


class Max10Model:
    """T = max(T_1 ... T_10), in nanoseconds, over the last ten of a (model, bucket, rows).

    It follows Clockwork (OSDI 2020), whose controller plans with the measurements of a sliding
    window for each model and batch size. Clockwork runs one execution at a time on a device, where
    this is tight; here it also takes in what neighbours did. Before the first of a kind the solo
    time stands in, as Clockwork's seed profile does.

    Cost: O(1), ten values a kind, at most 4,096 kinds.
    """

    name = "max10"

    def __init__(self) -> None:
        self._recent = Recent(_WINDOW)

    def execution_ns(self, scene: Scene) -> float:
        """The slowest of the last ten; the solo time before the first."""
        return max(self._recent.of(_kind(scene.run)), default=scene.base_ns)

    def learn(self, ended: Ended) -> None:
        """The oldest of eleven is forgotten."""
        self._recent.add(_kind(ended.scene.run), ended.execution_ns)

    def state(self) -> dict[str, object]:
        """The last ten of each kind."""
        return {"recent": self._recent.state()}

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave."""
        self._recent.restore(state.get("recent"))


def _kind(run: Run) -> Key:
    return (run.model, run.bucket, run.rows)
