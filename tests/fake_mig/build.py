"""Builds the stand-in for NVIDIA's library in which MIG instances live, and the tools beside it.

A world is a text file, as `fake_mig.c` describes it. The library is found by its name, in this
process where it is loaded already, in others by the path that they search; `nvidia-smi` and
`nvidia-cuda-mps-control` are programs of the same names.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

HERE = Path(__file__).parent
COMPILER = shutil.which("cc")
LIBRARY = "libnvidia-ml.so.1"
KINDS: Mapping[str, int] = {
    "1_SLICE": 0,
    "2_SLICE": 1,
    "3_SLICE": 2,
    "4_SLICE": 3,
    "7_SLICE": 4,
    "1_SLICE_REV1": 7,
    "2_SLICE_REV1": 8,
    "1_SLICE_REV2": 9,
}
"""Of profiles, as `nvml.h` numbers them."""
TOOLS: Mapping[str, str] = {
    "nvidia-smi": "nvidia_smi.py",
    "nvidia-cuda-mps-control": "mps_control.py",
}


def build(folder: Path) -> Path:
    """Compile the library and put the tools beside it; returns the folder."""
    assert COMPILER is not None
    folder.mkdir(parents=True, exist_ok=True)
    command = [COMPILER, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    command.append(f"-Wl,-soname,{LIBRARY}")
    library = folder / LIBRARY
    subprocess.run([*command, "-o", str(library), str(HERE / "fake_mig.c")], check=True)
    for name, source in TOOLS.items():
        tool = folder / name
        tool.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / source} "$@"\n')
        tool.chmod(0o755)
    return folder


class World:
    """The file, and how processes are run that live in it.

    Args:
        folder: where the library and the tools are.
        path: of the file.
    """

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder = folder
        self.path = path

    def write(self, *lines: str) -> None:
        """Begin anew."""
        self.path.write_text("".join(f"{line}\n" for line in lines))

    def add(self, *lines: str) -> None:
        """Something more happens."""
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def remove(self, word: str) -> None:
        """Nothing of this kind any more: processes, failures."""
        lines = self.path.read_text().splitlines()
        self.write(*(line for line in lines if line.split()[0] != word))

    def lines(self, word: str) -> list[str]:
        """What there is of a kind, in order."""
        lines = self.path.read_text().splitlines()
        return sorted(line for line in lines if line.split()[0] == word)

    def instances(self) -> list[str]:
        """What exists, `0: 3g.40gb@4`, by GPU and place."""
        names = {}
        for line in self.lines("profile"):
            _, gpu, _, number, *_, name, _ = line.split()
            names[gpu, number] = name
        rows = [line.split() for line in self.lines("gi")]
        rows.sort(key=lambda row: (int(row[1]), int(row[4])))
        return [f"{gpu}: {names[gpu, number]}@{start}" for _, gpu, _, number, start, *_ in rows]

    def environment(self, **more: str) -> dict[str, str]:
        """What a process needs to live here."""
        root = HERE.parents[1]
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self._folder),
            "PATH": f"{self._folder}:{os.environ['PATH']}",
            "PYTHONPATH": f"{root / 'src'}:{root}",
            "FAKE_MIG": str(self.path),
            **more,
        }

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program here, and wait for it."""
        return subprocess.run(
            list(command),
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def python(self, program: str) -> str:
        """Run Python text here; returns what it printed."""
        done = self.run(sys.executable, "-W", "error", "-c", program)
        assert done.returncode == 0, done.stderr
        return done.stdout


def gpu_lines(
    index: int, product: str, *, mode: str = "0", needs_reset: bool = False
) -> Sequence[str]:
    """A GPU of the MIG table, with its profiles as NVML and `nvidia-smi` number them."""
    table = json.loads((files("headway.plan") / "mig_profiles.json").read_text())["gpus"][product]
    pending = 0 if mode == "-" else int(mode)
    total_mib = int(float(product.rpartition("-")[2].removesuffix("GB")) * 1024)
    slices = table["compute_slices"]
    lines = [f"gpu {index} {product} {total_mib} {slices} {mode} {pending} {int(needs_reset)}"]
    for profile in table["profiles"]:
        words = (
            *("profile", index, KINDS[profile["nvml_profile"]], profile["nvidia_smi_id"]),
            *(profile["compute_slices"], profile["max_instances"], profile["sm"]),
            *(int(profile["memory_gib"] * 1024), profile["placement_size"], profile["name"]),
            ",".join(map(str, profile["placement_starts"])),
        )
        lines.append(" ".join(map(str, words)))
    return lines
