"""PyTriton: NVIDIA's Python front for Triton; the model is a function in the user's process."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import free_port

from peers import OIP_BODY, OIP_PATH, Launch, oip_values

ENVIRONMENT = "pytriton"
PACKAGES = ("nvidia-pytriton==0.7.0",)
VERSION = "0.7.0"

_SERVER = """\
import sys

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig, TritonSecurityConfig


@batch
def echo(x):
    return {"y": x}


http, grpc, metrics = map(int, sys.argv[1:])
config = TritonConfig(
    http_address="127.0.0.1",
    http_port=http,
    grpc_address="127.0.0.1",
    grpc_port=grpc,
    metrics_address="127.0.0.1",
    metrics_port=metrics,
)
# Without this a load generator that asks for the model's statistics is turned away.
open_to_all = TritonSecurityConfig(restricted_endpoints=[])
with Triton(config=config, security_config=open_to_all) as triton:
    triton.bind(
        model_name="echo",
        infer_func=echo,
        inputs=[Tensor(name="x", dtype=np.float32, shape=(16,))],
        outputs=[Tensor(name="y", dtype=np.float32, shape=(16,))],
        config=ModelConfig(max_batch_size=64),
    )
    triton.serve()
"""


def launch(home: Path, python: Path, port: int) -> Launch:
    """See `Peer.launch`."""
    script = home / "server.py"
    script.write_text(_SERVER)
    ask = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"
    libraries = subprocess.check_output([str(python), "-c", ask], text=True).strip()
    grpc_port = free_port()
    ports = [str(p) for p in (port, grpc_port, free_port())]
    return Launch(
        grpc_port=grpc_port,
        command=[str(python), str(script), *ports],
        env={"LD_LIBRARY_PATH": libraries, "PYTRITON_HOME": str(home / "workspace")},
        cwd=home,
        path=OIP_PATH,
        body=OIP_BODY,
        values=oip_values,
        ready="/v2/models/echo/ready",
        protocol="OIP",
    )
