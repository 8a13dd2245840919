"""What slots wait for: requests, the policy, the host, transfers, each other."""

from math import isfinite

import pytest
from msgspec.structs import replace
from tests.unit.doctor.charts import (
    CPU,
    a_batch,
    a_course,
    a_machine,
    asked,
    batches,
    found,
    is_fine,
    requests,
    run_of,
    value,
    watched,
    why_not,
)

from headway.doctor import Chart, Severity
from headway.units import NS_PER_MS


def test_slots_without_requests_are_idle_for_want_of_them() -> None:
    """A tenth of the time busy, nothing waited in the rest: a note."""
    chart = run_of(batches(10), busy_ratio=0.1, starved_ratio=0.99)
    finding = found("no_work", chart)
    assert finding.severity is Severity.NOTE
    assert value(finding, "slots busy") == pytest.approx(0.1)
    assert is_fine("no_work", run_of(batches(10), busy_ratio=0.1, starved_ratio=0.5))
    assert is_fine("no_work", run_of(batches(10), busy_ratio=0.8, starved_ratio=1.0))


def test_late_batches_that_were_held_back_are_found() -> None:
    """Late after 400 ms beside a free slot, of a budget of a second."""
    late = batches(10, lambda i: a_batch(10 * i, late=1, held_ns=400 * NS_PER_MS))
    finding = found("held_back", run_of(late, asked_for=requests(10)))
    assert value(finding, "of them held while a slot was free") == 10
    busy = batches(10, lambda i: a_batch(10 * i, late=1, held_ns=20 * NS_PER_MS))
    assert is_fine("held_back", run_of(busy, asked_for=requests(10)))
    in_time = batches(10, lambda i: a_batch(10 * i, held_ns=400 * NS_PER_MS))
    assert is_fine("held_back", run_of(in_time, asked_for=requests(10)))


def test_batches_that_spend_their_time_on_the_way_are_host_bound() -> None:
    """A millisecond in the slot, a fifth of it in the worker's stages, others waiting."""

    def small(i: int, **what: object):
        return a_batch(i, service_ms=1, execution_ms=0.2, **what)

    finding = found("host_bound", run_of(batches(40, lambda i: small(i, left_rows=3))))
    assert finding.severity is Severity.WARNING
    assert value(finding, "service beside the stages") == pytest.approx(0.8)
    assert found("host_bound", run_of(batches(40, small))).severity is Severity.NOTE
    assert is_fine("host_bound", run_of(batches(40, small), busy_ratio=0.1))
    assert is_fine("host_bound", run_of(batches(40)))


def test_way_to_a_model_is_not_judged_beside_programs_that_take_the_cores() -> None:
    """Whoever waits for a core on the way there waits for them."""
    small = batches(40, lambda i: a_batch(i, service_ms=1, execution_ms=0.2, left_rows=3))
    loud = watched(20, lambda i: {"machine": a_machine(i, others=0.9)})
    assert "other programs" in why_not("host_bound", replace(run_of(small), readings=loud))


def test_few_batches_are_not_called_host_bound() -> None:
    """Nineteen tell nothing yet."""
    few = batches(19, lambda i: a_batch(i, service_ms=1, execution_ms=0.2, left_rows=3))
    assert is_fine("host_bound", run_of(few))


def test_moving_tensors_for_half_of_the_stages_is_transfer_bound() -> None:
    """Six milliseconds of copies beside four of execution."""
    moved = {"transfer_in_ns": 3 * NS_PER_MS, "transfer_out_ns": 3 * NS_PER_MS}
    chart = run_of(batches(30, lambda i: a_batch(10 * i, execution_ms=4, **moved)))
    assert value(found("transfer_bound", chart), "moving tensors") == pytest.approx(6)
    assert is_fine("transfer_bound", run_of(batches(30)))


def test_small_batches_are_found_with_what_kept_them_apart() -> None:
    """One row of eight, with others of the model left waiting because of their parameters."""
    left = {"left_rows": 5, "left_because": ("parameters",)}
    finding = found("small_batches", run_of(batches(40, lambda i: a_batch(10 * i, **left))))
    assert value(finding, "kept apart by parameters") == 1
    assert value(finding, "rows that it may have") == 8
    full = batches(40, lambda i: a_batch(10 * i, rows=8, left_rows=5))
    assert is_fine("small_batches", run_of(full))
    assert is_fine("small_batches", run_of(batches(40)))
    unknown = run_of(batches(40, lambda i: a_batch(10 * i, **left)), rows_max=None)
    assert "not known" in why_not("small_batches", unknown)


def _sizes(few_ms: float, many_ms: float, bytes_of_eight: int) -> Chart:
    """Batches of one row and of eight, in turn."""
    return run_of(
        batches(
            60,
            lambda i: (
                a_batch(20 * i, execution_ms=few_ms, rows=1, payload_bytes=bytes_of_eight // 8)
                if i % 2
                else a_batch(20 * i, execution_ms=many_ms, rows=8, payload_bytes=bytes_of_eight)
            ),
        )
    )


def test_rows_that_are_copied_one_by_one_are_found() -> None:
    """Eight rows of 256 KiB take eight times as long, 2 ns a byte: that is copying."""
    finding = found("copies_per_row", _sizes(0.5, 4.2, 2 << 20))
    assert finding.severity is Severity.WARNING
    own = "a row's own time for each byte of its input"
    assert value(finding, own) == pytest.approx(2.0, rel=0.05)


def test_rows_that_are_computed_one_by_one_are_a_note() -> None:
    """The same times for a thousandth of the bytes: the model computes that long."""
    finding = found("copies_per_row", _sizes(0.5, 4.2, 2 << 10))
    assert finding.severity is Severity.NOTE
    assert "one after another" in finding.title


def test_rows_without_bytes_are_told_of_without_a_time_for_each() -> None:
    """As simulated requests may be: the rest is said, in numbers that JSON has."""
    finding = found("copies_per_row", _sizes(0.5, 4.2, 0))
    assert finding.severity is Severity.NOTE
    names = [one.name for one in finding.evidence]
    assert "execution of 1 row" in names
    assert "a row's own time for each byte of its input" not in names
    assert all(isfinite(one.value) for one in finding.evidence)


def test_batches_that_share_their_fixed_part_are_fine() -> None:
    """Eight rows in twice the time of one."""
    assert is_fine("copies_per_row", _sizes(0.5, 1.0, 2 << 20))
    assert "one size" in why_not("copies_per_row", run_of(batches(60)))


def _beside(slower: float, *, company: float = 0.9, **what: object) -> Chart:
    """Half of the batches ran alone, half beside another."""
    ran = batches(
        60,
        lambda i: (
            a_batch(20 * i, execution_ms=10)
            if i % 2
            else a_batch(20 * i, execution_ms=10 * slower, company=company)
        ),
    )
    return run_of(ran, slots=2, **what)


def test_slots_that_take_turns_are_found() -> None:
    """Beside another it takes twice as long: no time is won by the second slot."""
    finding = found("slots_in_turn", _beside(1.95))
    assert value(finding, "slower") == pytest.approx(1.95)
    assert is_fine("slots_in_turn", _beside(1.3))


def test_slots_are_not_judged_where_it_cannot_be_told() -> None:
    """With one slot, with no batch alone, and beside programs that take the cores."""
    assert "two slots" in why_not("slots_in_turn", run_of(batches(40)))
    never_alone = run_of(batches(40, lambda i: a_batch(20 * i, company=0.9)), slots=2)
    assert "too seldom alone" in why_not("slots_in_turn", never_alone)
    loud = watched(20, lambda i: {"machine": a_machine(i, others=0.9)})
    noisy = replace(_beside(1.95), readings=loud)
    assert "other programs" in why_not("slots_in_turn", noisy)


def test_slots_of_one_lane_take_turns_by_design() -> None:
    """They share a core: what a batch loses to its own lane is no lock."""
    ran = batches(60, lambda i: a_batch(20 * i, execution_ms=10 * (1 + i % 2), crowd=float(i % 2)))
    assert "too seldom" in why_not("slots_in_turn", run_of(ran, slots=2))


def test_padding_that_is_half_of_the_bytes_is_found() -> None:
    """Batches whose rows were filled up to a bucket far above them."""
    padded = batches(40, lambda i: a_batch(10 * i, padding_bytes=128))
    assert value(found("padding", run_of(padded)), "padding") == 0.5
    assert is_fine("padding", run_of(batches(40, lambda i: a_batch(10 * i, padding_bytes=20))))


def test_run_without_time_or_batches_is_not_judged() -> None:
    """An empty journal is no healthy server."""
    for code in ("no_work", "host_bound", "small_batches", "slots_in_turn", "padding"):
        why = "no request came to its end meanwhile, and no batch"
        assert asked(code, run_of()).unknown == {code: why}
    empty = a_course(batches(1), seconds=0.0)
    assert "any time" in why_not("no_work", Chart(course=empty))
    assert list(empty.use) == [CPU]
