"""TorchServe: a Java front; the model is a handler in a Python worker process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from harness import free_port

from peers import VALUES, Launch

ENVIRONMENT = "torchserve"
PACKAGES = (
    "torch==2.13.0",
    "torchserve==0.12.0",
    "torch-model-archiver==0.12.0",
    "setuptools==80.9.0",
    "pyyaml",
)
VERSION = "0.12.0"

_HANDLER = """\
import torch


def handle(data, context):
    if data is None:
        return None
    rows = [row["body"]["x"] for row in data]
    return torch.tensor(rows, dtype=torch.float32).tolist()
"""

_CONFIG = """\
inference_address=http://127.0.0.1:{port}
management_address=http://127.0.0.1:{management}
metrics_address=http://127.0.0.1:{metrics}
default_workers_per_model=1
disable_token_authorization=true
disable_system_metrics=true
"""

_LOGGING = """\
<Configuration status="error">
  <Appenders><Console name="console"/></Appenders>
  <Loggers><Root level="error"><AppenderRef ref="console"/></Root></Loggers>
</Configuration>
"""


def launch(home: Path, python: Path, port: int) -> Launch:
    """See `Peer.launch`."""
    handler, store, programs = home / "handler.py", home / "store", python.parent
    handler.write_text(_HANDLER)
    (home / "log4j2.xml").write_text(_LOGGING)
    ports = {"port": port, "management": free_port(), "metrics": free_port()}
    (home / "config.properties").write_text(_CONFIG.format(**ports))
    if not (store / "echo.mar").exists():
        store.mkdir(exist_ok=True)
        archiver = str(programs / "torch-model-archiver")
        what = ["--model-name", "echo", "--version", "1.0", "--handler", str(handler)]
        subprocess.check_call(
            [archiver, *what, "--export-path", str(store)], stdout=subprocess.DEVNULL
        )
    options = ["--foreground", "--ncs", "--disable-token-auth"]
    files = ["--ts-config", str(home / "config.properties")]
    files += ["--log-config", str(home / "log4j2.xml")]
    return Launch(
        command=[
            str(programs / "torchserve"),
            "--start",
            *options,
            *files,
            "--model-store",
            str(store),
            "--models",
            "echo=echo.mar",
        ],
        env={
            "LOG_LOCATION": str(home / "logs"),
            "METRICS_LOCATION": str(home / "logs"),
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        },
        cwd=home,
        path="/predictions/echo",
        body=json.dumps({"x": VALUES}).encode(),
        values=json.loads,
        ready="/ping",
    )
