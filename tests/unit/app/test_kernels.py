"""Policies by name: each builds with its settings, and comes back from a journal's header."""

import pytest

from headway.app import build_policy, own_predictor, policy_from_section, policy_section
from headway.errors import ConfigError
from headway.policy import POLICY_PREDICTORS
from headway.predict import PREDICTORS
from headway.testing import MeanPredictor

SETTINGS = [
    {"kind": "static-cap", "low_max": 3},
    {"kind": "batch3", "high_max": 1, "low_min": 9},
    {"kind": "clockwork", "at_once": 2},
    {"kind": "nexus", "at_once": 2},
]


@pytest.mark.parametrize("class_slots", [True, False])
@pytest.mark.parametrize("kind", POLICY_PREDICTORS)
def test_every_name_builds_its_policy(kind, class_slots):
    """It has its name, and tells slots a class where the configuration says so."""
    section = policy_from_section({"kind": kind, "class_slots": class_slots})
    policy = build_policy(section, MeanPredictor())
    assert (policy.name, policy.class_slots) == (kind, class_slots)


@pytest.mark.parametrize("kind", POLICY_PREDICTORS)
def test_own_predictor_exists(kind):
    """A policy without one of its own has the default."""
    own = own_predictor(policy_from_section({"kind": kind}))
    assert own == (POLICY_PREDICTORS[kind] or "headway")
    assert own in PREDICTORS


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings["kind"])
def test_settings_survive_a_journals_header(settings):
    """A replay has the policy of the run."""
    section = policy_from_section(settings)
    plain = policy_section(section)
    assert plain.items() >= settings.items()
    assert policy_from_section(plain) == section


def test_unknown_policy_is_named():
    """With those that there are."""
    with pytest.raises(ConfigError) as caught:
        policy_from_section({"kind": "best"})
    assert all(kind in str(caught.value.hint) for kind in POLICY_PREDICTORS)
