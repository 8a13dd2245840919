"""`headway plan apply` and `diff` on a machine: through NVML and to MPS daemons, to the end.

The machine is a library and a daemon of our own, with the driver's rules; everything above is real.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

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

from headway.cli import EXIT_FAILED, EXIT_MISSED, EXIT_OK, main
from headway.plan import SharingMode

__all__ = ["mig_library", "world"]  # fixtures, which pytest finds by name

pytestmark = needs_library

SEATS = (an_mps_seat("a", 60, 9), an_mps_seat("b", 50, 8))
MORE = (an_mps_seat("a", 60, 9, replica=1), an_mps_seat("b", 50, 8, replica=1))
PLAN = a_plan(
    a_cut_device(
        an_instance("3g.40gb@0", a_seat()),
        an_instance("2g.20gb@4", *SEATS, inside=SharingMode.MPS),
    ),
    a_device(*MORE, inside=SharingMode.MPS, index=1),
)
TWO = (*gpu_lines(0, "A100-80GB"), *gpu_lines(1, "A100-80GB"))


class Done(NamedTuple):
    """What came of a command line."""

    returncode: int
    stdout: str
    stderr: str


Headway = Callable[..., Done]


@pytest.fixture
def headway(world: World, capsys: pytest.CaptureFixture[str]) -> Headway:
    """A verb of `headway plan` with the plan, on this machine."""
    folder = world.path.parent

    def run(verb: str, *flags: str) -> Done:
        path = folder / "plan.json"
        if not path.exists():
            path.write_text(plan_text(PLAN))
        state = ("--state-folder", str(folder / "state"))
        returncode = main(["plan", verb, str(path), *flags, *state])
        return Done(returncode, *capsys.readouterr())

    return run


def told(world: World, daemon: str) -> list[str]:
    path = world.path.parent / "state" / daemon / "pipe" / "told"
    return path.read_text().splitlines() if path.exists() else []


def test_plan_is_applied_and_nothing_is_left_to_do(world: World, headway: Headway) -> None:
    """Instances at their places, daemons with their limits; then nothing is left to do."""
    world.write(*TWO)
    before = headway("diff")
    assert before.returncode == EXIT_MISSED
    assert "5 steps away from the plan" in before.stderr
    done = headway("apply")
    assert done.returncode == EXIT_OK, done.stderr
    first, speech, *clients = done.stdout.splitlines()
    assert first == "node1: 5 steps done"
    uuid = speech.removeprefix("speech (GPU 0, 3g.40gb at 0): CUDA_VISIBLE_DEVICES=")
    assert uuid.startswith("MIG-0000")
    pipe = world.path.parent / "state" / "gpu0-at-4" / "pipe"
    assert f"a (GPU 0, 2g.20gb at 4): CUDA_MPS_PIPE_DIRECTORY={pipe} " in clients[0]
    assert world.instances() == ["0: 3g.40gb@0", "0: 2g.20gb@4"]
    assert told(world, "gpu1") == [
        "1: set_default_active_thread_percentage 60",
        "1: set_default_device_pinned_mem_limit 0 9216M",
    ]
    assert told(world, "gpu0-at-4")[0].startswith("MIG-00000000-0000-0000-0000-")
    after = headway("diff")
    assert after.returncode == EXIT_OK, after.stdout
    again = headway("apply")
    assert again.stdout.splitlines()[0] == "node1: is as planned already"
    assert again.stdout.splitlines()[1:] == [speech, *clients]


def test_dry_run_says_the_same_steps_and_does_none(world: World, headway: Headway) -> None:
    """With `--node` of this machine as it is now."""
    world.write(*TWO, "fail nvmlDeviceSetMigMode 999")
    done = headway("apply", "--dry-run", "--node", "node1", "--format", "json")
    assert done.returncode == EXIT_OK, done.stderr
    steps = json.loads(done.stdout)["node1"]["steps"]
    assert [step["words"].partition(":")[0] for step in steps] == [
        *("GPU 0", "GPU 0", "GPU 0", "gpu0-at-4", "gpu1")
    ]
    assert world.instances() == []


def test_process_in_the_way_is_a_refusal_and_nothing_changes(
    world: World, headway: Headway
) -> None:
    """Whoever it is has to be stopped by a person."""
    world.write(*TWO, "proc 0 4711 ?")
    before = world.path.read_text()
    done = headway("apply")
    assert done.returncode == EXIT_FAILED
    assert "GPU 0, whose MIG mode is to change, is used by process 4711" in done.stderr
    assert "hint: stop what runs there" in done.stderr
    assert world.path.read_text() == before
    assert "in the way: GPU 0" in headway("diff").stderr


@pytest.mark.parametrize(
    "failure",
    [
        "nvmlDeviceCreateGpuInstanceWithPlacement 23",
        "nvmlGpuInstanceCreateComputeInstance 999",
    ],
)
def test_failure_leaves_the_machine_as_it_was(world: World, headway: Headway, failure: str) -> None:
    """What was destroyed is made again, what was switched is switched back."""
    world.write(*TWO, f"fail {failure}")
    done = headway("apply")
    assert done.returncode == EXIT_FAILED
    assert "what was done before was taken back" in done.stderr
    assert world.instances() == []
    assert [line.split()[5] for line in world.lines("gpu")] == ["0", "0"]


def test_daemon_that_does_not_start_takes_the_instances_back(
    world: World, headway: Headway
) -> None:
    """An instance alone, for clients that nobody limits, is not what was planned."""
    world.write(*TWO)
    pipe = world.path.parent / "state" / "gpu1" / "pipe"
    pipe.mkdir(parents=True)
    (pipe / "control").write_text("")  # a daemon of somebody else that does not answer
    done = headway("apply")
    (pipe / "control").unlink()
    assert done.returncode == EXIT_FAILED
    assert "`nvidia-cuda-mps-control` did not start for `1`" in done.stderr
    assert world.instances() == []
    assert not (world.path.parent / "state" / "gpu0-at-4" / "pipe" / "control").exists()


def test_mode_that_wants_a_reset_is_not_left_waiting_for_one(
    world: World, headway: Headway
) -> None:
    """It is said what to type, and the next reset will change nothing by surprise."""
    world.write(*gpu_lines(0, "A100-80GB", needs_reset=True), *gpu_lines(1, "A100-80GB"))
    done = headway("apply")
    assert done.returncode == EXIT_FAILED
    assert "MIG mode of GPU `0` changes only with a reset" in done.stderr
    assert "--gpu-reset" in done.stderr
    assert [line.split()[5:7] for line in world.lines("gpu")] == [["0", "0"], ["0", "0"]]


def test_daemon_with_clients_keeps_its_limits(world: World, headway: Headway) -> None:
    """Its clients would have to start again; without any it is started with the new ones."""
    world.write(*TWO)
    assert headway("apply").returncode == EXIT_OK
    other = a_plan(PLAN.devices[0], a_device(*MORE[:1], a_seat("c"), index=1))
    folder = world.path.parent
    from msgspec.structs import replace

    shared = replace(other.devices[1].slices[0], inside=SharingMode.MPS)
    device = replace(other.devices[1], mode=SharingMode.MPS, slices=(shared,))
    (folder / "plan.json").write_text(plan_text(a_plan(PLAN.devices[0], device)))
    servers = folder / "state" / "gpu1" / "pipe" / "servers"
    servers.write_text("999999 4711\n")
    refused = headway("apply")
    assert refused.returncode == EXIT_FAILED
    assert "the MPS daemon `gpu1` is used by process 4711" in refused.stderr
    servers.unlink()
    done = headway("apply")
    assert done.returncode == EXIT_OK, done.stderr
    assert done.stdout.startswith("node1: 2 steps done\n")
    assert headway("diff").returncode == EXIT_OK


def test_two_at_once_do_not_meet(world: World, headway: Headway) -> None:
    """The second is told to wait."""
    import fcntl

    world.write(*TWO)
    state = world.path.parent / "state"
    state.mkdir()
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = headway("apply")
    assert done.returncode == EXIT_FAILED
    assert "another process changes this machine" in done.stderr


def test_state_folder_that_cannot_be_written_is_said_before_anything_is_done(
    world: World, headway: Headway
) -> None:
    """A daemon without a folder would fail after the instances were made."""
    world.write(*TWO)
    (world.path.parent / "state").write_text("a file")
    done = headway("apply")
    assert done.returncode == EXIT_FAILED
    assert "cannot write below" in done.stderr
    assert world.instances() == []


def test_machine_without_a_driver_is_told_of(
    world: World, headway: Headway, tmp_path: Path
) -> None:
    """`apply` and `diff` need one; a dry run goes by what the plan takes for today."""
    world.write(*TWO, "fail nvmlInit 9")
    assert "the NVIDIA driver does not answer" in headway("apply").stderr
    assert headway("diff").returncode == EXIT_FAILED
    done = headway("apply", "--dry-run", "--node", "node1")
    assert done.returncode == EXIT_OK
    assert "this machine cannot be asked" in done.stderr
    assert "nvidia-smi mig -i 0 -cgi 3g.40gb:0 -C" in done.stdout


def test_what_could_not_be_taken_back_is_listed(world: World, headway: Headway) -> None:
    """A person has to look after it; the rest is as it was."""
    world.write(
        *TWO,
        "fail nvmlGpuInstanceDestroy 999",
        "fail nvmlGpuInstanceCreateComputeInstance 999",
    )
    done = headway("apply")
    assert done.returncode == EXIT_FAILED
    assert "not all of what was done before could be taken back" in done.stderr
    assert "not taken back: GPU 0: MIG mode on" in done.stderr


def test_json_tells_what_was_done_and_what_servers_are_started_with(
    world: World, headway: Headway
) -> None:
    """For whoever starts them; and how today compares."""
    world.write(*TWO)
    done = json.loads(headway("apply", "--format", "json").stdout)
    assert done["node"] == "node1"
    assert len(done["done"]) == 5
    assert [server["models"] for server in done["servers"]] == [
        *(["speech"], ["a"], ["b"], ["a"], ["b"])
    ]
    assert all(server["is_known"] for server in done["servers"])
    rows = json.loads(headway("diff", "--format", "json").stdout)["rows"]
    assert {row["standing"] for row in rows} == {"as planned"}
