"""What a service takes beside its execution."""

import pytest

from headway.core import Run, SlotClass, Stages
from headway.predict import ModelProfile
from headway.predict.services import Services

MS = 1_000_000


def a_run(rows=1, model="m"):
    return Run(
        model=model,
        bucket="",
        rows=rows,
        payload_bytes=0,
        device="d",
        slot=0,
        lane=0,
        slot_class=SlotClass.HIGH,
        priority=1,
    )


def see(services, service_ms, rows=1, execution_ms=5.0, transfer_ms=1.0):
    stages = Stages(
        service_ns=int(service_ms * MS),
        transfer_in_ns=int(transfer_ms * MS),
        execution_ns=int(execution_ms * MS),
    )
    services.see(a_run(rows), stages, stages.execution_ns)


def test_nothing_is_known_of_what_never_ran():
    """Zeros, and of a profiled model its measured overhead."""
    services = Services([ModelProfile(model="p", device="d", overhead_ns=3)])
    assert (services.service_ns("m", 1), services.floor_ns("m", 1)) == (0.0, 0)
    assert (services.transfer_ns("m", 1), services.overhead_ns("m")) == (0.0, 0.0)
    assert services.overhead_ns("p") == 3.0


def test_the_first_batch_is_believed():
    """7 ms in all, 5 of execution, 1 of transfer: 1 of overhead."""
    services = Services()
    see(services, 7.0)
    assert services.service_ns("m", 1) == 7 * MS
    assert services.overhead_ns("m") == 1 * MS
    assert services.transfer_ns("m", 1) == 1 * MS


def test_unseen_rows_are_taken_for_the_nearest():
    """Service as it is, transfers by rows."""
    services = Services()
    see(services, 7.0, rows=2)
    see(services, 20.0, rows=8)
    assert services.service_ns("m", 3) == 7 * MS
    assert services.transfer_ns("m", 4) == pytest.approx(2 * MS)
    assert services.floor_ns("m", 3) == 0


def test_the_overhead_is_the_middle_of_two_habits():
    """Mostly half a millisecond, sometimes five: half a millisecond is said."""
    services = Services()
    for turn in range(300):
        see(services, 10.5 if turn % 4 == 0 else 6.5)
    assert services.overhead_ns("m") == pytest.approx(0.5 * MS, rel=0.6)


def test_a_hiccup_moves_a_mean_by_no_more_than_thrice_as_much_would():
    """A batch of an hour is no habit."""
    services = Services()
    see(services, 8.0)
    see(services, 3_600_000.0)
    assert services.service_ns("m", 1) < 10 * MS
    assert services.floor_ns("m", 1) == 8 * MS


def test_state_comes_back():
    """As it was, and broken parts are left out."""
    services = Services()
    see(services, 7.0)
    fresh = Services()
    fresh.restore(services.state())
    assert fresh.state() == services.state()
    fresh.restore({"sizes": [["m", 2, -1.0, 0.0, 0.0], 7], "overheads": [["m", "x"]]})
    assert fresh.state() == services.state()


def test_of_several_profiles_the_least_overhead_counts():
    """Of other shapes or devices; in the others the message waited for a core."""
    profiles = [
        ModelProfile(model="p", device="d", bucket=bucket, overhead_ns=overhead_ns)
        for bucket, overhead_ns in (("a", 5), ("b", 3), ("c", 9), ("e", 0))
    ]
    assert Services(profiles).overhead_ns("p") == 3.0


def test_absurd_times_and_rows_are_cut_or_left_out():
    """Nothing takes longer than a day, for however many rows."""
    services = Services()
    lines = [["m", 1, 1e308, 1e308, 1e308], ["m", 10**400, 1.0, 1.0, 1.0]]
    services.restore({"sizes": lines, "overheads": [["m", 1.7e308]]})
    day_ns = 86_400e9
    assert services.overhead_ns("m") == day_ns
    assert (services.service_ns("m", 9), services.transfer_ns("m", 2**30)) == (day_ns, day_ns)
    assert services.floor_ns("m", 10**400) == 0


def test_sizes_and_models_are_bounded():
    """Beyond the limit what is known stays, and further ones are taken for the nearest."""
    services = Services()
    for rows in range(1, 4_200):
        see(services, float(rows), rows)
    assert services.floor_ns("m", 4_096) == 4_096 * MS
    assert services.floor_ns("m", 4_097) == 0
    assert services.service_ns("m", 4_150) == 4_096 * MS
    for number in range(4_200):
        services.see(a_run(1, f"m{number}"), Stages(service_ns=5 * MS, execution_ns=MS), MS)
    assert (services.overhead_ns("m4000"), services.overhead_ns("m4199")) == (4.0 * MS, 0.0)
