"""Triton: the C++ server out of PyTriton's wheel, with a model for its Python back end.

The wheel carries the server as data, to be run by PyTriton only; copied out, with its libraries
beside it and the Python back end's stub in its place, it starts alone. It batches dynamically,
without which it answers a third less at 32 connections. The stub takes its modules
from the environment whose `python3` comes first on the path. It must not find NumPy 2 there: its
answers then have no bytes ("output tensor shape does not match size of output").
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness import free_port

from peers import OIP_BODY, OIP_PATH, Launch, oip_values, pytriton

ENVIRONMENT = pytriton.ENVIRONMENT
PACKAGES = pytriton.PACKAGES
VERSION = "in nvidia-pytriton 0.7.0"

_CONFIG = """\
name: "echo"
backend: "python"
max_batch_size: 64
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ {columns} ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ {columns} ] }} ]
dynamic_batching {{ }}
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""

_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            y = pb_utils.Tensor("y", x)
            answers.append(pb_utils.InferenceResponse(output_tensors=[y]))
        return answers
"""


def launch(home: Path, python: Path, port: int) -> Launch:
    """See `Peer.launch`."""
    write_echo(home, 16)
    grpc_port = free_port()
    command, env = start(home, python, port, home / "models", grpc_port)
    return Launch(
        grpc_port=grpc_port,
        command=command,
        env=env,
        path=OIP_PATH,
        body=OIP_BODY,
        values=oip_values,
        ready="/v2/health/ready",
        protocol="OIP",
    )


def write_echo(home: Path, columns: int) -> None:
    """A model `echo` of FP32 rows."""
    version = home / "models" / "echo" / "1"
    version.mkdir(parents=True, exist_ok=True)
    (version.parent / "config.pbtxt").write_text(_CONFIG.format(columns=columns))
    (version / "model.py").write_text(_MODEL)


def start(
    home: Path, python: Path, port: int, models: Path, grpc_port: int = 0
) -> tuple[list[str], Mapping[str, str]]:
    """How to start it with the models of a folder: a command, and what its environment needs."""
    site, libraries = _ask(python)
    # The binary looks for its libraries three folders up from its own.
    server = home / "pytriton" / "tritonserver"
    if not server.exists():
        _copy_server(Path(site) / "pytriton" / "tritonserver", server)
        (home / "nvidia_pytriton.libs").symlink_to(Path(site) / "nvidia_pytriton.libs")
    command = [
        str(server / "bin" / "tritonserver"),
        f"--model-repository={models}",
        f"--backend-directory={server / 'backends'}",
        "--http-address=127.0.0.1",
        f"--http-port={port}",
        "--grpc-address=127.0.0.1",
        f"--grpc-port={grpc_port or free_port()}",
        "--metrics-address=127.0.0.1",
        f"--metrics-port={free_port()}",
    ]
    env = {
        "LD_LIBRARY_PATH": f"{site}/nvidia_pytriton.libs:{libraries}",
        "PATH": f"{python.parent}:/usr/bin:/bin",
    }
    return command, env


def _copy_server(wheel: Path, server: Path) -> None:
    partial = server.with_name("partial")
    shutil.rmtree(partial, ignore_errors=True)
    for folder in ("bin", "backends", "caches"):
        shutil.copytree(wheel / folder, partial / folder)
    (stub,) = (wheel / "python_backend_stubs" / "3.11").iterdir()
    target = partial / "backends" / "python" / "triton_python_backend_stub"
    shutil.copy(stub, target)
    target.chmod(0o755)
    (partial / "bin" / "tritonserver").chmod(0o755)
    partial.rename(server)


def _ask(python: Path) -> tuple[str, str]:
    """Where that Python keeps its packages, and its own library."""
    script = (
        "import sysconfig; print(sysconfig.get_path('purelib'), "
        "sysconfig.get_config_var('LIBDIR'), sep='\\n')"
    )
    told = subprocess.check_output([str(python), "-c", script], text=True)
    site, libraries = told.splitlines()
    return site, libraries
