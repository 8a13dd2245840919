"""`boosted`: gradient-boosted trees over the scene, which answer only while they are better.

Knows a scene's counts, remaining times and queue, and another model to stand on. Refuses to know
when training is convenient: it says when a fit is due, and whoever drives it says when to fit.
"""

from math import exp
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.predict.boosting import Trees, library
from headway.predict.contest import Contest
from headway.predict.kinds import Kinds
from headway.predict.observations import Observations
from headway.predict.scene import Ended, ExecutionModel, Scene
from headway.predict.scene_features import KIND_COLUMN, WIDTH, features_of, log_of

__all__ = ["BoostedModel"]

_PERIOD: Final = 200
"""A fit is due every so many observations."""
_KINDS_MAX: Final = 64
"""Kinds told apart; all later ones share the last."""
_CORRECTION_LOG_MAX: Final = 3.0
_NS_MAX: Final = 1 << 62


class BoostedModel:
    """log(T / T_solo) = log(T_fallback / T_solo) + trees(scene), T in nanoseconds.

    Boosted trees over what runs beside are the usual learnt latency predictor of schedulers that
    profile by machine learning. Where this one differs: the trees start from another model's
    answer, which tracks drift between fits; the target is the logarithm, so that the relative
    error counts; and until their rolling loss is lower the fallback answers alone.

    Features: solo time, and of the neighbours on the own lane and on the others apart: count, low
    ones, sum, least and most of what is left over the own solo time, least and most solo time over
    the own; the queue and the free slots; the own class and kind; a guide's answer if there is one.

    A fit takes tenths of a second. A live server asks `due()`, calls `train(count)` in a thread and
    then, between two kernel steps, `install(count)`; who replays that calls `install(count)` alone
    and gets the same trees, since a fit depends on nothing but the observations before `count`.

    Args:
        fallback: Answers until the trees are better; is taught here.
        guide: Whose answer is one more feature; is taught by its owner.
        trains_inline: Fit within `learn`, when due: for simulation and offline scoring.

    Raises:
        HeadwayError: LightGBM is not installed.
    """

    name = "boosted"

    def __init__(
        self,
        fallback: ExecutionModel,
        *,
        guide: ExecutionModel | None = None,
        trains_inline: bool = False,
    ) -> None:
        library()
        self._fallback = fallback
        self._guide = guide
        self._trains_inline = trains_inline
        self._kinds = Kinds(_KINDS_MAX)
        self._observations = Observations(WIDTH + 1)
        self._contest = Contest()
        self._trained: dict[int, Trees] = {}
        self._installed = 0
        self._trees: Trees | None = None

    @property
    def serves(self) -> bool:
        """The trees answer now, not the fallback."""
        return self._trees is not None and self._contest.is_won

    def execution_ns(self, scene: Scene) -> float:
        """The fallback's answer, corrected by the trees while they do it good."""
        start_ns = self._fallback.execution_ns(scene)
        if self._trees is None or not self.serves:
            return start_ns
        return _corrected_ns(self._trees, self._features(scene), start_ns)

    def learn(self, ended: Ended) -> None:
        """Score both, teach the fallback, keep the observation; fit if that is done inline."""
        scene = ended.scene
        actual_ns = float(min(max(1, ended.execution_ns), _NS_MAX))
        start_ns = self._fallback.execution_ns(scene)
        self._kinds.add(scene.run)
        features = self._features(scene)
        if self._trees is not None:
            trees_ns = _corrected_ns(self._trees, features, start_ns)
            self._contest = self._contest.after(
                challenger_ns=trees_ns, champion_ns=start_ns, actual_ns=actual_ns
            )
        self._fallback.learn(ended)
        target = log_of(actual_ns) - log_of(start_ns)
        self._observations.add([*features, _clamped(target)])
        if self._trains_inline and (count := self.due()) is not None:
            self.install(count)

    def due(self) -> int | None:
        """Observations up to which a fit should now be made; None while the last one will do."""
        count = self._observations.count // _PERIOD * _PERIOD
        return count if count > self._installed else None

    def train(self, count: int) -> None:
        """Fit trees to the observations before the `count`-th and lay them by; may run in a thread.

        Reads what was kept and nothing else, so that the loop may learn meanwhile.
        """
        rows = self._observations.before(count)
        if rows is not None:
            self._trained = {count: _fit(rows)}

    def install(self, count: int) -> None:
        """Answer with the trees of `train(count)` from now on; they are fitted here if missing.

        A count that is not newer than what serves, or whose observations are gone, changes nothing.
        """
        rows = self._observations.before(count)
        if count <= self._installed or rows is None:
            return
        self._trees = self._trained.pop(count, None) or _fit(rows)
        self._installed = count

    def state(self) -> dict[str, object]:
        """Observations, not trees: the same observations make the same trees."""
        return {
            "kinds": self._kinds.state(),
            "observations": self._observations.state(),
            "installed": self._installed,
            "contest": list(self._contest),
            "fallback": self._fallback.state(),
        }

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave, and fit the trees that answered then."""
        match state.get("fallback"):
            case dict() as fallback:
                self._fallback.restore(fallback)
        kinds, observations = Kinds(_KINDS_MAX), Observations(WIDTH + 1)
        if not kinds.restore(state.get("kinds")):
            return
        if not observations.restore(state.get("observations")):
            return
        self._kinds, self._observations = kinds, observations
        self._trees, self._trained, self._installed = None, {}, 0
        match state.get("installed"):
            case int() as installed:
                self.install(installed)
        self._contest = Contest.restored(state.get("contest"))

    def _features(self, scene: Scene) -> list[float]:
        kind = self._kinds.find(scene.run)
        guide_ns = None if self._guide is None else self._guide.execution_ns(scene)
        return features_of(scene, kind=_KINDS_MAX if kind is None else kind, guide_ns=guide_ns)


def _corrected_ns(trees: Trees, features: list[float], start_ns: float) -> float:
    return start_ns * exp(_clamped(trees.value(features)))


def _clamped(correction: float) -> float:
    """No more than twenty-fold either way."""
    return min(max(correction, -_CORRECTION_LOG_MAX), _CORRECTION_LOG_MAX)


def _fit(observations: NDArray[np.float32]) -> Trees:
    return Trees(
        observations[:, :WIDTH], observations[:, WIDTH].astype(np.float64), category=KIND_COLUMN
    )
