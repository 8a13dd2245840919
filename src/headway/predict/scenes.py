"""Any model of execution times, asked about a device: each batch in turn, as a scene.

Knows what to show a model and how to read its answer for a batch that runs. Refuses to know what
the model makes of it.
"""

from heapq import heapify, heappop, heappush
from math import isfinite

from headway.predict.book import LEFT_MIN_RATIO, Stay
from headway.predict.looks import Look, Moment, Passage, scene_of
from headway.predict.outlook import Piece
from headway.predict.scene import Ended, ExecutionModel, Scene

__all__ = ["SceneExecutions"]

_STRETCH_WEIGHT = 0.05
_STRETCH_MAX = 100.0


class SceneExecutions:
    """Executions as a model of execution times has them.

    A running batch is asked about again, with whoever has joined since, and what has elapsed is
    taken off. A queue is scheduled on the slots that free first, each batch taking its solo time by
    the mean stretch of late.
    """

    def __init__(self, model: ExecutionModel) -> None:
        self._model = model
        self.name = model.name
        self._stretch_ratio = 1.0
        """Execution over solo time, of late."""

    def look(self, moment: Moment) -> list[Look]:
        """The model's word on each, with all the others beside it."""
        device = moment.device
        batches = [*device.running.values()]
        if moment.candidate is not None:
            batches.insert(0, moment.candidate)
        looks = []
        for batch in batches:
            others = [other for other in batches if other is not batch]
            whole_ns = self._ask(scene_of(moment, batch, others))
            left_ns = whole_ns
            if batch is not moment.candidate:
                elapsed_ns = moment.now_ns - batch.started_at_ns
                left_ns = max(whole_ns - elapsed_ns, LEFT_MIN_RATIO * batch.base_ns, 1.0)
            looks.append(Look(left_ns, max(whole_ns / max(batch.base_ns, 1.0), 1.0)))
        return looks

    def passage(self, moment: Moment, last: Piece) -> Passage:
        """Slots that free first take the queue in order."""
        device, candidate = moment.device, moment.candidate
        assert candidate is not None
        running = list(device.running.values())
        looks = self.look(moment._replace(candidate=None))
        frees = [look.execution_ns for look in looks]
        frees += [0.0] * (len(device.slot_lanes) - len(frees))
        ends = list(zip(frees, running, strict=False))
        heapify(frees)
        for piece in moment.backlog.pieces:
            heappush(frees, heappop(frees) + piece.work_ns * self._stretch_ratio)
        # What is not looked at keeps every slot busy for as long.
        beyond_ns = moment.backlog.beyond_ns * self._stretch_ratio / len(frees)
        start_ns = frees[0] + beyond_ns
        others = [batch for end_ns, batch in ends if end_ns > start_ns]
        execution_ns = self._ask(scene_of(moment, candidate, others))
        return Passage(start_ns, max(execution_ns, last.work_ns))

    def learn(self, stay: Stay, execution_ns: int) -> None:
        """The model is shown the end."""
        running = stay.running
        if running.said is None:
            return
        said = running.said
        stretch = min(execution_ns / max(running.base_ns, 1.0), _STRETCH_MAX)
        self._stretch_ratio += _STRETCH_WEIGHT * (stretch - self._stretch_ratio)
        self._model.learn(Ended(said.scene, execution_ns, stay.overlaps, said.execution_ns))

    def state(self) -> dict[str, object]:
        """The model's."""
        return {"model": self._model.state()}

    def restore(self, state: dict[str, object]) -> None:
        """The model's."""
        model = state.get("model")
        if isinstance(model, dict):
            self._model.restore(model)

    def _ask(self, scene: Scene) -> float:
        execution_ns = self._model.execution_ns(scene)
        is_sound = isfinite(execution_ns) and execution_ns >= scene.base_ns
        return execution_ns if is_sound else scene.base_ns
