"""The emulated executor on a virtual loop: reports, times, zeros, losses."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.engine_rig import Rig as EngineRig
from tests.engine_rig import a_plan

from headway.core import (
    BatchFinished,
    BatchId,
    Datatype,
    DeviceName,
    DeviceParams,
    Kernel,
    KernelParams,
    ModelName,
    ReplicaId,
    SlotClass,
    SlotIndex,
    Tensor,
)
from headway.devices import EmulatedMachine, EmulatedModel, accelerator
from headway.executors import (
    BatchJob,
    EmulatedExecutor,
    ModelSpec,
    TensorSpec,
    emulated_demand,
)
from headway.policy import fifo
from headway.runtime import LoopClock
from headway.sim import EmulatedDevices, World, record_into
from headway.testing import MeanPredictor, a_request, run_virtual

MS = 1_000_000
D0, D1 = DeviceName("emulated:0"), DeviceName("emulated:1")
INPUTS = (TensorSpec(name="x", datatype=Datatype.UINT8, shape=(-1, 1000)),)
OUTPUTS = (
    TensorSpec(name="y", datatype=Datatype.FP32, shape=(-1, 3)),
    TensorSpec(name="words", datatype=Datatype.BYTES, shape=(-1, -1)),
)


class Reports:
    """An `ExecutorListener` that keeps what it is told, and when."""

    def __init__(self):
        self.told = []
        self.clock = None

    def __getattr__(self, name):
        def note(*values):
            self.told.append((self.clock.now_ns(), name.removeprefix("on_"), *values))

        return note

    def of(self, kind):
        """Reports of one kind."""
        return [told for told in self.told if told[1] == kind]


class Rig:
    """An executor on the small machine, and what it reports."""

    def __init__(self, **setup):
        loop = asyncio.get_running_loop()
        self.reports = Reports()
        self.clock = self.reports.clock = LoopClock(loop, loop.monotonic_ns)
        machine = EmulatedMachine(accelerator("small"), (), (D0, D1), 1)
        self.executor = EmulatedExecutor(machine, self.clock, self.reports, **setup)

    def load(self, replica_id=1, device=D0, **changes):
        """A model of 2 ms."""
        fields = {
            "name": "m",
            "backend": "emulated",
            "path": "",
            "options": {"solo": "2ms", "row": "1ms"},
            "inputs": INPUTS,
            "outputs": OUTPUTS,
        } | changes
        self.executor.load(ReplicaId(replica_id), ModelSpec(**fields), device)

    def run(self, batch_id, rows=(1,), replica_id=1, outputs=()):
        """A batch of members with so many rows."""
        self.executor.run(
            BatchJob(
                batch_id=BatchId(batch_id),
                replica_id=ReplicaId(replica_id),
                slot=SlotIndex(0),
                slot_class=SlotClass.HIGH,
                members=[[Tensor("x", Datatype.UINT8, (n, 1000), bytes(n * 1000))] for n in rows],
                member_rows=rows,
                outputs=outputs,
            )
        )


def played(play, **setup):
    """Reports of what a function does to a rig, long after; nothing is told from within a call."""

    async def main():
        rig = Rig(**setup)
        await rig.executor.start()
        play(rig)
        assert rig.reports.told == []
        await asyncio.sleep(10)
        return rig.reports

    return run_virtual(main())


def test_load_is_reported_with_what_the_model_declares():
    """The platform says that it is emulated; the load takes its time."""
    reports = played(lambda rig: rig.load(), load_ns=5 * MS)
    (at_ns, _, replica_id, signature), warmed = reports.told
    assert (at_ns, replica_id, signature.platform) == (5 * MS, 1, "emulated")
    assert signature.can_batch
    assert warmed == (5 * MS, "warmed", 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"outputs": ()}, "declare its inputs and outputs"),
        ({"options": {}}, "solo"),
        ({"device": DeviceName("cpu")}, "no device `cpu`"),
    ],
)
def test_load_that_cannot_be_emulated_fails(changes, says):
    """Without tensors, times or a device there is nothing to emulate."""
    reports = played(lambda rig: rig.load(**changes))
    ((_, kind, replica_id, message),) = reports.told
    assert (kind, replica_id) == ("load_failed", 1)
    assert says in message


def test_batch_takes_its_emulated_time_and_answers_zeros():
    """Stages are those of the machine, and each member gets its own rows."""

    def play(rig):
        rig.load()
        rig.run(7, rows=(1, 2))

    ((at_ns, _, batch_id, replies, stages),) = played(play).of("finished")
    assert batch_id == 7
    assert stages.transfer_in_ns == 10_000 + 3_000
    assert stages.execution_ns == 4 * MS
    assert at_ns == stages.transfer_in_ns + stages.execution_ns + stages.transfer_out_ns
    assert [[t.shape for t in member] for member in replies] == [[(1, 3), (1, 1)], [(2, 3), (2, 1)]]
    assert [len(t.data) for t in replies[1]] == [24, 8]
    assert not any(replies[1][0].data)


def test_only_wanted_outputs_are_given():
    """As from a worker."""

    def play(rig):
        rig.load()
        rig.run(7, outputs=("words",))

    ((_, _, _, replies, _),) = played(play).of("finished")
    assert [tensor.name for tensor in replies[0]] == ["words"]


def test_neighbours_on_the_device_are_felt():
    """Two executions beside each other take longer than one; on two devices they do not meet."""

    def beside(device):
        def play(rig):
            rig.load(1)
            rig.load(2, device)
            rig.run(1)
            rig.run(2, replica_id=2)

        return max(report[4].execution_ns for report in played(play).of("finished"))

    assert beside(D1) == 2 * MS
    assert beside(D0) > 2.1 * MS


def test_batch_that_starts_moves_the_ends_of_others():
    """The timer follows the next end, whichever it is."""

    async def main():
        rig = Rig()
        rig.load()
        rig.run(1)
        await asyncio.sleep(0.001)
        rig.run(2)
        await asyncio.sleep(1)
        return rig.reports.of("finished")

    first, second = run_virtual(main())
    assert (first[2], second[2]) == (1, 2)
    assert first[4].execution_ns > 2 * MS
    assert first[0] < second[0]


def test_batch_without_a_replica_is_lost():
    """As in the pool: the worker is gone."""
    ((_, kind, batch_id, code, _),) = played(lambda rig: rig.run(3)).told
    assert (kind, batch_id, code) == ("failed", 3, "worker_lost")


def test_replaced_device_loses_its_replicas_and_batches():
    """Only that device's; the other one's batch ends."""

    def play(rig):
        rig.load(1)
        rig.load(2, D1)
        rig.run(1)
        rig.run(2, replica_id=2)
        rig.executor.replace(ReplicaId(1))
        rig.executor.replace(ReplicaId(1))

    reports = played(play)
    ((_, _, lost, message),) = reports.of("lost")
    assert lost == (1,)
    assert "emulated:0" in message
    assert [report[2] for report in reports.of("finished")] == [2]


def test_unloaded_replica_is_gone():
    """Its load never ends, and a batch of it fails."""

    def play(rig):
        rig.load()
        rig.executor.unload(ReplicaId(1))
        rig.executor.unload(ReplicaId(9))
        rig.run(1)

    reports = played(play, load_ns=MS)
    assert [told[1] for told in reports.told] == ["unloaded", "unloaded", "failed"]


def test_cancelled_batch_runs_to_its_end():
    """An accelerator does not stop for it."""

    def play(rig):
        rig.load()
        rig.run(1)
        rig.executor.cancel(BatchId(1))

    assert len(played(play).of("finished")) == 1


def test_nothing_is_told_after_stop():
    """No timer is left, and there never were processes."""

    async def main():
        rig = Rig()
        rig.load()
        rig.run(1)
        await rig.executor.stop()
        await asyncio.sleep(1)
        assert rig.executor.worker_pids() == {}
        return rig.reports.told

    assert run_virtual(main()) == []


ECHO = ModelName("echo")
OPTIONS = {"solo": "2ms", "row": "1ms", "kernels": 40}
DEVICE = DeviceParams(name=D0, slot_lanes=(0, 1))
ARRIVALS_MS = (1, 1.5, 2, 2.25, 9)


def ends_of(records):
    """What the kernel was told of each batch, and when."""
    return [(r.now_ns, r.event) for r in records if isinstance(r.event, BatchFinished)]


def test_engine_in_real_time_and_simulator_live_the_same_run():
    """One machine, two drivers: the same seed and arrivals give the same stage times."""

    async def live():
        plan = a_plan(devices=[D0], batch_rows_max=1)
        spec = replace(plan.spec, inputs=INPUTS, outputs=OUTPUTS[:1], options=OPTIONS)
        rig = EngineRig(plans=[replace(plan, spec=spec)], devices=[DEVICE])
        machine = EmulatedMachine(accelerator("a100-pcie4"), (), (D0,), 5)
        rig.engine.attach(EmulatedExecutor(machine, rig.clock, rig.engine))
        await rig.load_all()
        tasks = []
        for at_ms in ARRIVALS_MS:
            await rig.until_ms(at_ms)
            tasks.append(rig.infer(inputs=[Tensor("x", Datatype.UINT8, (1, 1000), bytes(1000))]))
        replies = [await task for task in tasks]
        rig.close()
        assert rig.engine.status(ECHO).platform == "emulated"
        assert {len(reply.outputs[0].data) for reply in replies} == {12}
        return rig.records

    def simulated():
        model = replace(EmulatedModel.of(ModelName(ECHO), OPTIONS), in_bytes=1000, out_bytes=12)
        machine = EmulatedMachine(accelerator("a100-pcie4"), [model], (D0,), 5)
        records = []
        world = World(
            Kernel(KernelParams(devices=(DEVICE,)), fifo(MeanPredictor())),
            EmulatedDevices(machine),
            observe=record_into(records),
        )
        world.load([a_plan(devices=[D0], batch_rows_max=1).params])
        world.run(
            a_request(number, model=ECHO, at=f"{at_ms}ms", budget="1s")
            for number, at_ms in enumerate(ARRIVALS_MS, start=1)
        )
        return records

    lived = ends_of(run_virtual(live()))
    assert len(lived) == len(ARRIVALS_MS)
    assert [(at_ns, replace(e, execution_ns=0)) for at_ns, e in lived] == [
        (at_ns, replace(e, execution_ns=0)) for at_ns, e in ends_of(simulated())
    ]
    assert [e.execution_ns for _, e in lived] == pytest.approx(
        [e.execution_ns for _, e in ends_of(simulated())], abs=2
    )


def test_demand_has_the_bytes_of_the_declared_tensors():
    """A row of each; texts count as empty ones, open axes as 1."""
    spec = ModelSpec(
        name="m",
        backend="emulated",
        path="",
        options={"solo": "2ms"},
        inputs=INPUTS,
        outputs=OUTPUTS,
    )
    demand = emulated_demand(spec)
    assert (demand.name, demand.solo_ns) == ("m", 2 * MS)
    assert (demand.in_bytes, demand.out_bytes) == (1000, 3 * 4 + 4)
