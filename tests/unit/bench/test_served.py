"""The configuration that serves a mix under a policy."""

from pathlib import Path

import pytest
from tests.unit.bench.contest_words import a_mix

from headway.bench.mixes import kinds_of
from headway.bench.served import config_of_mix, config_of_solos, tier_of_class
from headway.bench.setups import SETUPS
from headway.config import kernel_params, model_params, tiers
from headway.core import SlotClass

SETUP = SETUPS["pinned"]


def config(mix=None, **policy):
    """Of a mix under `priority`."""
    settings = {"kind": "priority", **policy}
    return config_of_mix(mix or a_mix(), settings, SETUP, Path("models"), (0, 1))


def test_classes_become_tiers():
    """One for each high priority, one for all low work; the slot is told which side it is."""
    mix = a_mix()
    assert [tier_of_class(one, mix) for one in mix.classes] == ["high-0", "low", "low"]
    found = tiers(config())
    assert [(tier.priority, tier.slot_class) for tier in found.values()] == [
        (0, SlotClass.HIGH),
        (3, SlotClass.LOW),
    ]


def test_requests_never_share_a_batch_and_some_may_be_split():
    """A batch holds the rows of one request; parts only of what was said to have them."""
    shown = config()
    params = {model.name: model_params(shown, model) for model in shown.models}
    assert {name: one.batch_rows_max for name, one in params.items()} == {
        "minilm-32": 1,
        "ocr-recognise": 1,
        "minilm-bulk": 4,
    }
    assert [name for name, one in params.items() if one.can_split] == ["minilm-bulk"]
    bulk = next(model for model in shown.models if model.name == "minilm-bulk")
    assert bulk.warmup.rows == (1, 4)
    assert bulk.warmup.shapes["input_ids"] == (128,)
    assert (bulk.path or "").endswith("minilm.v1.onnx")


def test_policy_says_whether_low_slots_give_way():
    """Its settings are taken as they are; a low batch weighs less where slots are told."""
    assert config(class_slots=False).policy.class_slots is False
    (device,) = kernel_params(config()).devices
    assert device.slot_lanes == (0, 1, 0, 1)
    assert device.weight_low < device.weight_high / 10
    with pytest.raises(ValueError, match="low_max"):
        config(low_max=2)


def test_solos_are_served_in_all_their_sizes():
    """One model for all sizes that it is asked for in."""
    shown = config_of_solos(kinds_of([a_mix()]), SETUP, Path("models"), (0, 1))
    bulk = next(model for model in shown.models if model.name == "minilm-bulk")
    assert bulk.batch.rows_max == 4
    assert bulk.warmup.rows == (1, 4)
