"""The emulated machine: its description, its buses, its interference, and that chance is seeded."""

import pytest
from msgspec.structs import replace

from headway.core import BatchId, DeviceName, ModelName, SlotClass
from headway.devices.emulated import (
    EmulatedBatch,
    EmulatedMachine,
    EmulatedModel,
    accelerator,
    accelerator_names,
)
from headway.devices.emulated_links import BusLaw
from headway.errors import ConfigError

D0, D1 = DeviceName("emulated:0"), DeviceName("emulated:1")
MS = 1_000_000
MODEL = EmulatedModel(
    name=ModelName("m"),
    solo_ns=2 * MS,
    row_ns=MS,
    occupancy=0.5,
    bandwidth=0.5,
    in_bytes=MS,
    out_bytes=MS // 2,
)
"""On `small`, whose links move a megabyte in a millisecond: in 1 ms, execution 2, out 0.5."""


def a_machine(name="small", *models, devices=(D0, D1), seed=1, **changes):
    """A machine, changed if need be."""
    spec = replace(accelerator(name), **changes)
    return EmulatedMachine(spec, models or (MODEL,), devices, seed)


def a_batch(batch_id, device=D0, rows=1, slot_class=SlotClass.HIGH, model="m", **sizes):
    """One row of `m`."""
    return EmulatedBatch(BatchId(batch_id), ModelName(model), rows, device, slot_class, **sizes)


def ends_of(machine, *batches, at_ns=0):
    """Start all at one instant and let them end."""
    for batch in batches:
        machine.start(batch, at_ns)
    return {end.batch_id: end for end in machine.advance(at_ns + 10_000 * MS)}


def test_batch_alone_takes_its_copies_and_its_solo_time():
    """Without chance and company the stages are launch + bytes over the link, and execution."""
    end = ends_of(a_machine(), a_batch(1))[1]
    assert end.transfer_in_ns == pytest.approx(1.01e6, abs=2)
    assert end.execution_ns == 2 * MS
    assert end.transfer_out_ns == pytest.approx(0.51e6, abs=2)
    assert end.at_ns == pytest.approx(3.52e6, abs=2)


def test_rows_bring_bytes_and_work():
    """Three rows: three times the bytes, and two more rows of execution."""
    end = ends_of(a_machine(), a_batch(1, rows=3))[1]
    assert end.transfer_in_ns == pytest.approx(3.01e6, abs=2)
    assert end.execution_ns == 4 * MS


def test_sizes_of_the_batch_itself_come_first():
    """A live batch says what it really moves."""
    end = ends_of(a_machine(), a_batch(1, in_bytes=2 * MS, out_bytes=0))[1]
    assert end.transfer_in_ns == pytest.approx(2.01e6, abs=2)
    assert end.transfer_out_ns == pytest.approx(0.01e6, abs=2)


def test_devices_under_one_switch_share_it():
    """Both copies in take twice as long less the launch; the executions do not meet."""
    ends = ends_of(a_machine(), a_batch(1), a_batch(2, D1))
    assert ends[1].transfer_in_ns == pytest.approx(2.01e6, abs=2)
    assert {end.execution_ns for end in ends.values()} == {2 * MS}


def test_urgent_copy_goes_between_chunks():
    """The chunk on the wire is finished, then the high batch goes first."""
    ends = ends_of(
        a_machine(), a_batch(1, rows=8, slot_class=SlotClass.LOW), a_batch(2, in_bytes=MS)
    )
    assert ends[2].transfer_in_ns == pytest.approx(2.02e6, abs=10)
    assert ends[1].transfer_in_ns == pytest.approx(9.02e6, abs=10)


def test_batches_on_one_device_slow_each_other():
    """Each takes longer than alone, the more so the more of them there are."""
    worst_ns = []
    for count in (1, 2, 3, 4):
        machine = a_machine("a100-pcie4", devices=(D0,))
        ends = ends_of(machine, *(a_batch(i, in_bytes=1) for i in range(count)))
        worst_ns.append(max(end.execution_ns for end in ends.values()))
    assert worst_ns == sorted(worst_ns)
    assert worst_ns[3] > 1.3 * worst_ns[0]


def test_low_batch_yields_to_a_high_one():
    """Beside the same neighbour, the low batch is slowed more."""
    ends = ends_of(
        a_machine(), a_batch(1, in_bytes=1, slot_class=SlotClass.LOW), a_batch(2, in_bytes=1)
    )
    assert ends[1].execution_ns > 1.15 * ends[2].execution_ns


def test_full_device_has_more_of_a_larger_batch():
    """Occupancy grows with rows up to where it is full."""
    model = replace(MODEL, occupancy=0.2, occupancy_full_rows=5)
    assert [model.occupancy_of(rows) for rows in (1, 3, 5, 9)] == pytest.approx([0.2, 0.6, 1, 1])
    assert MODEL.occupancy_of(9) == 0.5


def test_same_seed_gives_the_same_times_and_another_does_not():
    """Chance is the seed's and nothing else's."""
    runs = [
        ends_of(a_machine("a100-pcie4", seed=seed), a_batch(1), a_batch(2, D1))
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_looking_ahead_changes_nothing_and_comes_true():
    """What is said of the next end is what happens if nothing starts."""
    machine = a_machine("h100-pcie5")
    for number in range(4):
        machine.start(a_batch(number, (D0, D1)[number % 2]), 1000 * number)
    said = machine.next_ends(range(4))
    assert said == machine.next_ends(range(4))
    assert {end.batch_id: end for end in machine.advance(10_000 * MS)} == said
    assert machine.next_ends() == {}


def test_next_end_is_the_earliest():
    """Only as much of the future is worked out as is asked for."""
    machine = a_machine()
    machine.start(a_batch(1, rows=9), 0)
    machine.start(a_batch(2, D1), 0)
    assert list(machine.next_ends()) == [2]
    assert list(machine.next_ends([1])) == [2, 1]


def test_ends_passed_over_by_a_start_are_told_with_the_next_advance():
    """Nothing is lost when a batch starts late."""
    machine = a_machine()
    machine.start(a_batch(1), 0)
    machine.start(a_batch(2), 50 * MS)
    assert list(machine.next_ends()) == [1]
    assert [end.batch_id for end in machine.advance(50 * MS)] == [1]
    assert machine.advance(50 * MS) == []


def test_dropped_batch_frees_its_device_and_its_link():
    """The other one goes on as if alone."""
    for at_ns in (100_000, 2_500_000):
        machine = a_machine()
        machine.start(a_batch(1, rows=5), 0)
        machine.start(a_batch(2, D1), 0)
        machine.advance(at_ns)
        machine.drop(BatchId(1))
        machine.drop(BatchId(1))
        assert list(machine.next_ends([1, 2])) == [2]


def test_buses_lose_capacity_with_company_small_copies_and_chunks():
    """Each part of the law costs time that the even division does not know of."""
    even_ns = ends_of(a_machine(), a_batch(1), a_batch(2, D1))[2].transfer_in_ns
    for law in (BusLaw(crowd_loss_ratio=0.2), BusLaw(ramp_bytes=500_000.0)):
        ends = ends_of(a_machine(buses=law), a_batch(1), a_batch(2, D1))
        assert min(end.transfer_in_ns for end in ends.values()) > even_ns
    gaps = ends_of(a_machine(buses=BusLaw(chunk_gap_ns=50_000.0)), a_batch(1, rows=3))
    assert gaps[1].transfer_in_ns == pytest.approx(3.11e6, abs=10)


def test_copies_scatter_but_none_beats_its_link():
    """Pace, arbiter and launch differ from copy to copy; the rated link is the limit."""
    law = BusLaw(pace_sigma=0.3, arbiter_sigma=0.3)
    alone_ns = {
        ends_of(a_machine(seed=seed, buses=law), a_batch(1))[1].transfer_in_ns for seed in range(9)
    }
    assert len(alone_ns) > 3
    assert min(alone_ns) >= 1_010_000


def test_traffic_the_other_way_costs_capacity():
    """A copy in beside a copy out is slower where directions disturb each other."""
    law = BusLaw(duplex_loss_ratio=0.5)
    in_ns = []
    for buses in (BusLaw(), law):
        machine = a_machine(buses=buses)
        machine.start(a_batch(1, in_bytes=1, out_bytes=50 * MS), 0)
        machine.start(a_batch(2, in_bytes=4 * MS), 3 * MS)
        in_ns.append({e.batch_id: e for e in machine.advance(10**10)}[2].transfer_in_ns)
    assert in_ns[1] > 1.5 * in_ns[0]


def test_every_described_machine_loads_and_has_a_tree():
    """The files are complete, and name themselves."""
    assert accelerator_names() == ["a100-pcie4", "h100-pcie5", "pair-pcie3", "small"]
    for name in accelerator_names():
        machine = accelerator(name)
        assert machine.name == name
        devices = [DeviceName(f"d{i}") for i in range(len(machine.device_links))]
        assert set(machine.tree(devices).devices) == set(devices)


def test_unknown_machine_and_too_many_devices_are_config_errors():
    """The hint says what there is."""
    with pytest.raises(ConfigError, match="a100-pcie4"):
        accelerator("tpu")
    with pytest.raises(ConfigError, match="1 to 2 devices"):
        accelerator("small").tree([D0, D1, DeviceName("x")])


def test_models_are_read_from_options():
    """Durations as people write them; the rest has defaults."""
    model = EmulatedModel.of(ModelName("x"), {"solo": "3ms", "row": "500us", "occupancy": 0.25})
    assert (model.solo_ns, model.row_ns, model.occupancy) == (3 * MS, 500_000, 0.25)


@pytest.mark.parametrize(
    "options", [{}, {"solo": "fast"}, {"solo": "3ms", "colour": 1}, {"solo": "3ms", "occupancy": 2}]
)
def test_options_that_make_no_sense_are_config_errors(options):
    """Missing, unreadable, unknown or out of range."""
    with pytest.raises(ConfigError, match="cannot be emulated"):
        EmulatedModel.of(ModelName("x"), options)


def test_unknown_model_or_device_is_an_error():
    """A model that was forgotten, and a device that the machine does not have."""
    machine = a_machine()
    with pytest.raises(KeyError):
        machine.start(a_batch(1, DeviceName("x")), 0)
    machine.forget(ModelName("m"))
    with pytest.raises(KeyError):
        machine.start(a_batch(1), 0)
    machine.know(MODEL)
    assert list(ends_of(machine, a_batch(1))) == [1]
