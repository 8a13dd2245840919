"""Any model of execution times as a predictor: the baselines' way to the port.

Knows how to put the parts together. Refuses to know what the model makes of a scene.
"""

from collections.abc import Iterable, Mapping, Sequence

from headway.core import DeviceParams, SlotClass
from headway.predict.frame import Frame, Transfers
from headway.predict.ground import Ground
from headway.predict.profile import ModelProfile
from headway.predict.scene import ExecutionModel
from headway.predict.scenes import SceneExecutions
from headway.predict.services import Services

__all__ = ["Shell"]


class Shell(Frame):
    """A predictor around a model of execution times.

    Args:
        model: asked about each batch, among its neighbours.
        devices: what there is.
        profiles: what was measured beforehand.
        weights: share of a lane per class, where a slot's class counts for the device.
        confidence: of every bound.
        transfers: knows the links; without it transfers are what they usually were.
    """

    def __init__(
        self,
        model: ExecutionModel,
        devices: Sequence[DeviceParams] = (),
        profiles: Iterable[ModelProfile] = (),
        *,
        weights: Mapping[SlotClass, float] | None = None,
        confidence: float = 0.95,
        transfers: Transfers | None = None,
    ) -> None:
        profiles = tuple(profiles)
        super().__init__(
            SceneExecutions(model),
            Ground(devices, profiles, weights),
            Services(profiles),
            confidence=confidence,
            transfers=transfers,
        )
