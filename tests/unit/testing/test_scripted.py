"""The scripted executor by itself: its reports, their instants and their order."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.engine_rig import CPU, floats, values_of

from headway.core import BatchId, DeviceName, ReplicaId, SlotClass, SlotIndex
from headway.executors import BatchJob, ModelSpec
from headway.runtime import LoopClock
from headway.testing import ECHO_SIGNATURE, ScriptedError, ScriptedExecutor, run_virtual

SPEC = ModelSpec(name="echo", backend="python", path="scripted")
GPU = DeviceName("gpu")


class Reports:
    """A listener that writes everything down with its instant."""

    def __init__(self, clock):
        self.clock = clock
        self.lines = []
        self.replies = {}

    def _say(self, *words):
        self.lines.append((self.clock.now_ns(), *words))

    def on_loaded(self, replica_id, signature):
        self._say("loaded", replica_id)

    def on_warmed(self, replica_id):
        self._say("warmed", replica_id)

    def on_load_failed(self, replica_id, message):
        self._say("load failed", replica_id, message)

    def on_unloaded(self, replica_id):
        self._say("unloaded", replica_id)

    def on_finished(self, batch_id, replies, stages):
        self.replies[batch_id] = replies
        self._say("finished", batch_id, stages.execution_ns)

    def on_failed(self, batch_id, code, message):
        self._say("failed", batch_id, code, message)

    def on_lost(self, replica_ids, message):
        self._say("lost", replica_ids, message)


def play(script, **setup):
    """What is reported when `script` is played on an executor with replica 1 on its way."""

    async def main():
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop, loop.monotonic_ns)
        reports = Reports(clock)
        executor = ScriptedExecutor(clock, reports, **setup)
        executor.load(ReplicaId(1), SPEC, CPU)
        script(executor, clock)
        assert reports.lines == [], "nothing is reported from within a call"
        await asyncio.sleep(3_600)
        clock.close()
        return reports

    return run_virtual(main())


def a_job(batch_id=1, replica_id=1, *members):
    return BatchJob(
        batch_id=BatchId(batch_id),
        replica_id=ReplicaId(replica_id),
        slot=SlotIndex(0),
        slot_class=SlotClass.HIGH,
        members=members or [[floats("INPUT", [[1.0]])]],
        member_rows=[1] * max(1, len(members)),
    )


def test_load_takes_its_time():
    """Loaded, then warmed, at the scripted instant."""
    reports = play(lambda executor, clock: None, load_ns=5)
    assert reports.lines == [(5, "loaded", 1), (5, "warmed", 1)]


def test_load_may_fail():
    """A signature that raises is a load that failed."""

    def signature(spec):
        raise ValueError(f"no {spec.name}")

    reports = play(lambda executor, clock: None, signature=signature)
    assert reports.lines == [(0, "load failed", 1, "no echo")]


def test_members_get_their_own_tensors_back():
    """Each member's outputs are its inputs under the outputs' names, not copied."""
    mine, yours = [floats("INPUT", [[1.0]])], [floats("INPUT", [[2.0]])]

    def script(executor, clock):
        executor.run(a_job(1, 1, mine, yours))

    reports = play(script, service_ns=7)
    assert reports.lines[-1] == (7, "finished", 1, 7)
    assert [[(t.name, values_of(t)) for t in r] for r in reports.replies[1]] == [
        [("OUTPUT", [1.0])],
        [("OUTPUT", [2.0])],
    ]
    assert reports.replies[1][0][0].data is mine[0].data


def test_only_wanted_outputs_are_given():
    """As the job says."""

    def script(executor, clock):
        executor.run(replace(a_job(), outputs=("OTHER",)))

    assert play(script).replies[1] == [[]]


def test_batches_fail_hang_and_end_as_scripted():
    """A number is a time, None hangs, an error fails; a test may end a hung one itself."""

    def service_ns(job):
        if job.batch_id == 2:
            raise ScriptedError("scripted", code="out_of_memory")
        return None if job.batch_id == 3 else 5

    def script(executor, clock):
        for batch_id in (1, 2, 3):
            executor.run(a_job(batch_id))
        assert executor.running == [1, 2, 3]
        clock.call_at(9, lambda: executor.finish(BatchId(3)))
        executor.cancel(BatchId(3))
        assert executor.cancelled == [3]

    assert play(script, service_ns=service_ns).lines[2:] == [
        (0, "failed", 2, "out_of_memory", "scripted"),
        (5, "finished", 1, 5),
        (9, "finished", 3, 0),
    ]


def test_lost_worker_takes_its_replicas_and_batches_along():
    """One report names all replicas of the device; nothing of them is reported afterwards."""

    def script(executor, clock):
        executor.load(ReplicaId(2), SPEC, CPU)
        executor.load(ReplicaId(3), SPEC, GPU)
        executor.run(a_job(1, 1))
        executor.run(a_job(2, 3))
        clock.call_at(5, lambda: executor.lose(CPU, "gone"))

    assert play(script, service_ns=20, load_ns=10).lines == [
        (5, "lost", (1, 2), "gone"),
        (10, "loaded", 3),
        (10, "warmed", 3),
        (20, "finished", 2, 20),
    ]


def test_replaced_worker_is_lost():
    """Hung or not; where there is none, nothing happens."""

    def script(executor, clock):
        executor.run(a_job())
        executor.replace(ReplicaId(1))
        executor.replace(ReplicaId(99))

    assert play(script).lines == [(0, "lost", (1,), "hung batch")]


def test_batch_without_a_worker_fails():
    """As in the pool, and not within the call."""
    reports = play(lambda executor, clock: executor.run(a_job(1, 42)))
    assert reports.lines[-1] == (0, "failed", 1, "worker_lost", "replica 42 has no worker")


def test_unload_is_reported_whatever_was_there():
    """A load under way ends with it; an unknown replica is gone already."""

    def script(executor, clock):
        executor.unload(ReplicaId(1))
        executor.unload(ReplicaId(42))

    assert play(script, load_ns=10).lines == [(0, "unloaded", 1), (0, "unloaded", 42)]


@pytest.mark.parametrize("seed", range(3))
def test_ties_are_reported_in_the_order_of_their_causes(seed):
    """Ten batches of one length end in the order in which they were given."""
    order = [1 + (7 * seed + 3 * i) % 10 for i in range(10)]

    def script(executor, clock):
        for batch_id in order:
            executor.run(a_job(batch_id))

    assert [line[2] for line in play(script).lines[2:]] == order
    assert ECHO_SIGNATURE.can_batch
