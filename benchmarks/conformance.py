"""Which server does what clients of the Open Inference Protocol rely on: ours, Triton, MLServer.

Each is started with models that give back what they get, one for each datatype, and asked every
case of `headway conformance` over HTTP and gRPC. A row is an area of cases; the notes name those
that failed. Nothing is timed.

Usage: `python benchmarks/conformance.py [--only headway triton mlserver] [--quick] [--format
table|json]`. The peers' environments are made on first use under `~/.cache/headway/peers`.
`--quick` asks headway alone. A full run puts the document into
`benchmarks/results/conformance.json`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import harness
from peers import mlserver, triton

from headway.conformance import Outcome, Result, run_cases

NAME = "conformance"
COLUMNS = ("server", "version", "area", "passed", "failed", "skipped")
DATATYPES = tuple(
    "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 BYTES".split()
)
EXAMPLES = harness.BENCHMARKS.parent / "examples"
NOTES = (
    "Cases that a server cannot be asked (an extension that it does not announce) are skipped.",
    "Every model gives back what it gets; Triton runs them in its Python back end.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a server is started, and where it then is."""

    version: str
    command: Sequence[str]
    port: int
    grpc_port: int
    ready: str = "/v2/models/pair/ready"
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None


# -- the servers -----------------------------------------------------------------------------------


def headway_setup(home: Path) -> Setup:
    """The configuration of the examples, at ports that are free."""
    port, grpc_port = harness.free_port(), harness.free_port()
    text = (EXAMPLES / "conformance.yaml").read_text()
    text = text.replace("echo_model.py", str(EXAMPLES / "echo_model.py"))
    config = home / "conformance.yaml"
    config.write_text(text.replace("grpc: {port: 8001}", f"grpc: {{port: {grpc_port}}}"))
    command = [sys.executable, "-m", "headway", "serve", str(config), "--port", str(port)]
    return Setup(version="", command=command, port=port, grpc_port=grpc_port)


_TRITON_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = []
        for given, taken in (("x", "y"), ("z", "w")):
            found = pb_utils.get_input_tensor_by_name(request, given)
            if found is not None:
                tensors.append(pb_utils.Tensor(taken, found.as_numpy()))
        return pb_utils.InferenceResponse(output_tensors=tensors)
"""


def triton_setup(home: Path) -> Setup:
    """A folder for each model, with the Python back end."""
    models = home / "models"
    shutil.rmtree(models, ignore_errors=True)
    for name, inputs, outputs in echoes():
        tensors = [
            f'{kind} [ {{ name: "{tensor}" data_type: TYPE_{_triton_kind(datatype)} '
            f"dims: [ {columns} ] }} ]"
            for kind, each in (("input", inputs), ("output", outputs))
            for tensor, datatype, columns in each
        ]
        folder = models / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(_TRITON_MODEL)
        (folder.parent / "config.pbtxt").write_text(
            "\n".join([f'name: "{name}"', 'backend: "python"', "max_batch_size: 64", *tensors])
            + "\ninstance_group [ { kind: KIND_CPU count: 1 } ]\n"
        )
    port = harness.free_port()
    environment = harness.CACHE / "peers" / triton.ENVIRONMENT
    python = harness.make_environment(environment, triton.PACKAGES, progress=sys.stderr)
    command, env = triton.start(home, python, port, models)
    (grpc,) = [each for each in command if each.startswith("--grpc-port=")]
    command = [*command, "--model-control-mode=explicit", "--load-model=*"]
    return Setup(
        version=triton.VERSION,
        command=command,
        port=port,
        grpc_port=int(grpc.partition("=")[2]),
        env=env,
    )


def _triton_kind(datatype: str) -> str:
    return "STRING" if datatype == "BYTES" else datatype


_MLSERVER_MODEL = """\
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput

NAMES = {"x": "y", "z": "w"}


class Echo(MLModel):
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        outputs = [
            ResponseOutput(
                name=NAMES[tensor.name], shape=tensor.shape, datatype=tensor.datatype,
                data=tensor.data,
            )
            for tensor in payload.inputs
        ]
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=outputs)
"""


def mlserver_setup(home: Path) -> Setup:
    """A folder for each model, with settings that describe its tensors."""
    models = home / "models"
    shutil.rmtree(models, ignore_errors=True)
    port, grpc_port = harness.free_port(), harness.free_port()
    for name, inputs, outputs in echoes():
        folder = models / name
        folder.mkdir(parents=True)
        described = {
            kind: [
                {"name": tensor, "datatype": datatype, "shape": [-1, columns]}
                for tensor, datatype, columns in each
            ]
            for kind, each in (("inputs", inputs), ("outputs", outputs))
        }
        settings = {"name": name, "implementation": "conformance_model.Echo", **described}
        (folder / "model-settings.json").write_text(json.dumps(settings))
    (home / "conformance_model.py").write_text(_MLSERVER_MODEL)
    server = {
        "host": "127.0.0.1",
        "http_port": port,
        "grpc_port": grpc_port,
        "metrics_port": harness.free_port(),
        "metrics_dir": str(home),
        "environments_dir": str(home / "environments"),
        "debug": False,
        "parallel_workers": 0,
    }
    (models / "settings.json").write_text(json.dumps(server))
    environment = harness.CACHE / "peers" / mlserver.ENVIRONMENT
    python = harness.make_environment(environment, mlserver.PACKAGES, progress=sys.stderr)
    return Setup(
        version=mlserver.VERSION,
        command=[str(python.parent / "mlserver"), "start", str(models)],
        port=port,
        grpc_port=grpc_port,
        env={"PYTHONPATH": str(home)},
        cwd=home,
    )


SERVERS: Mapping[str, Callable[[Path], Setup]] = {
    "headway": headway_setup,
    "triton": triton_setup,
    "mlserver": mlserver_setup,
}

Tensors = list[tuple[str, str, int]]


def echoes() -> list[tuple[str, Tensors, Tensors]]:
    """The models: a name, then name, datatype and columns of inputs and outputs."""
    single = [
        (f"identity_{kind.lower()}", [("x", kind, 4)], [("y", kind, 4)]) for kind in DATATYPES
    ]
    any_width = ("identity_fp32_any", [("x", "FP32", -1)], [("y", "FP32", -1)])
    pair = ("pair", [("x", "FP32", 2), ("z", "INT64", 2)], [("y", "FP32", 2), ("w", "INT64", 2)])
    return [*single, any_width, pair]


# -- the run ---------------------------------------------------------------------------------------


def asked(name: str) -> tuple[list[harness.Row], list[str]]:
    """A row for each area of cases, and a note for each case that failed.

    Raises:
        EnvironmentUnavailableError: It cannot be installed.
        LoadFailedError: It did not start.
    """
    home = harness.CACHE / "peers" / "files" / f"conformance-{name}"
    home.mkdir(parents=True, exist_ok=True)
    setup = SERVERS[name](home)

    def is_ready() -> bool:
        with closing(harness.Http(setup.port)) as http:
            return http.get(setup.ready)[0] == 200

    # A test that asks has processes of its own, which must live on.
    spares = frozenset(harness.own_tree())
    with harness.ServerProcess(
        setup.command, is_ready, env=setup.env, cwd=setup.cwd, spares=spares
    ):
        results = run_cases(
            f"http://127.0.0.1:{setup.port}",
            f"127.0.0.1:{setup.grpc_port}",
            can_load=True,
            on_case=lambda result: say(name, result),
        )
    notes = [
        f"{name} failed: {result.area}: {result.name}"
        for result in results
        if result.outcome is Outcome.FAILED
    ]
    areas = list(dict.fromkeys(result.area for result in results))
    rows = [row(name, setup.version, area, results) for area in areas]
    return [*rows, row(name, setup.version, "all", results)], notes


def row(name: str, version: str, area: str, results: Sequence[Result]) -> harness.Row:
    """How a server did in an area."""
    own = [result for result in results if area in {"all", result.area}]
    counts = {each.value: sum(result.outcome is each for result in own) for each in Outcome}
    return {"server": name, "version": version, "area": area, **counts}


def say(name: str, result: Result) -> None:
    """A line for each case that did not pass."""
    if result.outcome is not Outcome.PASSED:
        text = f"{name}: {result.outcome.value}: {result.area}: {result.name}: {result.why}"
        print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Ask all and put the figures where they are asked for."""
    parser = harness.quick_parser(__doc__, "headway alone")
    parser.add_argument("--only", nargs="+", choices=tuple(SERVERS), metavar="NAME")
    options = parser.parse_args()
    names = options.only or (["headway"] if options.quick else list(SERVERS))
    harness.adopt_orphans()
    rows: list[harness.Row] = []
    notes = list(NOTES)
    for name in names:
        try:
            more, failed = asked(name)
        except (harness.EnvironmentUnavailableError, harness.LoadFailedError) as error:
            print(f"{name} was not asked: {error}", file=sys.stderr)
            notes.append(f"{name} was not asked: it could not be installed or did not start here")
            continue
        rows += more
        notes += failed
    harness.publish(NAME, rows, COLUMNS, options, notes=notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
