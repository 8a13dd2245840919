"""The course of a run, from a kernel's own records."""

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    ReplicaId,
    ReplicasLost,
    RequestCancelled,
    RequestId,
)
from headway.doctor import Course, follow
from headway.doctor.course import BatchEnd
from headway.testing import Dialogue, a_device, a_kernel, a_model
from headway.units import NS_PER_MS


def course_of(talk: Dialogue, *, since: int = 0, **what: object) -> Course:
    """Of what was said, from a step on."""
    return follow(talk.records[since:], talk.kernel.params.devices, **what)  # type: ignore[arg-type]


def test_batch_is_followed_from_its_start_to_its_end() -> None:
    """Its rows, its stages, its times, and what of its model waited on."""
    talk = a_kernel(models=[a_model(batch_rows_max=2)])
    talk.arrives(1, at="1ms", payload="1KiB")
    talk.arrives(2, at="2ms", payload="1KiB")
    talk.arrives(3, at="3ms", payload="1KiB")
    talk.arrives(4, at="4ms", payload="1KiB")
    stages = {"transfer_in_ns": 1, "execution_ns": 5, "transfer_out_ns": 2}
    talk.handle(BatchFinished(batch_id=BatchId(1), **stages), at="11ms")
    talk.finishes(2, at="20ms")
    talk.finishes(3, at="25ms")
    course = course_of(talk)
    first, second, third = course.batches
    assert (first.rows, first.stages_ns, first.service_ns) == (1, 8, 10 * NS_PER_MS)
    assert (second.rows, second.payload_bytes) == (2, 2048)
    assert (second.left_rows, second.left_because) == (1, ("rows",))
    assert third.left_rows == 0
    assert (first.order, second.order) == (0, 1)
    assert [past.end for past in course.requests] == ["completed"] * 4
    assert course.requests[1].queue_delay_ns == 9 * NS_PER_MS
    assert course.rows_max == {"m": 2}
    assert course.is_whole


def test_slots_time_is_what_ran_and_what_wanted_to() -> None:
    """Of ten milliseconds one batch ran for six, on one of two slots, and nothing waited."""
    talk = a_kernel(slots=2)
    talk.arrives(1, at="10ms")
    talk.finishes(1, at="16ms")
    talk.arrives(2, at="20ms")
    use = course_of(talk).use["cpu:0"]
    assert (use.slots, use.busy_ns) == (2, 6 * NS_PER_MS)
    assert use.starved_ns == 14 * NS_PER_MS  # one slot for six, two for four


def test_time_before_the_first_request_and_after_the_last_is_apart() -> None:
    """Of 10 ms between arrivals the one slot ran for 6; the start and the end do not count."""
    talk = a_kernel()
    talk.arrives(1, at="100ms")
    talk.finishes(1, at="106ms")
    talk.arrives(2, at="110ms")
    talk.finishes(2, at="150ms")
    course = course_of(talk)
    assert course.asked_ns == 10 * NS_PER_MS
    assert course.use["cpu:0"].busy_ns == 6 * NS_PER_MS
    assert course.use["cpu:0"].starved_ns == 4 * NS_PER_MS


def test_neighbours_on_other_lanes_are_company_and_on_the_own_a_crowd() -> None:
    """Three slots, two of which share a core."""
    talk = a_kernel(devices=[a_device(lanes=[0, 1, 0])])
    for request_id in (1, 2, 3):
        talk.arrives(request_id, at="0ms")
    for batch_id in (1, 2, 3):
        talk.finishes(batch_id, at="10ms")
    course = course_of(talk)
    assert sorted((batch.company, batch.crowd) for batch in course.batches) == [
        (1.0, 1.0),
        (1.0, 1.0),
        (2.0, 0.0),
    ]


def test_members_that_are_late_count_for_their_batch() -> None:
    """One expires while it runs, one is answered in time; a client that left is no violation."""
    talk = a_kernel(models=[a_model(batch_rows_max=4, linger="5ms")])
    talk.arrives(1, at="0ms", budget="20ms")
    talk.arrives(2, at="1ms", budget="1s")
    talk.arrives(3, at="1ms", budget="1s")
    talk.wakes(at="5ms")
    talk.handle(RequestCancelled(request_id=RequestId(3)), at="6ms")
    talk.wakes(at="20ms")
    talk.finishes(1, at="30ms")
    course = course_of(talk)
    (batch,) = course.batches
    assert (batch.rows, batch.late) == (3, 1)
    ends = {int(past.request.request_id): past.end for past in course.requests}
    assert ends == {1: "expired", 2: "completed", 3: "cancelled"}
    assert batch.held_ns == 0  # it lingered as it was told to


def test_failed_and_lost_batches_are_told_apart() -> None:
    """An error leaves the worker; a loss names its models."""
    talk = a_kernel()
    talk.arrives(1, at="0ms")
    talk.handle(BatchFailed(batch_id=BatchId(1), code="executor_failed", message="no"), at="1ms")
    talk.arrives(2, at="2ms")
    talk.handle(ReplicasLost(replica_ids=(ReplicaId(1),), message="signal 9"), at="3ms")
    course = course_of(talk)
    assert [(b.end, b.error) for b in course.batches] == [
        (BatchEnd.FAILED, "executor_failed"),
        (BatchEnd.LOST, ""),
    ]
    assert [(loss.models, loss.message) for loss in course.losses] == [(("m",), "signal 9")]


def test_records_from_the_middle_of_a_run_tell_what_they_can() -> None:
    """What began before is left out; rows of a batch are taken from whoever knows them."""
    talk = a_kernel(models=[a_model(batch_rows_max=2)])
    talk.arrives(1, at="1ms")
    since = len(talk.records)
    talk.arrives(2, at="2ms")
    talk.finishes(1, at="5ms")
    talk.finishes(2, at="9ms")
    course = course_of(talk, since=since, rows_max={"m": 2})
    assert [int(past.request.request_id) for past in course.requests] == [2]
    assert [batch.started_at_ns for batch in course.batches] == [5 * NS_PER_MS]
    assert (course.is_whole, course.rows_max) == (False, {"m": 2})
    assert course.from_ns == 2 * NS_PER_MS


def test_no_records_are_an_empty_course() -> None:
    """A journal with a header alone."""
    course = follow([], [a_device()])
    assert (list(course.batches), course.span_ns, course.is_whole) == ([], 0, False)
