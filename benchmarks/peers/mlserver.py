"""MLServer: FastAPI in front; the model runs in one inference worker process, its default."""

from __future__ import annotations

import json
from pathlib import Path

from harness import free_port

from peers import OIP_BODY, OIP_PATH, Launch, oip_values

ENVIRONMENT = "mlserver"
# uvloop: its newer releases took away what MLServer 1.7 sets its event loop with.
PACKAGES = ("mlserver==1.7.1", "uvloop<0.22")
VERSION = "1.7.1"

_MODEL = """\
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Echo(MLModel):
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output(name="y", payload=x)]
        )
"""


def launch(home: Path, python: Path, port: int) -> Launch:
    """See `Peer.launch`."""
    model = home / "models" / "echo"
    model.mkdir(parents=True, exist_ok=True)
    (model / "echo_model.py").write_text(_MODEL)
    settings = {"name": "echo", "implementation": "echo_model.Echo"}
    (model / "model-settings.json").write_text(json.dumps(settings))
    server = {
        "host": "127.0.0.1",
        "http_port": port,
        "grpc_port": (grpc_port := free_port()),
        "metrics_port": free_port(),
        "metrics_dir": str(home),
        "environments_dir": str(home / "environments"),
        "debug": False,
        "parallel_workers": 1,
    }
    (home / "models" / "settings.json").write_text(json.dumps(server))
    return Launch(
        grpc_port=grpc_port,
        command=[str(python.parent / "mlserver"), "start", str(home / "models")],
        env={"PYTHONPATH": str(model)},
        cwd=home,
        path=OIP_PATH,
        body=OIP_BODY,
        values=oip_values,
        ready="/v2/models/echo/ready",
        protocol="OIP",
    )
