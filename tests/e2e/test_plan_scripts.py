"""Scripts that `headway plan emit` writes: run by a shell, they do what the plan says.

`nvidia-smi` and MPS are stand-ins over the same library that `headway plan diff` then asks, so both
must agree on what a place, a mode and a daemon are.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fake_mig.build import World, gpu_lines
from tests.fake_mig.fixtures import mig_library, needs_library, world
from tests.sharing_plans import (
    a_cut_device,
    a_device,
    a_plan,
    a_seat,
    an_instance,
    an_mps_seat,
    plan_text,
)

from headway.cli import EXIT_MISSED, EXIT_OK, main
from headway.plan import SharingMode, SharingPlan
from headway.rollout import FORMATS, EmitOptions

__all__ = ["mig_library", "world"]  # fixtures, which pytest finds by name

pytestmark = needs_library

# Where this environment has them, whether it is on the path or not.
TOOLS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
SHELLCHECK = shutil.which("shellcheck", path=TOOLS)
ANSIBLE = shutil.which("ansible-playbook", path=TOOLS)
SEATS = (an_mps_seat("a", 60, 9), an_mps_seat("b", 50, 8))
MORE = (an_mps_seat("a", 60, 9, replica=1), an_mps_seat("b", 50, 8, replica=1))
PLAN = a_plan(
    a_cut_device(
        an_instance("3g.40gb@0", a_seat()),
        an_instance("2g.20gb@4", *SEATS, inside=SharingMode.MPS),
        must_be_idle=["4g.40gb@0"],
    ),
    a_device(*MORE, inside=SharingMode.MPS, index=1, must_be_idle=["node1/gpu:1", "1g.10gb@3"]),
)
TODAY = (
    *gpu_lines(0, "A100-80GB", mode="1"),
    *("gi 0 1 5 0 4 1", "ci 0 1 0 4"),
    *gpu_lines(1, "A100-80GB", mode="1"),
    *("gi 1 1 19 3 1 2", "ci 1 1 0 1"),
    "next 3",
)
WANTED = ["0: 3g.40gb@0", "0: 2g.20gb@4"]


def emitted(world: World, plan: SharingPlan, *formats: str) -> Path:
    """The files of some formats, and the plan, in one folder."""
    folder = world.path.parent
    for name in formats:
        options = EmitOptions(state_folder=str(folder / "state"))
        for file in FORMATS[name].emit(plan, options).files:
            (folder / file.name).write_text(file.text)
    (folder / "plan.json").write_text(plan_text(plan))
    return folder


def bash(world: World, path: Path) -> subprocess.CompletedProcess[str]:
    return world.run("bash", str(path))


def difference(folder: Path) -> int:
    """How `headway plan diff` ends."""
    return main(
        ["plan", "diff", str(folder / "plan.json"), "--state-folder", str(folder / "state")]
    )


def test_scripts_lead_to_what_diff_calls_the_plan(world: World) -> None:
    """And again: what is there stays as it is, with the same UUIDs and daemons."""
    folder = emitted(world, PLAN, "nvidia-smi", "mps")
    world.write(*TODAY)
    for _ in range(2):
        done = bash(world, folder / "node1-mig.sh")
        assert done.returncode == 0, done.stderr
        done = bash(world, folder / "node1-mps-start.sh")
        assert done.returncode == 0, done.stderr
        assert world.instances() == WANTED
    assert difference(folder) == EXIT_OK
    stopped = bash(world, folder / "node1-mps-stop.sh")
    assert stopped.returncode == 0, stopped.stderr
    assert difference(folder) == EXIT_MISSED
    assert bash(world, folder / "node1-mps-stop.sh").returncode == 0


def test_script_stops_where_a_process_runs(world: World) -> None:
    """`nvidia-smi` refuses, and nothing after it is tried."""
    folder = emitted(world, PLAN, "nvidia-smi")
    world.write(*TODAY, "proc 0 4711 1")
    done = bash(world, folder / "node1-mig.sh")
    assert done.returncode != 0
    assert world.instances() == ["0: 4g.40gb@0", "1: 1g.10gb@3"]


def test_script_says_when_a_reset_is_due(world: World) -> None:
    """A mode that waits for a reset is not the mode."""
    plan = a_plan(a_cut_device(an_instance("3g.40gb@0", a_seat())))
    folder = emitted(world, plan, "nvidia-smi")
    world.write(*gpu_lines(0, "A100-80GB", needs_reset=True))
    done = bash(world, folder / "node1-mig.sh")
    assert done.returncode == 1
    assert "GPU 0: reset it, then run this again" in done.stderr


def test_daemon_that_was_planned_otherwise_is_not_taken_for_this_one(world: World) -> None:
    """Its clients have other limits: it has to be stopped first."""
    world.write(*gpu_lines(0, "A100-80GB"))
    folder = emitted(world, a_plan(a_device(*SEATS, inside=SharingMode.MPS)), "mps")
    assert bash(world, folder / "node1-mps-start.sh").returncode == 0
    others = (an_mps_seat("a", 30, 9), an_mps_seat("b", 20, 8))
    emitted(world, a_plan(a_device(*others, inside=SharingMode.MPS)), "mps")
    done = bash(world, folder / "node1-mps-start.sh")
    assert done.returncode == 1
    assert "was planned otherwise; stop it first" in done.stderr


def test_daemon_of_an_instance_that_is_not_there_is_not_started(world: World) -> None:
    """Nor for another one."""
    world.write(*gpu_lines(0, "A100-80GB", mode="1"))
    piece = an_instance("2g.20gb@4", *SEATS, inside=SharingMode.MPS)
    folder = emitted(world, a_plan(a_cut_device(piece)), "mps")
    done = bash(world, folder / "node1-mps-start.sh")
    assert done.returncode != 0
    assert "has no instance at 4" in done.stderr
    assert not list(folder.rglob("pipe/control"))


@pytest.mark.skipif(SHELLCHECK is None, reason="needs shellcheck")
@pytest.mark.parametrize("name", ["nvidia-smi", "mps", "gpu-operator", "kueue", "device-plugin"])
def test_scripts_have_nothing_that_shellcheck_warns_of(tmp_path: Path, name: str) -> None:
    """Quoting, unset names, ignored failures."""
    for file in FORMATS[name].emit(PLAN, EmitOptions()).files:
        if file.name.endswith(".sh"):
            path = tmp_path / file.name
            path.write_text(file.text)
            done = subprocess.run([SHELLCHECK, str(path)], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout


@pytest.mark.skipif(ANSIBLE is None, reason="needs ansible-core")
def test_playbook_cuts_a_machine_and_changes_nothing_the_second_time(world: World) -> None:
    """As Ansible itself runs it, on this machine in place of the plan's node."""
    plan = a_plan(PLAN.devices[0])
    folder = emitted(world, plan, "ansible")
    world.write(*TODAY)
    command = [ANSIBLE, "-i", "node1,", "-c", "local", "-e", "ansible_become=false"]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    first = world.run(*command, str(folder / "playbook.yaml"), HOME=os.environ.get("HOME", "/tmp"))
    assert first.returncode == 0, first.stdout + first.stderr
    assert "changed=0" not in first.stdout
    assert [one for one in world.instances() if one.startswith("0:")] == WANTED
    second = world.run(*command, str(folder / "playbook.yaml"))
    assert second.returncode == 0, second.stdout
    assert "changed=0" in second.stdout
