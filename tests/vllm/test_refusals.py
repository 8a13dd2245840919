"""What the scheduler does not work with is said when the engine starts, with a way out."""

import sys
from types import SimpleNamespace

import pytest
import vllm.version

from headway.errors import ConfigError
from headway.generate.vllm import Scheduler


def a_config(**changed):
    """As much of vLLM's configuration as is looked at first."""
    parallel = SimpleNamespace(pipeline_parallel_size=1, decode_context_parallel_size=1)
    fields = {
        "scheduler_config": SimpleNamespace(async_scheduling=False),
        "speculative_config": None,
        "parallel_config": parallel,
        "model_config": SimpleNamespace(runner_type="generate"),
        "kv_transfer_config": None,
        "use_v2_model_runner": False,
    }
    return SimpleNamespace(**(fields | changed))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"speculative_config": object()}, "speculative"),
        (
            {
                "parallel_config": SimpleNamespace(
                    pipeline_parallel_size=2, decode_context_parallel_size=1
                )
            },
            "pipeline",
        ),
        ({"model_config": SimpleNamespace(runner_type="pooling")}, "pooling"),
        ({"kv_transfer_config": SimpleNamespace(kv_connector_module_path=None)}, "connector"),
        (
            {
                "kv_transfer_config": SimpleNamespace(
                    kv_connector_module_path="headway.generate.vllm_swap", kv_role="kv_both"
                )
            },
            "kv_both",
        ),
        ({"use_v2_model_runner": True}, "V2"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(changed, words):
    """An engine that would be planned wrongly does not start."""
    with pytest.raises(ConfigError, match=words) as raised:
        Scheduler(a_config(**changed))
    assert raised.value.hint


def test_other_version_of_vllm_is_refused(monkeypatch):
    """The error names the version that is there and those that were tested."""
    monkeypatch.setattr(vllm.version, "__version__", "0.99.0")
    monkeypatch.delitem(sys.modules, "headway.generate.vllm")
    with pytest.raises(ConfigError, match=r"0\.99\.0") as raised:
        __import__("headway.generate.vllm")
    assert "0.32.x" in raised.value.hint


def test_wrong_setting_is_named_when_the_engine_starts(engines):
    """An engine does not start with a setting that is not meant, and the error says which."""
    with pytest.raises(ConfigError, match="tierz"):
        engines(headway={"tierz": {}})
