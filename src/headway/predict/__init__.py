"""Service-time profiles and predictors: numbers in, numbers out.

Knows `core`'s ports. Must never import a clock, a file or a device.
"""

from headway.predict.fixed import FixedPredictor
from headway.predict.profile import Profile

__all__ = ["FixedPredictor", "Profile"]
