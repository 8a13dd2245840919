"""Ray Serve: a proxy process in front; the model is an actor in a replica process."""

from __future__ import annotations

import json
from pathlib import Path

from peers import VALUES, Launch

ENVIRONMENT = "ray"
PACKAGES = ("ray[serve]==2.60.0", "numpy")
VERSION = "2.60.0"

_SERVER = """\
import sys
import time

import numpy as np
import ray
from ray import serve


@serve.deployment(num_replicas=1, max_ongoing_requests=64)
class Echo:
    async def __call__(self, request):
        x = np.asarray((await request.json())["x"], dtype=np.float32)
        return {"y": x.tolist()}


ray.init(
    address="local",
    num_cpus=2,
    include_dashboard=False,
    log_to_driver=False,
    object_store_memory=256 * 2**20,
    _node_ip_address="127.0.0.1",
)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
serve.run(Echo.bind(), route_prefix="/echo", logging_config={"enable_access_log": False})
while True:
    time.sleep(3600)
"""


def launch(home: Path, python: Path, port: int) -> Launch:
    """See `Peer.launch`."""
    script = home / "server.py"
    script.write_text(_SERVER)
    return Launch(
        command=[str(python), str(script), str(port)],
        env={"RAY_USAGE_STATS_ENABLED": "0", "RAY_SERVE_LOG_TO_STDERR": "0"},
        cwd=home,
        path="/echo",
        body=json.dumps({"x": [VALUES]}).encode(),
        values=lambda answer: json.loads(answer)["y"][0],
        ready="/-/healthz",
    )
