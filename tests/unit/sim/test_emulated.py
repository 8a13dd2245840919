"""Simulated runs on an emulated machine: stage times, interference, lost devices."""

from headway.core import (
    BatchFinished,
    Complete,
    DeviceName,
    DeviceParams,
    Fail,
    Kernel,
    KernelParams,
    ModelName,
)
from headway.devices.emulated import EmulatedMachine, EmulatedModel, accelerator
from headway.policy import fifo
from headway.sim import Fault, World, record_into
from headway.sim.emulated import EmulatedDevices
from headway.testing import MeanPredictor, a_model, a_request

MS = 1_000_000
D0, D1 = DeviceName("emulated:0"), DeviceName("emulated:1")
LAUNCH_NS = 10_000


def played(*requests, machine="small", slots=2, faults=(), **demands):
    """Records of a run in which `m` moves a megabyte in, executes 2 ms, moves half out."""
    model = EmulatedModel(
        name=ModelName("m"),
        **{
            "solo_ns": 2 * MS,
            "row_ns": MS,
            "occupancy": 0.5,
            "bandwidth": 0.5,
            "in_bytes": MS,
            "out_bytes": MS // 2,
            **demands,
        },
    )
    device = DeviceParams(name=D0, slot_lanes=tuple(range(slots)))
    kernel = Kernel(KernelParams(devices=(device,)), fifo(MeanPredictor()))
    devices = EmulatedDevices(EmulatedMachine(accelerator(machine), [model], [D0], 3))
    records = []
    world = World(kernel, devices, observe=record_into(records))
    world.load([a_model("m", devices=(D0,), batch_rows_max=1)])
    world.run(requests, faults=faults)
    return records


def events(records, kind):
    """Every event of a kind."""
    return [record.event for record in records if isinstance(record.event, kind)]


def commands(records, kind):
    """Every command of a kind."""
    return [c for record in records for c in record.commands if isinstance(c, kind)]


def test_stage_times_come_from_the_machine():
    """What the kernel is told adds up to the time that passed."""
    records = played(a_request(1, model="m", budget="1s"))
    (end,) = events(records, BatchFinished)
    (done,) = commands(records, Complete)
    assert abs(end.transfer_in_ns - (MS + LAUNCH_NS)) <= 1
    assert abs(end.execution_ns - 2 * MS) <= 2
    assert abs(end.transfer_out_ns - (MS // 2 + LAUNCH_NS)) <= 1
    total_ns = end.transfer_in_ns + end.execution_ns + end.transfer_out_ns
    assert total_ns == done.service_ns


def test_neighbours_on_the_device_are_felt():
    """Two at once queue for the copy engine; what overlaps of their executions is slower."""
    both = [a_request(i, model="m", budget="1s") for i in (1, 2)]
    ends = events(played(*both, in_bytes=1, out_bytes=1), BatchFinished)
    alone = events(played(both[0], in_bytes=1, out_bytes=1), BatchFinished)
    assert len(ends) == 2
    assert min(end.execution_ns for end in ends) > 1.1 * alone[0].execution_ns


def test_copies_in_queue_on_the_copy_engine():
    """The second batch's copy in includes its wait for the first one's."""
    both = [a_request(i, model="m", budget="1s") for i in (1, 2)]
    first, second = events(played(*both), BatchFinished)
    assert second.transfer_in_ns > 1.9 * first.transfer_in_ns


def test_same_seed_plays_the_same_run():
    """All chance is the machine's seed."""
    requests = [a_request(i, model="m", at=f"{i}ms", budget="1s") for i in range(1, 30)]
    runs = [played(*requests, machine="a100-pcie4", slots=4) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(commands(runs[0], Complete)) == 29


def test_lost_device_ends_what_ran_and_leaves_nothing_behind():
    """A batch lost in its copy and one lost in execution fail; the next one runs as if alone."""
    requests = [
        a_request(1, model="m", budget="9s"),
        a_request(2, model="m", at="2ms", budget="9s"),
        a_request(3, model="m", at="500ms", budget="9s"),
    ]
    records = played(*requests, faults=[Fault(2_500_000, D0)])
    (end,) = events(records, BatchFinished)
    assert {fail.request_id for fail in commands(records, Fail)} == {1, 2}
    assert abs(end.transfer_in_ns - (MS + LAUNCH_NS)) <= 1
