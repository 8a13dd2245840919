"""Service-time profiles and predictors: numbers in, numbers out.

Knows `core`'s ports. Must never import a clock, a file or a device.
"""

from headway.predict.fixed import FixedPredictor
from headway.predict.profile import ModelProfile, Pressures, Profile, SoloTime

__all__ = ["FixedPredictor", "ModelProfile", "Pressures", "Profile", "SoloTime"]
