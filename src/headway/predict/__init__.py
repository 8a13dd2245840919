"""Service-time profiles and predictors: numbers in, numbers out.

Knows `core`'s ports. Must never import a clock, a file or a device.
"""

from headway.predict.factory import PREDICTORS, Built, Trainable, build, build_predictor
from headway.predict.headway import HeadwayPredictor
from headway.predict.links import Direction, Link, LinkTree
from headway.predict.profile import ModelProfile, Pressures, Profile, SoloTime
from headway.predict.recipe import Recipe, on_links
from headway.predict.scene import Ended, ExecutionModel, Neighbour, Overlap, Scene
from headway.predict.shell import Shell

__all__ = [
    "PREDICTORS",
    "Built",
    "Direction",
    "Ended",
    "ExecutionModel",
    "HeadwayPredictor",
    "Link",
    "LinkTree",
    "ModelProfile",
    "Neighbour",
    "Overlap",
    "Pressures",
    "Profile",
    "Recipe",
    "Scene",
    "Shell",
    "SoloTime",
    "Trainable",
    "build",
    "build_predictor",
    "on_links",
]
