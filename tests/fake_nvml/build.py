"""Builds the stand-in for NVIDIA's management library, and runs programs that find it.

A scenario is a mapping from keys to values as `fake_nvml.c` lists them; `scenarios/` has those of
whole machines as JSON, a device an object. Their values are made up: they are what such devices
could say, and none was measured. Programs are run in a process of their own, for a library is found
when a process first asks for it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent / "fake_nvml.c"
SCENARIOS = Path(__file__).parent / "scenarios"
COMPILER = shutil.which("cc")
LIBRARY = "libnvidia-ml.so.1"
Scenario = Mapping[str, str | int | float]


def build_library(folder: Path, *, without_v2: bool = False) -> Path:
    """Compile it; returns the folder that is to be looked in.

    Args:
        folder: where to put it.
        without_v2: as older drivers have it, some newer calls missing.
    """
    assert COMPILER is not None
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["-DWITHOUT_V2"] if without_v2 else []
    warnings = ["-Wall", "-Werror", "-Wno-format-truncation"]  # keys are short
    command = [COMPILER, "-shared", "-fPIC", *warnings, *flags]
    subprocess.run([*command, "-o", str(folder / LIBRARY), str(SOURCE)], check=True)
    return folder


def load_scenario(name: str) -> dict[str, str | int | float]:
    """One of `scenarios/`, its keys as the library looks for them."""
    devices = json.loads((SCENARIOS / f"{name}.json").read_text())["devices"]
    said = dict(_flat({str(number): device for number, device in enumerate(devices)}))
    return {"count": len(devices), **said}


def _flat(said: Mapping[str, Any]) -> Iterator[tuple[str, str | int | float]]:
    """Nested objects become keys with dots."""
    for key, value in said.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", leaf) for inner, leaf in _flat(value))
        else:
            yield key, value


def write_scenario(path: Path, scenario: Scenario) -> None:
    """Say what the devices say from now on."""
    lines = "".join(f"{key} {value}\n" for key, value in scenario.items())
    fresh = path.with_suffix(".new")
    fresh.write_text(lines)
    fresh.replace(path)  # at once: it is read while others write


def environment(library: Path | None, scenario: Path) -> dict[str, str]:
    """What a process needs to find the library, or, with None, a folder without one."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(library or scenario.parent),
        "FAKE_NVML": str(scenario),
    }


def run_with(library: Path | None, scenario: Path, program: str) -> str:
    """Run Python text beside the library; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment(library, scenario),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
