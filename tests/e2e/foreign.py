"""Clients and servers of others, each in an environment of its own, made once from PyPI.

They pin what headway's own environment has in other versions, so they cannot be imported beside it.
An environment stays under `~/.cache/headway`, those of servers where the benchmarks have them; a
test that needs one which cannot be made here, for want of a network or of a wheel for this machine,
is skipped and says why.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import harness
import perf_analyzer
import pytest
from peers import mlserver, triton

KSERVE = ("kserve==0.21.0", "protobuf<7")
HERE = Path(__file__).parent
peers = {"mlserver": mlserver, "triton": triton}


def kserve_python() -> Path:
    """The Python of KServe's client; the test is skipped where there can be none."""
    return _or_skipped("kserve", _made(harness.CACHE / "clients" / "kserve-0.21.0", KSERVE))


def peer_python(name: str) -> Path:
    """The Python of a server that the benchmarks compare with; likewise."""
    peer = peers[name]
    return _or_skipped(name, _made(harness.CACHE / "peers" / peer.ENVIRONMENT, peer.PACKAGES))


def _or_skipped(name: str, found: Path | str) -> Path:
    if isinstance(found, str):
        pytest.skip(f"there is no environment for {name}: {found}")
    return found


@functools.cache
def _made(folder: Path, packages: tuple[str, ...]) -> Path | str:
    """An environment, or why there is none; asked once a run."""
    try:
        return harness.make_environment(folder, packages, progress=sys.stderr)
    except (harness.EnvironmentUnavailableError, OSError, subprocess.SubprocessError) as error:
        return str(error)


@functools.cache
def _analyzer() -> perf_analyzer.Analyzer | str:
    try:
        return perf_analyzer.install(sys.stderr)
    except (harness.EnvironmentUnavailableError, OSError, subprocess.SubprocessError) as error:
        return str(error)


def analyzer() -> perf_analyzer.Analyzer:
    """Triton's load generator; the test is skipped where there can be none."""
    found = _analyzer()
    if isinstance(found, str):
        pytest.skip(f"there is no perf_analyzer: {found}")
    return found


def calls_of(python: Path, program: str, *arguments: str) -> Any:
    """What a program of this folder saw, run by the Python of an environment."""
    done = subprocess.run(
        [str(python), str(HERE / program), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=plain_environment(),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def plain_environment(**more: str) -> Mapping[str, str]:
    """Ours without what would lead another Python to our packages."""
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}
    return {**kept, **more}
