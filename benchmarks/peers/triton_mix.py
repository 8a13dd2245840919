"""Triton as it would be set up for models with classes of priority on two cores.

Every model is the same ONNX file that headway serves, run by onnxruntime with one thread from the
Python back end, the only one in the wheel. Each has a queue with priority levels, and a request
that still waits when its own timeout ends is refused. What is left to choose stands in `Setting`.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from peers import triton

__all__ = [
    "ENVIRONMENT",
    "SETTINGS",
    "ServedModel",
    "Setting",
    "packages",
    "parameters",
    "start",
    "swept",
]

ENVIRONMENT = "triton-onnx"
LEVELS = 4
"""Priorities of the mixes, 0 to 3, are levels 1 to 4 here."""
_TIMEOUT_DEFAULT_US = 60_000_000
"""Above 0, or a request's own timeout would have no effect; every request brings its own."""

_SHARED_MEMORY = "headway_versus_triton"

_CONFIG = """\
name: "{name}"
backend: "python"
max_batch_size: {rows_max}
{tensors}
dynamic_batching {{
  priority_levels: {levels}
  default_priority_level: {levels}
{policies}
}}
instance_group [ {{ kind: KIND_CPU count: {instances} {limiter} }} ]
parameters [ {{ key: "path" value: {{ string_value: "{path}" }} }},
             {{ key: "nice" value: {{ string_value: "{nice}" }} }} ]
"""
_LEVEL = """\
  priority_queue_policy {{
    key: {level}
    value {{
      timeout_action: REJECT
      default_timeout_microseconds: {timeout_us}
      allow_timeout_override: true
    }}
  }}"""
_MODEL = """\
import json
import os

import onnxruntime as ort
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        os.nice(int(parameters["nice"]["string_value"]))
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(
            parameters["path"]["string_value"], options, providers=["CPUExecutionProvider"]
        )
        self.inputs = [node.name for node in self.session.get_inputs()]
        self.outputs = [node.name for node in self.session.get_outputs()]

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        feed = {n: pb_utils.get_input_tensor_by_name(request, n).as_numpy() for n in self.inputs}
        found = self.session.run(self.outputs, feed)
        tensors = [pb_utils.Tensor(n, a) for n, a in zip(self.outputs, found)]
        return pb_utils.InferenceResponse(output_tensors=tensors)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What may be chosen, the same for every model."""

    instances: int = 2
    """Executions of a model at once."""
    at_once_max: int | None = None
    """Executions of all models at once, by the rate limiter; None leaves that to the system."""
    starts_in_time: bool = False
    """A request's timeout is the last instant at which it can start, not its deadline."""
    is_niced: bool = False
    """Instances of models that have only low requests run at nice 19, as a user may do by hand."""


SETTINGS: Mapping[str, Setting] = {
    "triton": Setting(),
    "triton-late-start": Setting(starts_in_time=True),
    "triton-one-instance": Setting(instances=1, starts_in_time=True),
    "triton-two-at-once": Setting(at_once_max=2, starts_in_time=True),
    "triton-niced": Setting(starts_in_time=True, is_niced=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model of a mix, as Triton is to know it."""

    name: str
    path: Path
    rows_max: int
    is_low: bool
    """It has only low requests."""
    inputs: Sequence[tuple[str, str, tuple[int, ...]]]
    """Name, datatype and shape of one row; -1 where it varies."""
    outputs: Sequence[tuple[str, str, tuple[int, ...]]]


def packages() -> tuple[str, ...]:
    """What its environment needs: the same onnxruntime, and no NumPy 2 (see `peers.triton`)."""
    return (*triton.PACKAGES, "numpy<2", f"onnxruntime=={version('onnxruntime')}")


@contextlib.contextmanager
def swept() -> Iterator[None]:
    """Around a server's life: the shared memory that it leaves behind if it is killed is freed."""
    try:
        yield
    finally:
        for left in Path("/dev/shm").glob(f"{_SHARED_MEMORY}*"):  # noqa: S108 - where it lies
            left.unlink(missing_ok=True)


def parameters(setting: Setting, *, priority: int, budget_ns: int, solo_ns: int) -> dict[str, int]:
    """What a request says beside its tensors: its level, and for how long it may wait."""
    wait_ns = budget_ns - solo_ns if setting.starts_in_time else budget_ns
    return {"priority": priority + 1, "timeout": max(1, wait_ns // 1_000)}


def start(
    home: Path, python: Path, port: int, models: Sequence[ServedModel], setting: Setting
) -> tuple[list[str], Mapping[str, str]]:
    """Write the models' folder; the command, and what its environment needs."""
    repository = home / "models"
    shutil.rmtree(repository, ignore_errors=True)
    for model in models:
        folder = repository / model.name / "1"
        folder.mkdir(parents=True)
        (folder.parent / "config.pbtxt").write_text(_config(model, setting))
        (folder / "model.py").write_text(_MODEL)
    command, env = triton.start(home, python, port, repository)
    command += [
        f"--backend-config=python,shm-region-prefix-name={_SHARED_MEMORY}",
        "--exit-timeout-secs=5",
    ]
    if setting.at_once_max is not None:
        command += [
            "--rate-limit=execution_count",
            f"--rate-limit-resource=slot:{setting.at_once_max}",
        ]
    return command, {**env, "OMP_NUM_THREADS": "1"}


def _config(model: ServedModel, setting: Setting) -> str:
    limiter = ""
    if setting.at_once_max is not None:
        share = 8 if model.is_low else 1  # the limiter's own priority: 1 gets the most turns
        limiter = (
            "rate_limiter { resources [ { name: 'slot' global: true count: 1 } ] "
            f"priority: {share} }}"
        )
    levels = range(1, LEVELS + 1)
    return _CONFIG.format(
        name=model.name,
        rows_max=model.rows_max,
        tensors="\n".join((_tensors("input", model.inputs), _tensors("output", model.outputs))),
        levels=LEVELS,
        policies="\n".join(
            _LEVEL.format(level=level, timeout_us=_TIMEOUT_DEFAULT_US) for level in levels
        ),
        instances=setting.instances,
        limiter=limiter,
        path=model.path,
        nice=19 if setting.is_niced and model.is_low else 0,
    )


def _tensors(kind: str, tensors: Sequence[tuple[str, str, tuple[int, ...]]]) -> str:
    return "\n".join(
        f'{kind} [ {{ name: "{name}" data_type: TYPE_{datatype} dims: {list(shape)} }} ]'
        for name, datatype, shape in tensors
    )
