"""LitServe: FastAPI in front; the model runs in a worker process."""

from __future__ import annotations

import json
from pathlib import Path

from peers import VALUES, Launch

ENVIRONMENT = "litserve"
PACKAGES = ("litserve==0.2.19", "numpy")
VERSION = "0.2.19"

_SERVER = """\
import sys

import litserve as ls
import numpy as np


class Echo(ls.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return np.asarray(request["x"], dtype=np.float32)

    def predict(self, x):
        return x

    def encode_response(self, output):
        return {"y": output.tolist()}


if __name__ == "__main__":
    server = ls.LitServer(Echo(), accelerator="cpu", workers_per_device=1)
    server.run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=1,
        generate_client_file=False,
        log_level="error",
        access_log=False,
    )
"""


def launch(home: Path, python: Path, port: int) -> Launch:
    """See `Peer.launch`."""
    script = home / "server.py"
    script.write_text(_SERVER)
    return Launch(
        command=[str(python), str(script), str(port)],
        env={"LITSERVE_DISABLE_TELEMETRY": "1"},
        cwd=home,
        path="/predict",
        body=json.dumps({"x": [VALUES]}).encode(),
        values=lambda answer: json.loads(answer)["y"][0],
        ready="/health",
    )
