"""Any journal at all, whole or cut: what is put together from it adds up.

Journals are those of walks by chance: policies that cut, hold, refuse and give up, two devices,
reloads, losses, cancellations, segments, stale reports.
"""

from collections import Counter
from itertools import pairwise
from random import Random

import msgspec
import pytest
from tests.kernel_world import World
from tests.property.test_kernel import MOODS, NAMED, PLAIN, PREDICTORS, WHAT_TIME_BRINGS, walk
from tests.swarm_policy import Swarm

from headway.core import BatchFinished, Complete, Dispatch, RequestArrived
from headway.observe import BatchEnding, Lives, PauseWatch
from headway.report import Cause, Timeline, TypicalTimes, parts_of, split_tail, tell, tell_worst
from headway.report.waits import split_wait

SEEDS = range(12)


def journal(seed, steps=250):
    """The steps of a walk, with stage times by chance, and its devices."""
    chance = Random(f"{seed}/lives")
    world = World()
    world.may_follow = WHAT_TIME_BRINGS
    if chance.random() < 0.5:
        moods = [mood for mood in MOODS if chance.random() < 0.7]
        make = Swarm(seed, moods).maker(PLAIN[chance.choice(sorted(PLAIN))])
    else:
        make = NAMED[chance.choice(sorted(NAMED))]
    world.begin(make, chance.choice(PREDICTORS), can_split=True)
    walk(world, chance, steps)
    if chance.random() < 0.7:
        world.end()
    records = [with_stages(record, chance) for record in world.talk.records]
    return records, list(world.talk.kernel.params.devices)


def with_stages(record, chance):
    """As an executor might have timed it: less than all, more than all, or not at all."""
    event = record.event
    if not isinstance(event, BatchFinished):
        return record
    stages = {
        "transfer_in_ns": round(event.execution_ns * chance.choice([0, 0.1, 0.6])),
        "execution_ns": round(event.execution_ns * chance.choice([0, 0.3, 0.8, 1.2])),
        "transfer_out_ns": round(event.execution_ns * chance.choice([0, 0.1])),
    }
    return msgspec.structs.replace(record, event=msgspec.structs.replace(event, **stages))


@pytest.fixture(scope="module", params=SEEDS)
def run(request):
    """A journal, and where it may be cut."""
    records, devices = journal(request.param)
    chance = Random(f"{request.param}/cuts")
    return records, devices, [0, *sorted(chance.sample(range(1, len(records)), 3))]


def typical_of_all(records, devices):
    lives, times, watch = Lives(devices), TypicalTimes(), PauseWatch()
    for record in records:
        watch.step(record)
        for batch in lives.step(record).batches:
            times.add(batch, lives)
    watch.finish()
    return times.typical(watch.pauses)


def test_causes_of_every_request_add_up_to_its_latency(run):
    """To the nanosecond, none below zero, wherever the journal begins; also of unfinished ones."""
    records, devices, cuts = run
    told = 0
    for cut in cuts:
        part = records[cut:]
        typical = typical_of_all(part, devices)
        lives = Lives(devices)
        for record in part:
            for life in lives.step(record).requests:
                taken = parts_of(life, lives, typical)
                assert (taken is None) is (life.latency_ns is None)
                if taken is not None:
                    told += 1
                    assert sum(taken.parts_ns.values()) == life.latency_ns
                    assert min(taken.parts_ns.values(), default=0) >= 0
        for life in lives.finish().requests:
            taken = parts_of(life, lives, typical)
            if taken is not None:
                assert sum(taken.parts_ns.values()) == lives.now_ns - life.arrived_at_ns
                assert min(taken.parts_ns.values(), default=0) >= 0
    assert told > 50


def test_blockers_account_for_all_of_what_was_blocked(run):
    """Who held the slots, added up, is what the causes of it say."""
    records, devices, _ = run
    typical = typical_of_all(records, devices)
    lives = Lives(devices)
    blocking = {Cause.QUEUE, Cause.BLOCKED_LOWER, Cause.BLOCKED_EQUAL}
    for record in records:
        for life in lives.step(record).requests:
            taken = parts_of(life, lives, typical)
            if taken is None:
                continue
            by_cause = Counter()
            for blocker in taken.blockers:
                by_cause[blocker.cause] += blocker.blocked_ns
                assert blocker.batch.started_at_ns < life.ended_at_ns
            assert by_cause == Counter({c: taken.parts_ns[c] for c in blocking & set(by_cause)})
            assert all(by_cause[cause] == taken.parts_ns[cause] for cause in blocking)


def test_any_span_of_a_wait_is_taken_apart_whole(run):
    """Also one that no request waited for; two neighbouring spans add up to the one of both."""
    records, devices, _ = run
    chance = Random(1)
    pauses = typical_of_all(records, devices).pauses
    lives = Lives(devices)
    for record in records:
        for life in lives.step(record).requests:
            if life.request is None or life.ended_at_ns == life.seen_at_ns:
                continue
            from_ns, to_ns = life.seen_at_ns, life.ended_at_ns
            between_ns = chance.randint(from_ns, to_ns)
            whole = split_wait(life, from_ns, to_ns, lives, pauses).parts_ns
            halves = [
                split_wait(life, *span, lives, pauses).parts_ns
                for span in ((from_ns, between_ns), (between_ns, to_ns))
            ]
            assert sum(whole.values()) == to_ns - from_ns
            assert sum(halves[0].values()) + sum(halves[1].values()) == to_ns - from_ns
            for cause in (Cause.HOST_PAUSE, Cause.COLD_START, Cause.BATCH_WAIT, Cause.HELD):
                assert halves[0][cause] + halves[1][cause] == whole[cause]


def test_lives_say_what_the_steps_say(run):
    """Every request that arrived is told once; every batch has the members that it was given."""
    records, devices, _ = run
    lives = Lives(devices)
    requests, batches = [], []
    for record in records:
        ended = lives.step(record)
        requests += ended.requests
        batches += ended.batches
    left = lives.finish()
    requests, batches = requests + left.requests, batches + left.batches
    arrived = [r.event.request.request_id for r in records if isinstance(r.event, RequestArrived)]
    assert sorted(life.request_id for life in requests) == sorted(arrived)
    commands = [command for record in records for command in record.commands]
    started = {c.batch_id: c.request_ids for c in commands if isinstance(c, Dispatch)}
    assert {
        batch.dispatch.batch_id: tuple(life.request_id for life in batch.members)
        for batch in batches
    } == started
    completed = sum(isinstance(command, Complete) for command in commands)
    assert sum(isinstance(life.outcome, Complete) for life in requests) == completed
    finished = sum(batch.ending is BatchEnding.FINISHED for batch in batches)
    stale = started.keys() - {batch.dispatch.batch_id for batch in batches}
    assert stale == set()
    assert 0 < finished <= len(batches)
    for batch in batches:
        assert batch.ended_at_ns is None or batch.ended_at_ns >= batch.started_at_ns
        for life in batch.members:
            assert batch in life.runs


def test_reports_stand_any_journal(run):
    """The tail, the worst stories and the timeline of any part of any run."""
    records, devices, cuts = run
    for cut in cuts:
        part = records[cut:]
        report = split_tail(lambda part=part: part, devices)
        for group in report.groups:
            assert sum(cause.middle_ns for cause in group.causes) == group.middle_ns
            assert sum(cause.tail_ns for cause in group.causes) == group.tail_ns
            assert sum(c.added_ns for c in group.causes) == group.tail_ns - group.middle_ns
        for story in tell_worst(lambda part=part: part, devices, 3):
            assert sum(story.parts_ns.values()) == story.latency_ns
            assert tell(lambda part=part: part, devices, story.request_id) == story
        check_arrows(part, devices)


def check_arrows(records, devices):
    """Whatever begins on a timeline ends there once, and batches of a slot do not overlap."""
    timeline = Timeline(devices)
    events = list(timeline.begin())
    for record in records:
        events += timeline.step(record.now_ns, record.event, record.commands)
    events += timeline.end()
    begun, ended = Counter(), Counter()
    for event in events:
        if event.ph in ("s", "b"):
            begun[event.category, event.flow, event.name] += 1
        elif event.ph in ("f", "e"):
            ended[event.category, event.flow, event.name] += 1
    assert begun == ended
    assert all(count == 1 for (category, *_), count in begun.items() if category != "models")
    slices = {}
    for event in events:
        if event.ph == "X":
            span = (round(event.at_us * 1000), round((event.at_us + event.length_us) * 1000))
            slices.setdefault(event.tid, []).append(span)
    for spans in slices.values():
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert start >= end - 1
