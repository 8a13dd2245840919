"""Laws of applying a plan, on random plans and machines that are cut at random."""

from hypothesis import given
from hypothesis import strategies as st
from tests.fake_machine import FakeGpu, FakeMachine
from tests.sharing_plans import PRODUCT, a_cut_device, a_device, a_seat, an_instance, an_mps_seat

from headway.plan import DeviceShare, Placement, SharingMode, mig_product, placed_sets
from headway.rollout import carry_out, propose

STATE = "/run/headway"
SETS = [placed for placed in placed_sets(mig_product(PRODUCT)) if placed]
SEATS = (an_mps_seat("a", 60, 9), an_mps_seat("b", 50, 8))


def a_share(placed: tuple[Placement, ...], *, shares: bool) -> DeviceShare:
    """A device cut like this, the first instance shared or not; uncut where there is nothing."""
    if not placed:
        inside = SharingMode.MPS if shares else SharingMode.WHOLE
        return a_device(*(SEATS if shares else SEATS[:1]), inside=inside)
    first, *others = placed
    seats, inside = (SEATS, SharingMode.MPS) if shares else ((a_seat(),), SharingMode.WHOLE)
    return a_cut_device(
        an_instance(str(first), *seats, inside=inside),
        *(an_instance(str(other)) for other in others),
        must_be_idle=[],
    )


@st.composite
def moves(draw: st.DrawFn) -> tuple[FakeMachine, list[DeviceShare]]:
    """A machine that is as one plan wants it, and another plan."""
    cuts = st.sampled_from([(), *SETS])
    before = a_share(draw(cuts), shares=draw(st.booleans()))
    after = a_share(draw(cuts), shares=draw(st.booleans()))
    machine = FakeMachine(FakeGpu())
    assert carry_out(propose([before], machine.gpus(), (), STATE).steps, machine).failure is None
    machine.changes.clear()
    return machine, [after]


@given(moves())
def test_any_plan_is_reached_from_any_other(move: tuple[FakeMachine, list[DeviceShare]]) -> None:
    """Where nothing runs it can be done, and afterwards nothing is left to do.

    Except where idle instances that the plan does not name use up compute slices: those stay, and
    the driver then refuses; it is told, and taken back.
    """
    machine, shares = move
    before = machine.state()
    found = propose(shares, machine.gpus(), machine.daemons(), STATE)
    assert found.refusals == ()
    outcome = carry_out(found.steps, machine)
    if outcome.failure is None:
        assert propose(shares, machine.gpus(), machine.daemons(), STATE).steps == ()
    else:
        assert found.left_alone
        assert outcome.remains == ()
        assert machine.state() == before


@given(moves(), st.integers(1, 12))
def test_failure_anywhere_leaves_everything_as_it_was(
    move: tuple[FakeMachine, list[DeviceShare]], fails_at: int
) -> None:
    """Whatever had been done by then."""
    machine, shares = move
    before = machine.state()
    machine.fails_at = fails_at
    steps = propose(shares, machine.gpus(), machine.daemons(), STATE).steps
    outcome = carry_out(steps, machine)
    assert outcome.remains == ()
    if outcome.failure is not None:
        assert machine.state() == before


@given(moves(), st.data())
def test_no_process_is_ever_ended(
    move: tuple[FakeMachine, list[DeviceShare]], data: st.DataObject
) -> None:
    """Wherever one runs: either its place stays, or nothing is done at all."""
    machine, shares = move
    instances = machine.fakes[0].instances
    if instances:
        number = data.draw(st.sampled_from(sorted(instances)))
        instances[number] = instances[number]._replace(pids=(4711,))
    else:
        machine.fakes[0].pids = (4711,)
    before = dict(instances)
    found = propose(shares, machine.gpus(), machine.daemons(), STATE)
    if not found.refusals:
        carry_out(found.steps, machine)
        kept = [one for one in machine.fakes[0].instances.values() if one.pids]
        assert kept == [one for one in before.values() if one.pids]
