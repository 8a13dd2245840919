"""BentoML: Starlette in front; the model is a method in one worker process."""

from __future__ import annotations

import json
from pathlib import Path

from peers import VALUES, Launch

ENVIRONMENT = "bentoml"
PACKAGES = ("bentoml==1.4.40", "numpy")
VERSION = "1.4.40"

_SERVICE = """\
import bentoml
import numpy as np


@bentoml.service(workers=1, logging={"access": {"enabled": False}})
class Echo:
    @bentoml.api
    def predict(self, x: np.ndarray) -> np.ndarray:
        return x.astype(np.float32)
"""


def launch(home: Path, python: Path, port: int) -> Launch:
    """See `Peer.launch`."""
    (home / "service.py").write_text(_SERVICE)
    where = ["--host", "127.0.0.1", "--port", str(port)]
    return Launch(
        command=[str(python.parent / "bentoml"), "serve", "service:Echo", *where],
        env={
            "BENTOML_HOME": str(home / "bentoml"),
            "BENTOML_DO_NOT_TRACK": "true",
            "PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin",
        },
        cwd=home,
        path="/predict",
        body=json.dumps({"x": [VALUES]}).encode(),
        values=lambda answer: json.loads(answer)[0],
        ready="/readyz",
    )
