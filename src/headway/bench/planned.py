"""Policies for the worlds that a placed plan is played in, made as a server makes them.

Knows how a policy's section and a predictor come together. Refuses to know what is placed.
"""

from collections.abc import Mapping, Sequence

from headway.app import build_policy, own_predictor, policy_from_section
from headway.core import DeviceParams, Policy
from headway.plan import PolicyMaker
from headway.predict import ModelProfile, Recipe, build_predictor

__all__ = ["policy_maker"]


def policy_maker(settings: Mapping[str, object]) -> PolicyMaker:
    """What makes a policy of what was measured and of the devices.

    Args:
        settings: as the configuration takes them, with `kind`.

    Raises:
        ConfigError: there is no such policy, or it has no such settings.
    """
    section = policy_from_section(settings)

    def make(profiles: Sequence[ModelProfile], devices: Sequence[DeviceParams]) -> Policy:
        recipe = Recipe(
            kind=own_predictor(section), profiles=tuple(profiles), has_classes=section.class_slots
        )
        return build_policy(section, build_predictor(recipe, devices))

    return make
