"""MIG through NVML: instances are made, found and unmade by the unmodified binding.

Against a library of our own in which they live as the driver's rules have it.
"""

import pytest
from msgspec.structs import asdict
from tests.fake_mig.build import World, gpu_lines
from tests.fake_mig.fixtures import mig_library, needs_library, world

from headway.devices import MigGpu, MigPlacement, open_mig
from headway.errors import HeadwayError

__all__ = ["mig_library", "world"]  # fixtures, which pytest finds by name

pytestmark = needs_library

A100 = "A100-80GB"
TWO_IN_IT = ("gi 0 5 9 0 4 1", "ci 0 5 0 1", "ci 0 5 1 2")
A_2G = ("gi 0 1 14 0 2 1", "ci 0 1 0 2")


def the_gpu() -> MigGpu:
    with open_mig() as driver:
        return driver.gpu(0)


def test_gpu_tells_its_profiles_with_names_places_and_what_is_left(world: World) -> None:
    """Names as `nvidia-smi` has them; sizes of the grid, not of the compute slices."""
    world.write(*gpu_lines(0, A100, mode="1"))
    by_name = {profile.name: profile for profile in the_gpu().profiles or ()}
    assert sorted(by_name) == [
        *("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
    ]
    found = by_name["3g.40gb"]
    assert (found.id, found.slices, found.sm_count, found.instances_max) == (9, 3, 42, 2)
    assert found.placements == (MigPlacement(0, 4), MigPlacement(4, 4))
    assert found.remaining == 2


def test_instance_is_made_at_its_place_and_found_there(world: World) -> None:
    """With one MIG device in it, by whose UUID a process is put there."""
    world.write(*gpu_lines(0, A100, mode="1"))
    with open_mig() as driver:
        made = driver.create(0, "3g.40gb", 4)
    assert (made,) == the_gpu().instances
    assert (made.profile, made.placement, made.pids) == ("3g.40gb", MigPlacement(4, 4), ())
    assert made.uuids is not None
    assert [uuid.startswith("MIG-") for uuid in made.uuids] == [True]
    assert world.instances() == ["0: 3g.40gb@4"]


def test_destroyed_instance_is_gone_with_all_that_was_in_it(world: World) -> None:
    """The compute instances first, which the driver demands; also where there are two."""
    world.write(*gpu_lines(0, A100, mode="1"), *TWO_IN_IT)
    (before,) = the_gpu().instances or ()
    assert len(before.uuids or ()) == 2
    with open_mig() as driver:
        driver.destroy(0, 5)
    assert the_gpu().instances == ()
    assert world.lines("ci") == []


def test_instance_that_cannot_be_filled_is_not_left_behind(world: World) -> None:
    """A GPU instance without a compute instance serves nobody and blocks its cells."""
    world.write(*gpu_lines(0, A100, mode="1"), "fail nvmlGpuInstanceCreateComputeInstance 23")
    with open_mig() as driver, pytest.raises(HeadwayError, match="could not be made at `0` of GPU"):
        driver.create(0, "3g.40gb", 0)
    world.write(
        *gpu_lines(0, A100, mode="1"), "fail nvmlGpuInstanceGetComputeInstanceProfileInfo 3"
    )
    with open_mig() as driver, pytest.raises(HeadwayError, match="no compute instance of `3`"):
        driver.create(0, "3g.40gb", 0)
    assert world.instances() == []


@pytest.mark.parametrize(
    ("profile", "start", "words"),
    [
        ("3g.40gb", 0, "another instance is in the way"),
        ("9g.90gb", 0, "GPU `0` has no MIG profile `9g.90gb` (hint: it offers `1g.10gb`"),
        ("3g.40gb", 2, "could not be made at `2`"),
    ],
)
def test_instance_that_cannot_be_is_refused_with_what_to_do(
    world: World, profile: str, start: int, words: str
) -> None:
    """And nothing has changed."""
    world.write(*gpu_lines(0, A100, mode="1"), *A_2G)
    with open_mig() as driver, pytest.raises(HeadwayError) as caught:
        driver.create(0, profile, start)
    assert words in str(caught.value)
    assert world.instances() == ["0: 2g.20gb@0"]


def test_instance_in_use_is_not_destroyed(world: World) -> None:
    """The driver refuses, and the hint says why."""
    world.write(*gpu_lines(0, A100, mode="1"), *A_2G, "proc 0 4711 1")
    assert [one.pids for one in the_gpu().instances or ()] == [(4711,)]
    with open_mig() as driver, pytest.raises(HeadwayError) as caught:
        driver.destroy(0, 1)
    assert caught.value.hint == "a process still uses it: end it and try again"
    assert world.lines("ci") == ["ci 0 1 0 2"]


def test_user_who_may_not_is_told_to_be_root(world: World) -> None:
    """Of an error that nobody foresaw only what the driver says is told."""
    world.write(*gpu_lines(0, A100, mode="1"), *A_2G, "fail nvmlComputeInstanceDestroy 4")
    with open_mig() as driver:
        with pytest.raises(HeadwayError) as caught:
            driver.destroy(0, 1)
        assert caught.value.hint == "run it as root"
        world.remove("fail")
        world.add("fail nvmlComputeInstanceDestroy 999")
        with pytest.raises(HeadwayError) as caught:
            driver.destroy(0, 1)
        assert caught.value.hint is None


def test_process_of_unknown_instance_could_be_in_any(world: World) -> None:
    """So none of them is free to be destroyed."""
    world.write(
        *gpu_lines(0, A100, mode="1"),
        *("gi 0 1 14 0 2 1", "gi 0 2 14 2 2 2", "proc 0 4711 ?", "proc 0 12 2"),
    )
    assert [one.pids for one in the_gpu().instances or ()] == [(4711,), (12, 4711)]


def test_processes_that_nobody_may_see_are_unknown_and_not_none(world: World) -> None:
    """Unknown is unknown, never 0; the same of UUIDs."""
    world.write(
        *gpu_lines(0, A100, mode="1"),
        *A_2G,
        "fail nvmlDeviceGetComputeRunningProcesses 4",
        "fail nvmlDeviceGetMaxMigDeviceCount 13",
    )
    gpu = the_gpu()
    assert gpu.pids is None
    assert [(one.pids, one.uuids) for one in gpu.instances or ()] == [(None, None)]


def test_places_that_the_driver_does_not_tell_are_unknown(world: World) -> None:
    """An instance is then as large as it has slices."""
    world.write(*gpu_lines(0, A100, mode="1"), "fail nvmlDeviceGetGpuInstancePossiblePlacements 13")
    assert {one.placements for one in the_gpu().profiles or ()} == {None}
    with open_mig() as driver:
        assert driver.create(0, "2g.20gb", 2).placement == MigPlacement(2, 2)


def test_mode_is_switched_at_once_or_waits_for_a_reset(world: World) -> None:
    """As Hopper does, and as Ampere does; a GPU without MIG says nothing of a mode."""
    world.write(
        *gpu_lines(0, "H100-SXM5-80GB"),
        *gpu_lines(1, A100, needs_reset=True),
        *gpu_lines(2, A100, mode="-"),
    )
    with open_mig() as driver:
        assert driver.set_mode(0, on=True)
        assert not driver.set_mode(1, on=True)
        modes = [(gpu.has_mig, gpu.will_have_mig) for gpu in driver.gpus()]
        assert modes == [(True, None), (False, True), (None, None)]
        with pytest.raises(HeadwayError) as caught:
            driver.set_mode(2, on=True)
        assert caught.value.hint == "this GPU or its mode has no MIG instances"


def test_driver_without_names_of_profiles_has_them_worked_out(world: World) -> None:
    """Before the second form of the call a profile was only numbers."""
    for product in (A100, "A100-40GB", "A30-24GB", "H100-SXM5-80GB", "H200-141GB"):
        lines = gpu_lines(0, product, mode="1")
        world.write(*lines, "old")
        found = sorted(profile.name for profile in the_gpu().profiles or ())
        assert sorted(line.split()[-2] for line in lines[1:]) == found


def test_gpu_that_fell_off_the_bus_is_there_with_its_trouble(world: World) -> None:
    """Nothing else is said of it."""
    world.write(*gpu_lines(0, A100), "fail nvmlDeviceGetHandleByIndex 15")
    with open_mig() as driver:
        (gpu,) = driver.gpus()
    assert {key for key, value in asdict(gpu).items() if value is not None} == {"index", "trouble"}


def test_machine_without_a_driver_says_so(world: World) -> None:
    """Nothing is made of an answer that never came."""
    world.write("fail nvmlInit 9")
    with pytest.raises(HeadwayError, match="the NVIDIA driver does not answer"), open_mig():
        pass


def test_other_process_sees_the_same_machine(world: World) -> None:
    """By the path that it searches for libraries: what a script does, `headway` finds."""
    world.write(*gpu_lines(0, A100, mode="1"))
    done = world.run("nvidia-smi", "mig", "-i", "0", "-cgi", "3g.40gb:4", "-C")
    assert done.returncode == 0, done.stderr
    assert [one.profile for one in the_gpu().instances or ()] == ["3g.40gb"]
