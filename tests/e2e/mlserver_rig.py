"""MLServer with the same models as ours, from an environment of its own."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.foreign import peer_python, plain_environment
from tests.e2e.samples_of_datatypes import SAMPLES, model_of
from tests.e2e.server import free_port, wait_until

MODEL = """\
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.codecs.string import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput


class Flip(MLModel):
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        one = payload.inputs[0]
        if one.datatype == "BYTES":
            columns = one.shape[1]
            words = StringCodec.decode_input(one)
            rows = [words[at : at + columns] for at in range(0, len(words), columns)]
            data = [word.encode() for row in rows for word in reversed(row)]
            y = ResponseOutput(name="y", shape=one.shape, datatype="BYTES", data=data)
        else:
            y = NumpyCodec.encode_output("y", NumpyCodec.decode_input(one)[:, ::-1])
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=[y])
"""


class Running(NamedTuple):
    """Where it is."""

    port: int
    grpc_port: int


@contextlib.contextmanager
def mlserver(home: Path) -> Iterator[Running]:
    """MLServer, ready; gone with all of its processes afterwards."""
    python = peer_python("mlserver")
    port, grpc_port = free_port(), free_port()
    settings = {
        "host": "127.0.0.1",
        "http_port": port,
        "grpc_port": grpc_port,
        "metrics_port": free_port(),
        "metrics_dir": str(home),
        "environments_dir": str(home / "environments"),
        "debug": False,
        "parallel_workers": 0,
    }
    models = home / "models"
    for datatype in SAMPLES:
        folder = models / model_of(datatype)
        folder.mkdir(parents=True)
        tensors = {
            kind: [{"name": name, "datatype": datatype, "shape": [-1, 4]}]
            for kind, name in (("inputs", "x"), ("outputs", "y"))
        }
        model = {"name": model_of(datatype), "implementation": "flip_model.Flip", **tensors}
        (folder / "model-settings.json").write_text(json.dumps(model))
    (models / "settings.json").write_text(json.dumps(settings))
    (home / "flip_model.py").write_text(MODEL)
    with (home / "mlserver.log").open("wb") as log:
        process = subprocess.Popen(
            [str(python.parent / "mlserver"), "start", str(models)],
            cwd=home,
            env=plain_environment(PYTHONPATH=str(home)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_until(lambda: _is_ready(process, home, port), "MLServer is ready", within_s=60)
        yield Running(port, grpc_port)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def _is_ready(process: subprocess.Popen[bytes], home: Path, port: int) -> bool:
    if process.poll() is not None:
        pytest.fail(f"MLServer ended at its start:\n{(home / 'mlserver.log').read_text()[-2000:]}")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
