"""From today to the plan: which steps, in which order, and what is refused."""

from tests.fake_machine import FakeGpu, FakeMachine
from tests.sharing_plans import (
    a_cut_device,
    a_device,
    a_mixed_plan,
    a_seat,
    an_instance,
    an_mps_seat,
)

from headway.plan import DeviceShare, SharingMode
from headway.rollout import DaemonToday, Proposal, assumed_gpu, propose

STATE = "/run/headway"


def proposal(machine: FakeMachine, *shares: DeviceShare) -> Proposal:
    return propose(shares, machine.gpus(), machine.daemons(), STATE)


def words(found: Proposal) -> list[str]:
    return [step.words for step in found.steps]


def an_mps_device(index: int = 0) -> DeviceShare:
    return a_device(an_mps_seat("a", 60, 9), an_mps_seat("b", 50, 8), inside=SharingMode.MPS)


def test_fresh_gpu_is_switched_and_cut_the_largest_first() -> None:
    """Older drivers cannot make a 3g beside a 4g that is there already."""
    share = a_cut_device(an_instance("1g.10gb@4"), an_instance("3g.40gb@0", a_seat()))
    assert words(proposal(FakeMachine(FakeGpu()), share)) == [
        "GPU 0: MIG mode on",
        "GPU 0: 3g.40gb at 0, over 4 cells",
        "GPU 0: 1g.10gb at 4, over 1 cell",
    ]


def test_machine_that_is_as_planned_has_no_steps() -> None:
    """Applied twice is applied once."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "3g.40gb@0")
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()))
    assert proposal(machine, share) == Proposal((), (), ())


def test_only_what_is_in_the_way_goes() -> None:
    """An instance that the plan does not know and that is in nobody's way is told of and stays."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "2g.20gb@0", "1g.10gb@4")
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()), must_be_idle=[])
    found = proposal(machine, share)
    assert words(found) == ["GPU 0: 2g.20gb at 0 makes room", "GPU 0: 3g.40gb at 0, over 4 cells"]
    assert found.left_alone == ("GPU 0: 1g.10gb at 4",)


def test_instance_with_processes_is_not_destroyed() -> None:
    """The refusal says where they are and who."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "2g.20gb@0", pids=[4711, 4712])
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()), must_be_idle=["2g.20gb@0"])
    assert proposal(machine, share).refusals == (
        "GPU 0: `2g.20gb` at 0 is used by processes 4711, 4712",
    )


def test_instance_that_stays_may_be_in_use() -> None:
    """Nobody is asked to leave what does not change."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "3g.40gb@0", pids=[4711])
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()), an_instance("3g.40gb@4", a_seat("b")))
    found = proposal(machine, share)
    assert found.refusals == ()
    assert words(found) == ["GPU 0: 3g.40gb at 4, over 4 cells"]


def test_unknown_processes_are_taken_for_some() -> None:
    """Where the driver does not say who runs there, nobody may be ended."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "2g.20gb@0")
    (there,) = machine.fakes[0].instances.values()
    machine.fakes[0].instances[1] = there._replace(pids=None)
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()), must_be_idle=["2g.20gb@0"])
    assert "may be in use" in proposal(machine, share).refusals[0]


def test_mode_is_not_switched_under_a_process() -> None:
    """MIG mode is of the whole GPU, so whoever runs anywhere on it counts."""
    machine = FakeMachine(FakeGpu(pids=(99,)))
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()))
    assert proposal(machine, share).refusals == (
        "GPU 0, whose MIG mode is to change, is used by process 99",
    )


def test_instance_in_parts_is_made_anew() -> None:
    """Two compute instances in it are not the slice that was planned; nor is one without any."""
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()))
    for uuids in ((), ("MIG-a", "MIG-b")):
        machine = FakeMachine(FakeGpu())
        machine.put(0, "3g.40gb@0")
        machine.fakes[0].instances[1] = machine.fakes[0].instances[1]._replace(uuids=uuids)
        assert words(proposal(machine, share)) == [
            "GPU 0: 3g.40gb at 0 makes room",
            "GPU 0: 3g.40gb at 0, over 4 cells",
        ]


def test_gpu_that_cannot_become_what_is_planned_is_refused() -> None:
    """Missing, silent, without MIG, without the profile, or without the place."""
    share = a_cut_device(an_instance("3g.40gb@4", a_seat()))
    cases = {
        "GPU 0 is not there": FakeMachine(),
        "GPU 0 does not answer: it fell off the bus": FakeMachine(
            FakeGpu(trouble="it fell off the bus")
        ),
        "GPU 0 (a GPU) has no MIG, or does not say": FakeMachine(FakeGpu(product=None)),
        "GPU 0 has no profile `3g.40gb`; it has 1g.6gb": FakeMachine(FakeGpu("A30-24GB")),
    }
    for refusal, machine in cases.items():
        assert proposal(machine, share).refusals[0].startswith(refusal)
    from msgspec.structs import replace

    astray = replace(share, slices=(replace(share.slices[0], start=2),))
    (refusal,) = proposal(FakeMachine(FakeGpu()), astray).refusals
    assert refusal == "GPU 0: `3g.40gb` cannot begin at 2, only at 0, 4"


def test_daemon_is_started_once_its_device_is_there() -> None:
    """Last of all, and once: a daemon that runs as planned is kept."""
    machine = FakeMachine(FakeGpu())
    (step,) = proposal(machine, an_mps_device()).steps
    assert step.words == "gpu0: MPS for a-0, b-0"
    commands = an_mps_commands()
    machine.running["gpu0"] = DaemonToday("gpu0", "0", commands, (1,), (7,))
    assert proposal(machine, an_mps_device()).steps == ()


def an_mps_commands() -> tuple[str, ...]:
    return (
        "set_default_active_thread_percentage 60",
        "set_default_device_pinned_mem_limit 0 9216M",
    )


def test_daemon_with_other_limits_is_stopped_first_unless_it_has_clients() -> None:
    """Limits are fixed when a client starts, so clients would have to be ended."""
    machine = FakeMachine(FakeGpu())
    machine.running["gpu0"] = DaemonToday("gpu0", "0", (), (1,), ())
    assert words(proposal(machine, an_mps_device())) == [
        "gpu0: its MPS daemon stops",
        "gpu0: MPS for a-0, b-0",
    ]
    machine.running["gpu0"] = DaemonToday("gpu0", "0", (), (1,), (7,))
    assert proposal(machine, an_mps_device()).refusals == (
        "the MPS daemon `gpu0` is used by process 7",
    )


def test_daemon_of_a_gpu_that_is_cut_is_stopped_first() -> None:
    """Its own idle server is no process that anybody would miss."""
    machine = FakeMachine(FakeGpu(pids=(1,)))
    machine.running["gpu0"] = DaemonToday("gpu0", "0", (), (1,), ())
    found = proposal(machine, a_cut_device(an_instance("3g.40gb@0", a_seat())))
    assert found.refusals == ()
    assert words(found)[:2] == ["gpu0: its MPS daemon stops", "GPU 0: MIG mode on"]


def test_daemon_of_an_instance_that_is_made_anew_is_started_anew() -> None:
    """It served the instance by a UUID that is gone."""
    seats = (an_mps_seat("a", 60, 9), an_mps_seat("b", 50, 8))
    piece = an_instance("2g.20gb@0", *seats, inside=SharingMode.MPS)
    machine = FakeMachine(FakeGpu())
    machine.put(0, "2g.20gb@0")
    machine.running["gpu0-at-0"] = DaemonToday("gpu0-at-0", "MIG-0-1", an_mps_commands())
    assert proposal(machine, a_cut_device(piece, must_be_idle=[])).steps == ()
    machine.running["gpu0-at-0"] = DaemonToday("gpu0-at-0", "MIG-gone", an_mps_commands())
    assert words(proposal(machine, a_cut_device(piece, must_be_idle=[]))) == [
        "gpu0-at-0: its MPS daemon stops",
        "gpu0-at-0: MPS for a-0, b-0; MIG-UUID, in `nvidia-smi -L`, is that of 2g.20gb at 0",
    ]


def test_devices_that_nobody_uses_are_left_as_they_are() -> None:
    """Also a daemon that somebody runs there."""
    machine = FakeMachine(FakeGpu())
    machine.put(0, "1g.10gb@0", pids=[5])
    machine.running["gpu0"] = DaemonToday("gpu0", "0", (), (1,), (7,))
    assert proposal(machine, a_device()) == Proposal((), (), ())


def test_machine_that_cannot_be_asked_is_taken_to_be_what_the_plan_says() -> None:
    """What the plan destroys is there and idle, what it keeps is there, and the mode is as told."""
    shares = [share for share in a_mixed_plan().devices if share.node == "node1"]
    gpus = {share.index: assumed_gpu(share) for share in shares}
    found = propose(shares, gpus, (), STATE)
    assert found.refusals == ()
    assert [step.command for step in found.steps[:3]] == [
        "nvidia-smi mig -i 0 -gi GI -dci && nvidia-smi mig -i 0 -gi GI -dgi",
        "nvidia-smi mig -i 0 -cgi 3g.40gb:0 -C",
        "nvidia-smi mig -i 0 -cgi 2g.20gb:4 -C",
    ]
    assert [step.words.partition(":")[0] for step in found.steps[3:]] == ["gpu0-at-4", "gpu1"]
    other = next(share for share in a_mixed_plan().devices if share.node == "node2")
    back = propose([other], {0: assumed_gpu(other)}, (), STATE)
    assert [step.command for step in back.steps][1:] == ["nvidia-smi -i 0 -mig 0"]


def test_every_step_has_a_command_a_check_and_what_it_must_show() -> None:
    """A person who types them needs no more."""
    machine = FakeMachine(FakeGpu())
    machine.running["gpu0"] = DaemonToday("gpu0", "0")
    seats = (an_mps_seat("a", 60, 9), an_mps_seat("b", 50, 8))
    share = a_cut_device(an_instance("2g.20gb@0", *seats, inside=SharingMode.MPS))
    steps = proposal(machine, share).steps
    assert len(steps) == 4
    for step in steps:
        assert step.command
        assert step.check
        assert step.expected
    assert steps[-1].command.splitlines()[-1] == (
        "printf '%s\\n' MIG-UUID 'set_default_active_thread_percentage 60' "
        "'set_default_device_pinned_mem_limit 0 9216M' >/run/headway/gpu0-at-0/planned"
    )
