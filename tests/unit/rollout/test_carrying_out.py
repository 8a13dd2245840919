"""Steps on a machine: checked one by one, and all taken back when one fails."""

import pytest
from tests.fake_machine import FakeGpu, FakeMachine
from tests.sharing_plans import a_cut_device, a_seat, an_instance, an_mps_seat

from headway.plan import SharingMode
from headway.rollout import DaemonToday, Outcome, carry_out, propose

SEATS = (an_mps_seat("a", 60, 9), an_mps_seat("b", 50, 8))
SHARE = a_cut_device(
    an_instance("3g.40gb@0", a_seat()),
    an_instance("2g.20gb@4", *SEATS, inside=SharingMode.MPS),
    must_be_idle=["4g.40gb@0", "1g.10gb@5"],
)
STATE = "/run/headway"
CHANGES = 6
"""Of this plan on this machine: a stop, two ends, two beginnings, a start."""


def a_machine(fails_at: int | None = None) -> FakeMachine:
    """Cut otherwise, with a daemon in an instance that has to go."""
    machine = FakeMachine(FakeGpu(), fails_at=fails_at)
    machine.put(0, "4g.40gb@0", "1g.10gb@5")
    machine.running["gpu0-at-0"] = DaemonToday("gpu0-at-0", "MIG-0-1", ("quota 1",))
    return machine


def applied(machine: FakeMachine) -> Outcome:
    steps = propose([SHARE], machine.gpus(), machine.daemons(), STATE).steps
    return carry_out(steps, machine)


def test_machine_is_as_planned_afterwards() -> None:
    """And so nothing is left to do."""
    machine = a_machine()
    outcome = applied(machine)
    assert outcome.failure is None
    assert len(outcome.done) == CHANGES
    assert propose([SHARE], machine.gpus(), machine.daemons(), STATE).steps == ()
    assert machine.running["gpu0-at-4"].device == "MIG-0-4"


@pytest.mark.parametrize("fails_at", range(1, CHANGES + 1))
def test_failure_of_any_step_leaves_the_machine_as_it_was(fails_at: int) -> None:
    """Instances are back at their places, and daemons that were stopped run again."""
    machine = a_machine(fails_at)
    before = machine.state()
    outcome = applied(machine)
    assert outcome.failure is not None
    assert "the driver refuses" in outcome.failure
    assert outcome.hint == "try again"
    assert outcome.remains == ()
    assert len(outcome.done) == fails_at - 1
    assert machine.state() == before
    (instance,) = (i for i in machine.fakes[0].instances.values() if i.profile == "4g.40gb")
    assert machine.running["gpu0-at-0"].device == instance.uuids[0]


def test_step_that_says_it_was_done_and_was_not_is_a_failure() -> None:
    """A driver's word is not taken for it."""

    class Liar(FakeMachine):
        def set_mode(self, index: int, *, is_on: bool) -> None:
            self.changes.append("mode")

    machine = Liar(FakeGpu())
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()))
    steps = propose([share], machine.gpus(), (), STATE).steps
    outcome = carry_out(steps, machine)
    assert outcome.failure is not None
    assert "does not show Enabled" in outcome.failure
    assert machine.changes == ["mode", "mode"]


def test_process_that_came_meanwhile_is_not_ended() -> None:
    """It is asked again before anything is destroyed."""
    machine = a_machine()
    steps = propose([SHARE], machine.gpus(), machine.daemons(), STATE).steps
    machine.fakes[0].instances[2] = machine.fakes[0].instances[2]._replace(pids=(4711,))
    before = machine.state()
    outcome = carry_out(steps, machine)
    assert outcome.failure is not None
    assert "process 4711 would be ended" in outcome.failure
    assert machine.state() == before


def test_client_that_came_meanwhile_keeps_its_daemon() -> None:
    """The first step already fails, and nothing was touched."""
    machine = a_machine()
    steps = propose([SHARE], machine.gpus(), machine.daemons(), STATE).steps
    machine.running["gpu0-at-0"] = machine.running["gpu0-at-0"]._replace(clients=(8,))
    outcome = carry_out(steps, machine)
    assert outcome.failure == "gpu0-at-0: its MPS daemon stops: process 8 would be ended"
    assert machine.changes == []


def test_interruption_takes_back_what_was_done() -> None:
    """Ctrl-C in the middle is a failure like any other."""

    class Interrupted(FakeMachine):
        def create(self, index: int, profile: str, start: int):
            if profile == "2g.20gb":
                raise KeyboardInterrupt
            return super().create(index, profile, start)

    machine = Interrupted(FakeGpu())
    before = machine.state()
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()), an_instance("2g.20gb@4"))
    steps = propose([share], machine.gpus(), (), STATE).steps
    assert carry_out(steps, machine).failure == "interrupted"
    assert machine.state() == before


def test_what_cannot_be_taken_back_is_told_and_the_rest_is_taken_back() -> None:
    """One stuck step does not keep the others."""

    class Sticky(FakeMachine):
        def destroy(self, index: int, instance_id: int) -> None:
            from headway.errors import HeadwayError

            raise HeadwayError("somebody is quick")

        def start_daemon(self, name, device, commands) -> None:
            from headway.errors import HeadwayError

            raise HeadwayError("no licence")

    machine = Sticky(FakeGpu())
    share = a_cut_device(an_instance("2g.20gb@0", *SEATS, inside=SharingMode.MPS))
    outcome = carry_out(propose([share], machine.gpus(), (), STATE).steps, machine)
    assert outcome.failure is not None
    assert outcome.remains == (
        "GPU 0: 2g.20gb at 0, over 2 cells: somebody is quick",
        "GPU 0: MIG mode on: in use",
    )


def test_instance_in_parts_is_not_called_restored() -> None:
    """It comes back in one part, which is not what it was."""
    machine = FakeMachine(FakeGpu(), fails_at=2)
    machine.put(0, "3g.40gb@0")
    machine.fakes[0].instances[1] = machine.fakes[0].instances[1]._replace(uuids=("a", "b"))
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()))
    outcome = carry_out(propose([share], machine.gpus(), (), STATE).steps, machine)
    assert outcome.remains == (
        "GPU 0: 3g.40gb at 0 makes room: it is there again in one part, and was in 2",
    )


def test_daemon_of_which_nobody_noted_what_it_served_is_not_called_restored() -> None:
    """It was started by somebody else, who has to start it again."""
    machine = FakeMachine(FakeGpu(), fails_at=2)
    machine.running["gpu0"] = DaemonToday("gpu0", None)
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()))
    outcome = carry_out(propose([share], machine.gpus(), machine.daemons(), STATE).steps, machine)
    assert "nobody noted what it served" in outcome.remains[0]


def test_steps_are_told_as_they_are_done() -> None:
    """And those that are taken back."""
    told: list[str] = []
    machine = FakeMachine(FakeGpu(), fails_at=2)
    share = a_cut_device(an_instance("3g.40gb@0", a_seat()))
    carry_out(propose([share], machine.gpus(), (), STATE).steps, machine, told.append)
    assert told == [
        "GPU 0: MIG mode on",
        "GPU 0: 3g.40gb at 0, over 4 cells",
        "taken back: GPU 0: MIG mode on",
    ]


def test_what_somebody_else_has_taken_away_meanwhile_is_told() -> None:
    """Two hands on one machine: the steps are no longer those that were looked at."""
    machine = a_machine()
    steps = propose([SHARE], machine.gpus(), machine.daemons(), STATE).steps
    del machine.running["gpu0-at-0"]
    outcome = carry_out(steps, machine)
    assert outcome.failure == "gpu0-at-0: its MPS daemon stops: it is no longer there"
    machine = a_machine()
    steps = propose([SHARE], machine.gpus(), machine.daemons(), STATE).steps
    machine.fakes[0].instances.clear()
    machine.running["gpu0-at-0"] = machine.running["gpu0-at-0"]._replace(device="MIG-gone")
    outcome = carry_out(steps, machine)
    assert outcome.failure == "GPU 0: 4g.40gb at 0 makes room: it is no longer there"
    assert outcome.remains == (
        "gpu0-at-0: its MPS daemon stops: the instance that it served is gone",
    )
