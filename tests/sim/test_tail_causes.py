"""One cause of a long tail is planted in a simulated run, and the report must name it first.

Every run has the same body: requests that take some 5 ms on a quiet device, far below what it can
do. Then each has one thing added to it that strikes a few requests in a hundred.
"""

from random import Random

import pytest
from msgspec.structs import replace

from headway.core import (
    BatchFinished,
    Dispatch,
    Kernel,
    KernelParams,
    RequestArrived,
    SlotClass,
)
from headway.policy import priority, static_cap
from headway.report import Cause, split_tail, tell_worst
from headway.sim import Fault, HostPause, SharedLanes, SoloTimes, World, record_into
from headway.testing import MeanPredictor, a_device, a_model, a_request
from headway.units import NS_PER_MS, NS_PER_S

GAP_MS = 40
COUNT = 1_000
WEIGHTS = {SlotClass.HIGH: 3.0, SlotClass.LOW: 1.0}
"""How two batches divide a lane."""


class Planted:
    """A simulated run.

    Args:
        requests: all of them, in order of arrival.
        service_ms: how long a batch takes alone, from its dispatch and members; 5 ms otherwise.
        stages: what an executor would have said of a batch, from its times as the simulator says
            them and its dispatch.
    """

    def __init__(
        self,
        requests,
        *,
        lanes=(0,),
        models=(),
        service_ms=None,
        shared=False,
        faults=(),
        policy=priority,
        load_ms=0,
        stages=None,
        arrival=None,
    ):
        requests = sorted(requests, key=lambda request: request.arrived_at_ns)
        by_id = {request.request_id: request for request in requests}
        device = a_device(lanes=lanes)

        def service_ns(dispatch):
            members = [by_id[request_id] for request_id in dispatch.request_ids]
            took_ms = 5 if service_ms is None else service_ms(dispatch, members)
            return round(took_ms * NS_PER_MS)

        executor = SharedLanes(service_ns, [device], WEIGHTS) if shared else SoloTimes(service_ns)
        kernel = Kernel(KernelParams(devices=(device,)), policy(MeanPredictor()))
        self.devices = [device]
        self.records = []
        world = World(
            kernel, executor, observe=record_into(self.records), load_ns=load_ms * NS_PER_MS
        )
        world.load([a_model("m", batch_rows_max=1), *models])
        world.run(requests, faults=faults)
        self.dispatches = {
            command.batch_id: command
            for record in self.records
            for command in record.commands
            if isinstance(command, Dispatch)
        }
        if stages is not None or arrival is not None:
            self.records = [self.retold(record, stages, arrival) for record in self.records]

    def retold(self, record, stages, arrival):
        """The same step with what the simulator does not have."""
        event = record.event
        if stages is not None and isinstance(event, BatchFinished):
            said = stages(event.execution_ns, self.dispatches[event.batch_id])
            event = replace(event, **said)
        elif arrival is not None and isinstance(event, RequestArrived):
            early_ns = arrival(event.request)
            at_ns = event.request.arrived_at_ns - early_ns
            event = replace(event, request=replace(event.request, arrived_at_ns=at_ns))
        return replace(record, event=event)

    def tail(self, model="m", tier="normal"):
        """Its line of the report."""
        report = split_tail(lambda: self.records, self.devices)
        return next(g for g in report.groups if (g.model, g.tier) == (model, tier))


def body(*, every=None, count=COUNT, **what):
    """A request of one row each 40 ms, give or take some; `every` changes some of them."""
    chance = Random("body/arrivals")
    for number in range(1, count + 1):
        at_ns = (GAP_MS * number + chance.randrange(10)) * NS_PER_MS
        words = what | (every(number) if every is not None else {})
        yield a_request(number, at=at_ns, **({"budget": "10s"} | words))


def some(number, *, one_in=40):
    """Whether it strikes this one: 2.5 % of all, at no fixed distance."""
    return Random(f"{number}/some").randrange(one_in) == 0


def others(*, first=100_000, each_ms, count, **what):
    """Requests of something else, a few milliseconds before those of the body."""
    for number in range(count):
        at_ns = (each_ms * (number + 1) - 2) * NS_PER_MS
        yield a_request(first + number, at=at_ns, **({"budget": "60s"} | what))


def burst():
    """Six at once, now and then."""
    more = [
        replace(request, arrived_at_ns=request.arrived_at_ns + 2 * NS_PER_MS)
        for number in range(6)
        for request in others(first=10_000 * (number + 1), each_ms=2_000, count=15)
    ]
    return Planted([*body(), *more])


def batch_wait():
    """Four come together and fill a batch at once; now and then one comes alone and lingers."""
    requests = []
    for group in range(1, 300):
        size = 1 if some(group, one_in=12) else 4
        for member in range(size):
            at_ns = GAP_MS * group * NS_PER_MS
            requests.append(a_request(10 * group + member, at=at_ns, budget="10s"))
    return Planted(requests, models=[a_model("m", batch_rows_max=4, linger="30ms")])


def held():
    """At most one low batch at once: the second and third of three wait beside a free slot."""
    requests = list(body(slot_class=SlotClass.LOW))
    more = [
        replace(request, request_id=request.request_id + offset)
        for request in requests
        if some(request.request_id)
        for offset in (50_000, 60_000)
    ]
    return Planted(
        [*requests, *more],
        lanes=(0, 1),
        policy=lambda predictor: static_cap(predictor, low_max=1),
    )


def low_blocks():
    """A long batch of a lower priority, now and then."""
    low = others(each_ms=2_000, count=20, model="n", priority=9, tier="bulk")
    return Planted(
        [*body(), *low],
        models=[a_model("n")],
        service_ms=lambda dispatch, _: 60 if dispatch.model == "n" else 5,
    )


def equal_blocks():
    """The same of its own priority."""
    long = others(each_ms=2_000, count=20, model="n")
    return Planted(
        [*body(), *long],
        models=[a_model("n")],
        service_ms=lambda dispatch, _: 60 if dispatch.model == "n" else 5,
    )


def interference():
    """A long batch on the other slot of its lane, now and then, with most of that lane."""
    beside = others(each_ms=1_000, count=40, model="n", priority=9, tier="bulk")
    return Planted(
        [*body(slot_class=SlotClass.LOW), *beside],
        lanes=(0, 0),
        shared=True,
        models=[a_model("n")],
        service_ms=lambda dispatch, _: 20 if dispatch.model == "n" else 5,
    )


def variance():
    """Now and then the same work takes eight times as long, for no reason that shows."""
    return Planted(body(), service_ms=lambda dispatch, _: 40 if some(dispatch.batch_id) else 5)


def sizes():
    """A few requests have sixteen rows instead of one."""
    return Planted(
        body(every=lambda number: {"rows": 16} if some(number) else {}),
        models=[a_model("m", batch_rows_max=16)],
        service_ms=lambda dispatch, _: 3 + 2 * dispatch.rows,
    )


def padding():
    """A few are far shorter than the bucket that they are padded to."""

    def every(number):
        if some(number):
            return {"bucket": "512", "payload": 2048, "padding": 1800}
        return {"bucket": "32", "payload": 128}

    return Planted(
        body(every=every),
        service_ms=lambda _, members: 40 if members[0].bucket == "512" else 5,
    )


def company():
    """A few come with seven others, and wait for the whole batch."""
    requests = list(body())
    more = [
        replace(request, request_id=10_000 * member + request.request_id, tier="bulk")
        for request in requests
        if some(request.request_id)
        for member in range(1, 8)
    ]
    both = [*more, *requests]  # at one instant in this order, and the last fills the batch
    return Planted(
        both,
        models=[a_model("m", batch_rows_max=8, linger="1ms")],
        service_ms=lambda dispatch, _: 2 + 3 * dispatch.rows,
    )


def launch_jitter():
    """Now and then 40 ms go by in none of the stages."""
    return Planted(
        body(),
        service_ms=lambda dispatch, _: 45 if some(dispatch.batch_id) else 5,
        stages=lambda *_: {"execution_ns": 5 * NS_PER_MS},
    )


def transfer():
    """Now and then the inputs take 40 ms to the device."""

    def stages(took_ns, _):
        return {"execution_ns": 5 * NS_PER_MS, "transfer_in_ns": took_ns - 5 * NS_PER_MS}

    return Planted(
        body(),
        service_ms=lambda dispatch, _: 45 if some(dispatch.batch_id) else 5,
        stages=stages,
    )


def cold_start():
    """The worker is lost twice, and loading takes a while."""
    losses = [Fault(at_s * NS_PER_S + 20 * NS_PER_MS, "cpu:0") for at_s in (10, 20)]
    return Planted(body(), faults=losses, load_ms=300)


def host_pause():
    """The scheduler stands still for 100 ms, now and then."""
    pauses = [HostPause(at_s * NS_PER_S + 3 * NS_PER_MS, 100 * NS_PER_MS) for at_s in range(1, 39)]
    return Planted(body(), faults=pauses)


def intake():
    """A few bodies take 60 ms to read."""
    return Planted(
        body(), arrival=lambda request: 60 * NS_PER_MS if some(request.request_id) else 0
    )


PLANTED = {
    Cause.QUEUE: (burst, "queue.requests_max"),
    Cause.BATCH_WAIT: (batch_wait, "batch.linger"),
    Cause.HELD: (held, "policy"),
    Cause.BLOCKED_LOWER: (low_blocks, "static-cap"),
    Cause.BLOCKED_EQUAL: (equal_blocks, "cap their rows"),
    Cause.INTERFERENCE: (interference, "fewer batches at once"),
    Cause.VARIANCE: (variance, "wider bound"),
    Cause.OWN_WORK: (sizes, "split the queue"),
    Cause.PADDING: (padding, "finer buckets"),
    Cause.COMPANY: (company, "batch.rows_max"),
    Cause.OVERHEAD: (launch_jitter, "core for the workers"),
    Cause.TRANSFER: (transfer, "pinned memory"),
    Cause.COLD_START: (cold_start, "warm up"),
    Cause.HOST_PAUSE: (host_pause, "core of its own"),
    Cause.INTAKE: (intake, "binary_data"),
}


def test_every_cause_is_planted():
    """A cause that nothing shows could be named for anything."""
    assert set(PLANTED) == set(Cause)


@pytest.mark.parametrize("cause", list(Cause))
def test_planted_cause_is_named_first_with_its_remedy(cause):
    """It adds most of the way from the middle to the tail, and what helps against it is said."""
    plant, remedy = PLANTED[cause]
    run = plant()
    tail = run.tail()
    first = tail.causes[0]
    assert (first.cause, first.added_ratio > 0.6) == (cause, True), tail
    assert remedy in first.remedy
    assert tail.p99_ns > 2 * tail.p50_ns
    assert sum(found.added_ns for found in tail.causes) == tail.tail_ns - tail.middle_ns


@pytest.mark.parametrize("cause", list(Cause))
def test_story_of_the_worst_request_has_the_planted_cause_first(cause):
    """What is said of the tail is said of one request out of it, too."""
    plant, _ = PLANTED[cause]
    run = plant()
    worst = tell_worst(lambda: run.records, run.devices, 200)
    (story, *_) = [story for story in worst if (story.model, story.tier) == ("m", "normal")]
    assert next(iter(story.parts_ns)) is cause
    assert sum(story.parts_ns.values()) == story.latency_ns


def test_quiet_run_has_no_tail_to_speak_of():
    """Nothing planted, and nothing is blamed."""
    tail = Planted(body()).tail()
    assert tail.tail_ns < 1.1 * tail.middle_ns
