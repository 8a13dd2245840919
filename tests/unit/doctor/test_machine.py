"""Threads, neighbours, quotas, and cores that nobody uses."""

import pytest
from msgspec.structs import replace
from tests.unit.doctor.charts import (
    a_course,
    a_machine,
    a_process,
    batches,
    found,
    is_fine,
    of_devices,
    value,
    watched,
    why_not,
)

from headway.doctor import Chart, Role, Severity
from headway.units import NS_PER_S


def _threads(
    running: float, waiting: float, *, others: float = 0.0, cores: int = 2, seconds: float = 2.0
) -> Chart:
    """A worker whose threads ran and waited so much on average."""

    def look(i: int) -> dict[str, object]:
        at_ns = i * NS_PER_S // 10
        process = a_process(
            cpu_ns=int(running * at_ns),
            ran_ns=int(running * at_ns),
            waited_ns=int(waiting * at_ns),
            involuntary_count=10 * i,
            threads_count=18,
            cores_count=cores,
        )
        machine = a_machine(i, cores=cores, own=running, others=others)
        return {"processes": (process,), "machine": machine}

    return Chart(readings=watched(int(seconds * 10) + 1, look))


def test_threads_that_wait_for_each_other_are_found() -> None:
    """Two cores, and eight threads on average that want them."""
    finding = found("too_many_threads", _threads(2.0, 6.0))
    assert value(finding, "threads that ran or were ready to") == pytest.approx(8)
    assert value(finding, "time that they waited for a core") == pytest.approx(0.75)
    assert finding.confidence_ratio > 0.95
    assert is_fine("too_many_threads", _threads(1.8, 0.2))


def test_slots_that_share_cores_are_no_pool() -> None:
    """Eight slots on two cores were asked for; that eight threads want them is no surprise."""
    chart = replace(_threads(2.0, 6.0), course=a_course(batches(1), slots=8))
    assert is_fine("too_many_threads", chart)


def test_threads_are_not_blamed_for_a_neighbour() -> None:
    """Others have the cores: whoever waits, waits for them, and they are named instead."""
    chart = _threads(1.0, 6.0, others=1.0)
    assert "other programs" in why_not("too_many_threads", chart)
    finding = found("noisy_neighbour", chart)
    assert finding.subject == "backup (pid 99)"
    assert value(finding, "cores that others kept busy") == pytest.approx(1.0)


def test_short_look_at_threads_is_unsure() -> None:
    """Half a second of a burst is not yet said."""
    assert "watch longer" in why_not("too_many_threads", _threads(2.0, 6.0, seconds=0.5))
    silent = Chart(readings=watched(5, lambda i: {"processes": (a_process(cpu_ns=i),)}))
    assert "does not tell" in why_not("too_many_threads", silent)


def test_neighbour_that_nobody_feels_is_fine() -> None:
    """Half a core of two is used by others, and no thread waits."""
    assert is_fine("noisy_neighbour", _threads(0.8, 0.01, others=0.5))
    assert is_fine("noisy_neighbour", _threads(1.9, 0.6, others=0.05))


def test_neighbour_is_judged_by_crowding_where_nobody_tells_who_waited() -> None:
    """Without the scheduler's own counts, full cores stand for it."""

    def look(i: int) -> dict[str, object]:
        process = a_process(cpu_ns=int(1.2 * i * NS_PER_S / 10))
        return {"processes": (process,), "machine": a_machine(i, own=1.2, others=0.7)}

    assert found("noisy_neighbour", Chart(readings=watched(20, look)))


def test_neighbours_of_a_server_elsewhere_are_unknown() -> None:
    """Its cores are not seen, or its processes are not."""
    lone = Chart(readings=watched(20, lambda i: {"processes": (a_process(),)}))
    assert "does not tell" in why_not("noisy_neighbour", lone)


def test_quota_that_stops_threads_is_found() -> None:
    """A quarter of the time the group stood still."""

    def chart(share: float | None) -> Chart:
        def look(i: int) -> dict[str, object]:
            throttled_ns = None if share is None else int(share * i * NS_PER_S / 10)
            machine = replace(a_machine(i), throttled_ns=throttled_ns)
            return {"processes": (a_process(),), "machine": machine}

        return Chart(readings=watched(20, look))

    assert value(found("quota", chart(0.25)), "time in which threads were stopped for it") == 0.25
    assert is_fine("quota", chart(0.0))
    assert "no quota" in why_not("quota", chart(None))


def test_server_without_time_left_is_found() -> None:
    """Its one thread uses a whole core; a worker may."""

    def chart(role: Role, cores: float) -> Chart:
        def look(i: int) -> dict[str, object]:
            return {"processes": (a_process(role=role, cpu_ns=int(cores * i * NS_PER_S / 10)),)}

        return Chart(readings=watched(20, look))

    assert value(found("server_busy", chart(Role.SERVER, 0.97)), "of a core") == pytest.approx(0.97)
    assert is_fine("server_busy", chart(Role.SERVER, 0.5))
    assert "not seen twice" in why_not("server_busy", chart(Role.WORKER, 1.0))


def _full(*, busy: float, waiting: float, used: float, cores: int = 8) -> Chart:
    def look(i: int) -> dict[str, object]:
        return {
            "processes": (a_process(cores_count=cores),),
            "machine": a_machine(i, cores=cores, own=used),
            "slots_busy_ratio": busy,
            "queue_depth": waiting,
        }

    return Chart(readings=watched(20, look))


def test_cores_that_are_idle_while_requests_wait_are_a_note() -> None:
    """One slot, eight cores, a queue: more slots or threads would use them."""
    finding = found("idle_cores", _full(busy=1.0, waiting=4, used=1.5))
    assert finding.severity is Severity.NOTE
    assert value(finding, "cores that were idle") == pytest.approx(6.5)
    assert is_fine("idle_cores", _full(busy=1.0, waiting=4, used=7))
    assert is_fine("idle_cores", _full(busy=1.0, waiting=0, used=1.5))
    assert is_fine("idle_cores", _full(busy=0.4, waiting=4, used=1.5))


def test_cores_beside_an_accelerator_may_be_idle() -> None:
    """The work is the device's; and without slots' numbers nothing is said."""
    chart = _full(busy=1.0, waiting=4, used=1.5)
    device = of_devices(1, lambda _: {}).readings[0].devices
    beside = replace(chart, readings=tuple(replace(r, devices=device) for r in chart.readings))
    assert "accelerator" in why_not("idle_cores", beside)
    assert "are needed" in why_not("idle_cores", _threads(1.0, 0.0))
