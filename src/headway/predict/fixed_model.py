"""`fixed`: an execution takes what it takes alone, whoever runs beside it.

Knows the scene's solo time. Refuses to know neighbours: the yardstick of every comparison, it is
wrong by as much as they matter.
"""

from headway.predict.scene import Ended, Scene

__all__ = ["FixedModel"]


class FixedModel:
    """T = T_solo, in nanoseconds; what was measured alone, or learnt of it, is all that counts.

    Most inference servers plan with such a table, Nexus and Clipper among them.
    """

    name = "fixed"

    def execution_ns(self, scene: Scene) -> float:
        """The solo time."""
        return scene.base_ns

    def learn(self, ended: Ended) -> None:
        """There is nothing to learn."""

    def state(self) -> dict[str, object]:
        """Nothing was learnt."""
        return {}

    def restore(self, state: dict[str, object]) -> None:
        """There is nothing to take up."""
