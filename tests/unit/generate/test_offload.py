"""Layers on the host: what they free, what they cost, and what a scheduler believes of it."""

import pytest

from headway.generate import LayerOffload, StepLaw, StreamedSteps

GB = 10**9
LAW = StepLaw(base_ns=12e6, prefill_ns=67_000.0, context_ns=65.0, free_tokens=128)


def an_offload(layers=8):
    """Layers of half a gigabyte over 25 GB a second: 20 ms each."""
    return LayerOffload(layers=layers, layer_bytes=GB // 2, link_bytes_per_s=25e9)


def test_layers_free_their_room_but_two_buffers():
    """Eight on the host leave six layers' room; none leave everything as it is."""
    assert an_offload(8).freed_bytes == 3 * GB
    assert an_offload(0).freed_bytes == 0
    assert an_offload(1).freed_bytes < 0


def test_step_that_only_decodes_waits_for_every_layer():
    """It would take 12 ms, and the copies take 160."""
    steps = StreamedSteps(LAW, an_offload())
    assert steps.step_ns(0, 8, 0) == pytest.approx(160e6)
    assert steps.step_ns(0, 0, 0) == 0.0


def test_step_of_many_prompt_tokens_hides_the_copies():
    """Where computing takes longer nothing is added."""
    steps = StreamedSteps(LAW, an_offload(2))
    assert steps.step_ns(2_048, 0, 0) == LAW.step_ns(2_048, 0, 0)


def test_believed_law_lets_prompts_ride_while_copies_last():
    """As many tokens as the copies hide cost nothing, and one more costs its own time."""
    believed = an_offload().law(LAW)
    riding = believed.free_tokens
    assert believed.step_ns(riding, 0, 0) == pytest.approx(160e6)
    assert LAW.step_ns(riding, 0, 0) == pytest.approx(160e6, rel=0.01)
    assert believed.step_ns(riding + 100, 0, 0) == pytest.approx(166.7e6)
    assert an_offload(0).law(LAW) == LAW


@pytest.mark.parametrize("wrong", [{"layers": -1}, {"layer_bytes": 0}, {"link_bytes_per_s": 0.0}])
def test_offload_of_nothing_is_refused(wrong):
    """No layers below none, none without bytes, no link that carries nothing."""
    with pytest.raises(ValueError, match="layers have bytes"):
        LayerOffload(**{"layers": 1, "layer_bytes": 1, "link_bytes_per_s": 1.0} | wrong)
