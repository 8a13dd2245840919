"""Service-time profiles and predictors: numbers in, numbers out.

Knows `core`'s ports. Must never import a clock, a file or a device.
"""

from headway.predict.fixed import FixedPredictor
from headway.predict.headway import HeadwayPredictor
from headway.predict.profile import ModelProfile, Pressures, Profile, SoloTime
from headway.predict.scene import Ended, ExecutionModel, Neighbour, Overlap, Scene
from headway.predict.shell import Shell

__all__ = [
    "Ended",
    "ExecutionModel",
    "FixedPredictor",
    "HeadwayPredictor",
    "ModelProfile",
    "Neighbour",
    "Overlap",
    "Pressures",
    "Profile",
    "Scene",
    "Shell",
    "SoloTime",
]
