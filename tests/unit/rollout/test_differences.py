"""Today beside the plan: every row, and how it stands."""

from msgspec.structs import replace
from tests.fake_machine import FakeGpu, FakeMachine
from tests.sharing_plans import a_cut_device, a_device, a_seat, an_instance, an_mps_seat

from headway.plan import SharingMode
from headway.rollout import DaemonToday, Difference, Standing, differences

SEATS = (an_mps_seat("a", 60, 9), an_mps_seat("b", 50, 8))
TOLD = ("set_default_active_thread_percentage 60", "set_default_device_pinned_mem_limit 0 9216M")


def rows(machine: FakeMachine, *shares) -> list[Difference]:
    return differences(shares, machine.gpus(), machine.daemons())


def test_same_machine_has_rows_and_no_difference() -> None:
    """What is planned, what runs there now, and that it is the same."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "3g.40gb@4", pids=[7])
    share = a_cut_device(an_instance("3g.40gb@4", a_seat("speech"), a_seat("rank")))
    assert rows(machine, share) == [
        Difference("GPU 0", "MIG on", "MIG on", Standing.SAME),
        Difference(
            "GPU 0, cells 4:4",
            "3g.40gb: speech, rank",
            "3g.40gb, process 7",
            Standing.SAME,
        ),
    ]


def test_what_is_missing_and_what_nobody_planned_is_told() -> None:
    """Both, with its cells, by which a person sees what is in whose way."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "2g.20gb@0")
    found = rows(machine, a_cut_device(an_instance("3g.40gb@0", a_seat())))
    assert found[1:] == [
        Difference("GPU 0, cells 0:4", "3g.40gb: speech", "", Standing.MISSING),
        Difference("GPU 0, cells 0:2", "", "2g.20gb, idle", Standing.UNPLANNED),
    ]


def test_modes_are_told_with_what_a_reset_would_bring() -> None:
    """A mode that waits for a reset is not the mode."""

    class Pending(FakeMachine):
        def gpus(self):
            return {0: replace(super().gpus()[0], will_have_mig=True)}

    share = a_cut_device(an_instance("3g.40gb@0", a_seat()))
    first, piece = rows(Pending(FakeGpu()), share)
    assert first == Difference("GPU 0", "MIG on", "MIG off, on after a reset", Standing.OTHER)
    assert piece.standing is Standing.MISSING
    (plain,) = rows(FakeMachine(FakeGpu(product=None)), a_device(a_seat()))
    assert plain == Difference("GPU 0", "no MIG", "without MIG", Standing.SAME)


def test_gpu_that_is_gone_or_silent_is_not_called_different() -> None:
    """Unknown is unknown."""
    share = a_device(a_seat())
    assert rows(FakeMachine(), share)[0].standing is Standing.MISSING
    silent = rows(FakeMachine(FakeGpu(trouble="GPU is lost")), share)
    assert silent == [Difference("GPU 0", "A100-80GB", "GPU is lost", Standing.UNKNOWN)]


def test_instance_in_parts_is_another() -> None:
    """Its processes may be unknown, too."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "3g.40gb@0")
    there = machine.fakes[0].instances[1]
    machine.fakes[0].instances[1] = there._replace(uuids=("a", "b"), pids=None)
    row = rows(machine, a_cut_device(an_instance("3g.40gb@0", a_seat())))[1]
    assert row.today == "3g.40gb in 2 parts, processes not known"
    assert row.standing is Standing.OTHER


def test_daemons_are_compared_by_device_and_limits() -> None:
    """As planned, missing, for another device, with other limits, unknown, not planned."""
    share = a_device(*SEATS, inside=SharingMode.MPS)
    planned = "threads 60 %, memory 9216M"
    cases = {
        DaemonToday("gpu0", "0", TOLD, (1,), (7, 8)): (f"{planned}, 2 clients", Standing.SAME),
        DaemonToday("gpu0", "1", TOLD): (f"for `1`, {planned}, 0 clients", Standing.OTHER),
        DaemonToday("gpu0", "0", ()): ("no limits, 0 clients", Standing.OTHER),
        DaemonToday("gpu0", None, (), (), None): (
            "runs, clients not known, for what nobody noted",
            Standing.UNKNOWN,
        ),
    }
    for daemon, (today, standing) in cases.items():
        machine = FakeMachine(FakeGpu())
        machine.running["gpu0"] = daemon
        row = rows(machine, share)[-1]
        assert row == Difference("MPS gpu0", planned, today, standing)
    missing = rows(FakeMachine(FakeGpu()), share)[-1]
    assert missing == Difference("MPS gpu0", planned, "", Standing.MISSING)
    machine.running["gpu0"] = DaemonToday("gpu0", "0", TOLD)
    assert rows(machine, a_device(a_seat()))[-1].standing is Standing.UNPLANNED


def test_devices_that_nobody_uses_are_not_told_of() -> None:
    """The plan has no opinion of them."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "1g.10gb@0")
    machine.running["gpu0"] = DaemonToday("gpu0", "0")
    assert rows(machine, a_device()) == []
