"""Laws of the doctor: any run, whole or cut off at its start, is followed and diagnosed."""

from hypothesis import given
from hypothesis import strategies as st

from headway.core import (
    BatchFailed,
    Complete,
    LoadReplica,
    ReplicasLost,
    RequestCancelled,
    RequestId,
)
from headway.doctor import CHECKS, Chart, diagnose, follow
from headway.testing import Dialogue, a_device, a_kernel, a_model
from headway.units import NS_PER_MS

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["arrive", "arrive", "arrive", "finish", "finish", "fail", "lose", "cancel"]
        ),
        st.integers(0, 7),
    ),
    max_size=80,
)


def play(steps) -> Dialogue:
    """A kernel with two lanes, two models and little room; time passes with every step."""
    talk = a_kernel(
        "priority",
        devices=[a_device(lanes=[0, 0, 1])],
        models=[
            a_model("a", batch_rows_max=4, linger="3ms", can_split=True),
            a_model("b", queue_requests_max=2),
        ],
    )
    for count, (kind, number) in enumerate(steps, start=1):
        at_ns = talk.now_ns + number * NS_PER_MS
        while talk.kernel.armed_at_ns is not None and talk.kernel.armed_at_ns <= at_ns:
            _follow_up(talk, talk.wakes(at=max(talk.now_ns, talk.kernel.armed_at_ns)))
        batches = sorted(talk.kernel.fleet.batches)
        if kind == "arrive":
            model = "ab"[number % 2]
            talk.arrives(
                count, at=at_ns, model=model, rows=1 + number % 3, budget=f"{1 + number}ms"
            )
        elif kind == "cancel":
            request = RequestCancelled(request_id=RequestId(1 + number))
            _follow_up(talk, talk.handle(request, at=at_ns))
        elif batches and kind == "finish":
            talk.finishes(batches[number % len(batches)], at=at_ns)
        elif batches and kind == "fail":
            batch_id = batches[number % len(batches)]
            failed = BatchFailed(batch_id=batch_id, code="executor_failed", message="no")
            talk.handle(failed, at=at_ns)
        elif batches and kind == "lose":
            replica_id = talk.kernel.fleet.batches[batches[0]].replica.replica_id
            lost = ReplicasLost(replica_ids=(replica_id,), message="signal 9")
            _follow_up(talk, talk.handle(lost, at=at_ns))
    return talk


def _follow_up(talk: Dialogue, commands) -> None:
    """What is asked to be loaded is loaded at once."""
    for command in commands:
        if isinstance(command, LoadReplica):
            talk.warm(command.replica_id)


@given(STEPS)
def test_course_of_a_run_has_every_request_and_no_more_time_than_there_was(steps):
    """Requests that ended are those that the kernel answered, and slots' time adds up."""
    talk = play(steps)
    course = follow(talk.records, talk.kernel.params.devices)
    ended = {past.request.request_id: past.end for past in course.requests}
    assert ended.keys() == talk.outcomes.keys()
    completed = {i for i, end in talk.outcomes.items() if isinstance(end, Complete)}
    assert {request_id for request_id, end in ended.items() if end == "completed"} == completed
    (use,) = course.use.values()
    assert use.busy_ns >= 0
    assert use.busy_ns + use.starved_ns <= use.slots * course.asked_ns
    for batch in course.batches:
        assert batch.late >= 0
        assert 0 <= batch.held_ns <= course.span_ns
        assert batch.company + batch.crowd <= use.slots - 1 + 1e-9


@given(STEPS, st.integers(0, 80))
def test_any_part_of_a_run_is_diagnosed(steps, first):
    """Wherever the records begin, each check has an answer, and no certainty is beyond 1."""
    talk = play(steps)
    course = follow(talk.records[first:], talk.kernel.params.devices)
    diagnosis = diagnose(Chart(course=course))
    found = {finding.code for finding in diagnosis.findings}
    assert found | set(diagnosis.healthy) | set(diagnosis.unknown) == {c.code for c in CHECKS}
    assert all(0.95 <= finding.confidence_ratio <= 1 for finding in diagnosis.findings)
