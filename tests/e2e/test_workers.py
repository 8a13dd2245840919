"""Real worker processes: how they die, what is then lost, where they run, what they leave."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pool_driver import (
    WAIT_S,
    BatchFailedError,
    Driver,
    Fifo,
    LoadFailedError,
    LostError,
    a_group,
    data_of,
    open_loop_library,
    python_spec,
    row,
    run,
    running_pool,
)

from headway import executors
from headway.core import Datatype, DeviceName, SlotClass, Tensor
from headway.executors import LaneSpec, WorkerPool, pool

LEFT, RIGHT = DeviceName("left"), DeviceName("right")
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module", autouse=True)
def _loop_library() -> None:
    open_loop_library()


def fds_of(pid: int | str) -> list[str]:
    """What a process holds open."""
    held = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.append(os.readlink(link))  # noqa: PTH115 (pipes are no paths)
        except FileNotFoundError:  # the listing's own
            continue
    return sorted(held)


def thread_count(pid: int) -> int:
    """How many threads a process has."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


async def keep_busy(driver: Driver, replica_id: int, slot: int, stop: asyncio.Event) -> int:
    """Run one batch after another; returns how many went down with their worker."""
    count = 0
    while not stop.is_set():
        count += 1
        try:
            await driver.infer(replica_id, row(count), slot=slot)
        except LostError:
            return 1
        except BatchFailedError as error:
            if error.code != "worker_lost":
                raise
            # The last result came with the death, so that this batch found no worker any more.
            return 1
    return 0


def test_killed_worker_loses_only_its_own_batches():
    """Under load, kill -9 of one worker is reported once; the other goes on; a load revives it."""

    async def scenario():
        async with running_pool(a_group(LEFT), a_group(RIGHT)) as driver:
            left = await driver.load(python_spec("Echo"), LEFT)
            also_left = await driver.load(python_spec("Echo"), LEFT)
            right = await driver.load(python_spec("Echo"), RIGHT)
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                doomed = [
                    group.create_task(keep_busy(driver, left.replica_id, slot, stop))
                    for slot in (0, 1)
                ]
                spared = group.create_task(keep_busy(driver, right.replica_id, 0, stop))
                while driver.finished_count < 100:
                    await driver.infer(right.replica_id, row(0), slot=1)
                os.kill(driver.pool.worker_pids()["left"], signal.SIGKILL)
                replica_ids, message = await driver.lost()
                await driver.infer(right.replica_id, row(0), slot=1)
                stop.set()
            assert set(replica_ids) == {left.replica_id, also_left.replica_id}
            assert "`left`" in message
            assert "SIGKILL" in message
            assert [task.result() for task in doomed] == [1, 1]
            assert spared.result() == 0
            assert len(driver.losses) == 1
            with pytest.raises(BatchFailedError) as caught:
                await driver.infer(left.replica_id, row(0))
            assert caught.value.code == "worker_lost"
            again = await driver.load(python_spec("Echo"), LEFT)
            assert data_of(await driver.infer(again.replica_id, row(4))) == data_of([row(4)])
            assert driver.pool.starts == {"left": 2, "right": 1}
            pids = driver.pool.worker_pids()
            assert driver.pool.workers() == {pids["left"]: "left", pids["right"]: "right"}

    run(scenario())


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("segfault", "(?s)killed with SIGSEGV.*Fatal Python error: Segmentation fault"),
        ("exit", "(?s)exited with code 3; its last output:.*giving up"),
        ("close", "SIGKILL by the server: it closed"),
    ],
)
def test_how_a_worker_died_is_told(how, message):
    """A crash, an exit and a closed connection each name themselves, with the last words."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python("Dies")
            batch = driver.begin(loaded.replica_id, row(1), parameters={"how": how})
            with pytest.raises(LostError, match=message):
                await driver.result(batch)
            assert len(driver.losses) == 1
            assert driver.pool.worker_pids() == {}

    run(scenario())


def test_death_while_loading_is_a_loss_of_all(tmp_path):
    """A worker that dies in a load takes the loading and the waiting replicas with it."""

    async def scenario():
        begun, go_on = Fifo(tmp_path / "begun"), Fifo(tmp_path / "go_on")
        async with running_pool() as driver:
            spec = python_spec("HangsInLoad", begun=begun.path, go_on=go_on.path)
            loading, waiting = driver.begin_load(spec), driver.begin_load(python_spec("Echo"))
            await begun.heard()
            os.kill(driver.pool.worker_pids()["cpu"], signal.SIGKILL)
            assert set((await driver.lost())[0]) == {loading, waiting}
            for replica_id in (loading, waiting):
                with pytest.raises(LoadFailedError):
                    await driver.loaded(replica_id)
        begun.close()
        go_on.close()

    run(scenario())


def test_hung_load_is_given_up_and_the_others_go_on(tmp_path):
    """Past its limit a load fails; the worker's models serve, and the next model loads."""

    async def scenario():
        begun, go_on = Fifo(tmp_path / "begun"), Fifo(tmp_path / "go_on")
        async with running_pool(load_ns_max=1_500_000_000) as driver:
            good = await driver.load_python("Echo")
            pids = driver.pool.worker_pids()
            spec = python_spec("HangsInLoad", begun=begun.path, go_on=go_on.path)
            hung = driver.begin_load(spec)
            await begun.heard()
            assert data_of(await driver.infer(good.replica_id, row(1))) == data_of([row(1)])
            with pytest.raises(LoadFailedError, match=r"longer than the limit of 1\.5s"):
                await driver.loaded(hung)
            other = await driver.load_python("Echo")
            go_on.tell()
            assert data_of(await driver.infer(other.replica_id, row(2))) == data_of([row(2)])
            with pytest.raises(BatchFailedError):
                await driver.infer(hung, row(1))
            assert driver.pool.worker_pids() == pids
        begun.close()
        go_on.close()

    run(scenario())


def test_unload_overtakes_a_load_that_has_not_begun(tmp_path):
    """A replica whose load still waits is unloaded without ever being loaded."""

    async def scenario():
        begun, go_on = Fifo(tmp_path / "begun"), Fifo(tmp_path / "go_on")
        async with running_pool() as driver:
            spec = python_spec("HangsInLoad", begun=begun.path, go_on=go_on.path)
            first, second = driver.begin_load(spec), driver.begin_load(python_spec("Echo"))
            await begun.heard()
            await driver.unload(second)
            go_on.tell()
            await driver.loaded(first)
        begun.close()
        go_on.close()

    run(scenario())


@pytest.mark.parametrize("name", ["Hangs", "HangsWithLock"])
def test_hung_batch_is_ended_by_replacing_its_worker(name, tmp_path):
    """`replace` kills a worker that hangs, even in code that never yields the interpreter."""

    async def scenario():
        begun = Fifo(tmp_path / "begun")
        async with running_pool() as driver:
            loaded = await driver.load_python(name, begun=begun.path)
            batch = driver.begin(loaded.replica_id, row(-1))
            await begun.heard()
            driver.pool.replace(loaded.replica_id)
            with pytest.raises(LostError, match="did not answer in time"):
                await driver.result(batch)
            again = await driver.load_python(name, begun=begun.path)
            assert data_of(await driver.infer(again.replica_id, row(1))) == data_of([row(1)])
        begun.close()

    run(scenario())


def test_stop_ends_a_hung_worker_after_the_grace(tmp_path):
    """A batch that hangs delays the end of the pool by the grace, and is reported."""

    async def scenario():
        begun = Fifo(tmp_path / "begun")
        async with running_pool(stop_grace_ns=100_000_000) as driver:
            loaded = await driver.load_python("HangsWithLock", begun=begun.path)
            batch = driver.begin(loaded.replica_id, row(-1))
            await begun.heard()
            await driver.pool.stop()
            with pytest.raises(BatchFailedError) as caught:
                await driver.result(batch)
            assert caught.value.code == "worker_lost"
            assert driver.losses == []
        begun.close()

    run(scenario())


ORPHAN = """
import asyncio, sys
from tests.pool_driver import python_spec, row, running_pool

async def main():
    async with running_pool() as driver:
        loaded = await driver.load(python_spec(sys.argv[1], begun=sys.argv[2]))
        print(driver.pool.worker_pids()["cpu"], flush=True)
        await driver.result(driver.begin(loaded.replica_id, row(-1)))

asyncio.run(main())
"""


def start_python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A program which finds headway and these tests."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )


@pytest.mark.parametrize("name", ["Hangs", "HangsWithLock"])
def test_worker_dies_with_its_parent(name, tmp_path):
    """A server that is killed leaves no worker, not even one stuck in native code."""

    async def scenario():
        begun = Fifo(tmp_path / "begun")
        parent = start_python(ORPHAN, name, begun.path)
        try:
            assert parent.stdout is not None
            worker = os.pidfd_open(int(parent.stdout.readline()))
            await begun.heard()
        finally:
            parent.kill()
            parent.wait()
            parent.stdout.close()
        assert select.select([worker], [], [], WAIT_S)[0] == [worker]
        os.close(worker)
        begun.close()

    run(scenario())


def test_slots_run_at_the_same_time():
    """Two batches of one model that wait for each other inside it both return."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python("Meets")
            batches = [driver.begin(loaded.replica_id, row(-1), slot=slot) for slot in (0, 1)]
            for batch in batches:
                assert data_of(await driver.result(batch)) == data_of([row(-1)])

    run(scenario())


LANES = (
    LaneSpec(cores=(0,), niceness_high=0, niceness_low=19),
    LaneSpec(niceness_high=3, niceness_low=7),
)


async def niceness_and_cores(driver, replica_id, slot, slot_class) -> tuple[int, bytes]:
    [[niceness, cores]] = await driver.infer(replica_id, row(1), slot=slot, slot_class=slot_class)
    return int.from_bytes(niceness.data[:8], "little"), cores.data[4:]


async def check_lanes() -> None:
    """Each slot's thread is where and as nice as it was asked to be, there and back again."""
    everywhere = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))).encode()
    async with running_pool(a_group(slots=LANES)) as driver:
        loaded = await driver.load_python("Lane")
        for slot, slot_class, expected in (
            (0, SlotClass.HIGH, (0, b"0")),
            (0, SlotClass.LOW, (19, b"0")),
            (0, SlotClass.HIGH, (0, b"0")),
            (1, SlotClass.LOW, (7, everywhere)),
            (1, SlotClass.HIGH, (3, everywhere)),
        ):
            seen = await niceness_and_cores(driver, loaded.replica_id, slot, slot_class)
            assert seen == expected


def test_lanes_are_pinned_and_nice():
    """A slot's thread has its cores, and the niceness of the class of each batch."""
    if 0 not in os.sched_getaffinity(0):
        pytest.skip("core 0 is not ours")
    run(check_lanes())


UNPRIVILEGED = """
import ctypes, os, resource
ctypes.CDLL(None).prctl(24, 23, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_NICE: no child has it
resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
from tests.e2e.test_workers import check_lanes
from tests.pool_driver import run
run(check_lanes())
"""


def test_lanes_are_nice_without_privilege():
    """Who may not become less nice again has a second thread for the low class."""
    if 0 not in os.sched_getaffinity(0):
        pytest.skip("core 0 is not ours")
    with start_python(UNPRIVILEGED) as process:
        output, _ = process.communicate(timeout=WAIT_S)
    assert (process.returncode, output) == (0, "")


def test_flood_of_output_blocks_nobody(caplog):
    """A model that prints megabytes finishes, and the other slot answers meanwhile."""

    async def scenario():
        async with running_pool() as driver:
            loaded = await driver.load_python("Floods")
            flood = driver.begin(loaded.replica_id, row(-1))
            assert data_of(await driver.infer(loaded.replica_id, row(1), slot=1)) == data_of(
                [row(1)]
            )
            assert data_of(await driver.result(flood)) == data_of([row(-1)])

    with caplog.at_level("INFO", "headway.worker"):
        run(scenario())
    assert any("more lines not logged" in message for message in caplog.messages)


def test_isolated_models_have_a_process_each():
    """Where isolation is asked for, a crash takes one model along, and an unload ends a process."""

    async def scenario():
        async with running_pool(a_group(is_isolated=True)) as driver:
            one, two = await driver.load_python("Dies"), await driver.load_python("Echo")
            assert len(driver.pool.worker_pids()) == 2
            assert sorted(driver.pool.workers().values()) == ["cpu/dies", "cpu/echo"]
            batch = driver.begin(one.replica_id, row(1), parameters={"how": "segfault"})
            with pytest.raises(LostError):
                await driver.result(batch)
            assert (await driver.lost())[0] == (one.replica_id,)
            assert data_of(await driver.infer(two.replica_id, row(1))) == data_of([row(1)])
            [pid] = driver.pool.worker_pids().values()
            exited = os.pidfd_open(pid)
            await driver.unload(two.replica_id)
            gone = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().add_reader(exited, gone.set_result, None)
            async with asyncio.timeout(WAIT_S):
                await gone
            asyncio.get_running_loop().remove_reader(exited)
            os.close(exited)
            assert len(driver.losses) == 1
            await driver.load_python("Dies")
            assert driver.pool.starts == {"cpu/dies": 2, "cpu/echo": 1}

    run(scenario())


def test_workers_that_are_counted_by_name_are_bounded(monkeypatch):
    """What is isolated under ever new names is counted as other in the end."""
    monkeypatch.setattr(pool, "_WORKERS_MAX", 1)

    async def scenario():
        async with running_pool(a_group(is_isolated=True)) as driver:
            for name in ("Echo", "Dies"):
                await driver.load_python(name)
            assert driver.pool.starts == {"cpu/echo": 1, "other": 1}

    run(scenario())


def test_fifty_loads_leave_nothing_behind():
    """After 50 loads and unloads both processes hold the files that they held after the first."""

    async def scenario():
        async with running_pool() as driver:
            held: list[tuple[list[str], list[str], int]] = []
            for _ in range(50):
                loaded = await driver.load_python("Echo", columns=1_000)
                x = Tensor("x", Datatype.FP32, (100, 1_000), bytes(400_000))
                await driver.infer(loaded.replica_id, [x])
                await driver.unload(loaded.replica_id)
                [pid] = driver.pool.worker_pids().values()
                held.append((fds_of("self"), fds_of(pid), thread_count(pid)))
            assert held[0] == held[-1]
            # Two slots, each with its own descriptor and the copy that Python's mmap makes.
            assert sum("memfd:headway-cpu" in name for name in held[-1][0]) == 4

    run(scenario())


def test_worker_imports_little():
    """A worker without ONNX models has no event loop, no web server and no ONNX Runtime in it."""
    script = (
        "import sys, headway.executors.worker, headway.executors.python_backend\n"
        "heavy = {'asyncio', 'pydantic', 'uvicorn', 'onnxruntime', 'logging', 'subprocess'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    with start_python(script) as process:
        output, _ = process.communicate(timeout=WAIT_S)
    assert (process.returncode, output) == (0, "\n")


def test_worker_that_cannot_start_fails_its_load(monkeypatch):
    """Where no process can be made, the load fails with the system's reason."""

    async def scenario():
        async with running_pool() as driver:
            with monkeypatch.context() as patch:
                patch.setattr(sys, "executable", "/nonexistent/python")
                with pytest.raises(LoadFailedError, match=r"cannot start: .*No such file"):
                    await driver.load_python("Echo")
            await driver.load_python("Echo")

    run(scenario())


def test_door_knows_the_pool_and_nothing_else():
    """`WorkerPool` comes through the door when asked for; a wrong name is refused as usual."""
    assert WorkerPool.__module__ == "headway.executors.pool"
    with pytest.raises(AttributeError, match="no attribute `Pool`"):
        _ = executors.Pool
