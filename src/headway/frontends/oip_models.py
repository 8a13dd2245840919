"""What the protocol and Triton's extensions say about models: metadata, configuration, statistics.

Each function turns one value of the engine into what JSON encodes. Names and nesting are those that
Triton's clients read; a key that headway has nothing true to say about is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headway.core import Datatype
from headway.executors import TensorSpec
from headway.runtime import ModelState, ModelStatistics, ModelStatus, StageStatistics
from headway.units import NS_PER_US

__all__ = [
    "LOG_SETTINGS",
    "TRACE_SETTINGS",
    "model_config",
    "model_metadata",
    "repository_index",
    "server_metadata",
    "statistics",
]

_EXTENSIONS: Final = (
    "binary_tensor_data",
    "generate",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
)
TRACE_SETTINGS: Final[Mapping[str, Any]] = {
    "trace_file": "",
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_mode": "triton",
}
"""headway writes a journal instead; a client that asks is told that Triton's tracing is off."""
LOG_SETTINGS: Final[Mapping[str, Any]] = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


def server_metadata(version: str, *, has_shared_memory: bool = False) -> dict[str, Any]:
    """Who answers here, and which extensions it honours."""
    more = ("system_shared_memory",) if has_shared_memory else ()
    return {"name": "headway", "version": version, "extensions": (*_EXTENSIONS, *more)}


def model_metadata(status: ModelStatus) -> dict[str, Any]:
    """What a model takes and gives; -1 is any size, the batch axis included."""
    return {
        "name": status.name,
        "versions": [status.version],
        "platform": status.platform,
        "inputs": [_tensor_metadata(spec) for spec in status.inputs],
        "outputs": [_tensor_metadata(spec) for spec in status.outputs],
    }


def model_config(status: ModelStatus) -> dict[str, Any]:
    """The model as Triton's configuration would have it: dims without the batch axis."""
    config: dict[str, Any] = {
        "name": status.name,
        "platform": status.platform,
        "backend": status.platform.partition("_")[0],
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": status.batch_rows_max if status.can_batch else 0,
        "input": [_config_tensor(spec, can_batch=status.can_batch) for spec in status.inputs],
        "output": [_config_tensor(spec, can_batch=status.can_batch) for spec in status.outputs],
        "instance_group": [{"name": status.name, "count": status.slots}],
        "parameters": {"tier": {"string_value": status.tier}},
    }
    if status.can_batch:
        config["dynamic_batching"] = {
            "max_queue_delay_microseconds": status.linger_ns // NS_PER_US,
            "default_queue_policy": {
                "timeout_action": "REJECT",
                "default_timeout_microseconds": status.budget_ns // NS_PER_US,
                "allow_timeout_override": True,
                "max_queue_size": status.queue_requests_max,
            },
        }
    return config


def repository_index(states: Sequence[ModelState], *, only_ready: bool) -> list[dict[str, str]]:
    """Every model there is, or those that serve."""
    return [
        {
            "name": state.name,
            "version": state.version,
            "state": state.state,
            "reason": state.reason,
        }
        for state in states
        if not only_ready or state.state == "READY"
    ]


def statistics(models: Sequence[ModelStatistics]) -> dict[str, Any]:
    """Counters since each model was first loaded."""
    return {"model_stats": [_model_statistics(model) for model in models]}


def _tensor_metadata(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}


def _config_tensor(spec: TensorSpec, *, can_batch: bool) -> dict[str, Any]:
    kind = "STRING" if spec.datatype is Datatype.BYTES else spec.datatype
    dims = spec.shape[1:] if can_batch else spec.shape
    return {"name": spec.name, "data_type": f"TYPE_{kind}", "dims": dims}


def _model_statistics(model: ModelStatistics) -> dict[str, Any]:
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": model.last_inference_ms,
        "inference_count": model.inference_count,
        "execution_count": model.execution_count,
        "inference_stats": {
            "success": _stage(model.success),
            "fail": _stage(model.fail),
            "queue": _stage(model.queue),
            "compute_input": _stage(model.compute_input),
            "compute_infer": _stage(model.compute_infer),
            "compute_output": _stage(model.compute_output),
            "cache_hit": _stage(StageStatistics()),
            "cache_miss": _stage(StageStatistics()),
        },
        "batch_stats": [
            {
                "batch_size": rows,
                "compute_input": _stage(compute_input),
                "compute_infer": _stage(compute_infer),
                "compute_output": _stage(compute_output),
            }
            for rows, (compute_input, compute_infer, compute_output) in sorted(
                model.batch_stats.items()
            )
        ],
        "memory_usage": [{"type": "CPU", "id": "0", "byte_size": model.memory_bytes}],
    }


def _stage(stage: StageStatistics) -> dict[str, int]:
    return {"count": stage.count, "ns": stage.total_ns}
