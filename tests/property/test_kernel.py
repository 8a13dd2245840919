"""The kernel under any order of events: its laws after each step, one outcome a request at the end.

Policies are all there are by name, and one that does whatever a policy may. Hypothesis finds short
stories and shortens them; walks by seed are longer, and mostly of what happens most.
"""

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.kernel_world import MS, World
from tests.swarm_policy import MOODS, Swarm

from headway.core import (
    ConcludeUnload,
    Dispatch,
    Expire,
    GiveUp,
    Hold,
    KeepSegment,
    SetTimer,
    SlotClass,
    UnloadReplica,
)
from headway.policy import (
    batch3,
    clockwork,
    edf,
    fifo,
    headway,
    lane_edf,
    nexus,
    pcie,
    priority,
    static_cap,
    strait,
)

DEVICES = [("cpu:0",), ("cpu:1",), ("cpu:0", "cpu:1")]
PAUSES_NS = [0, 0, 1, MS, 7 * MS, 40 * MS, 200 * MS]
PREDICTORS = [None, "rls", "headway"]
"""None for the one that kernel tests have when they say nothing."""
PLAIN = {"fifo": fifo, "priority": priority, "edf": edf}
"""Those that start whatever is first."""
NAMED = PLAIN | {
    "batch3": batch3,
    "clockwork": clockwork,
    "headway": headway,
    "lane-edf": lane_edf,
    "nexus": nexus,
    "pcie": pcie,
    "static-cap": static_cap,
    "strait": strait,
}
WORDS = {
    "model": ["a", "a", "a", "b"],
    "bucket": ["x", "x", "y"],
    "version": ["", "", "", "", "1", "2"],
    "rows": [1, 1, 2, 3, 5, 9],
    "payload": [0, 30, 60, 120],
    "priority": [0, 1, 2],
    "slot_class": list(SlotClass),
    "budget": [-1, MS, 10 * MS, 50 * MS, 200 * MS, 200 * MS, 900 * MS],
    "late": [0, 0, MS, 100 * MS],
}
"""What may be said of a request."""
SETTINGS = {
    "version": ["1", "2"],
    "devices": DEVICES,
    "rows_max": [1, 4],
    "linger_ms": [0, 20],
    "can_split": [False, True],
    "segments_max": [1, 2, 8],
}
"""What may be said of a model."""


def one_of_each(words):
    """Any choice."""
    return st.fixed_dictionaries({word: st.sampled_from(each) for word, each in words.items()})


PAUSES = st.sampled_from(PAUSES_NS)
PICKS = st.integers(0, 9)
SELDOM = st.sampled_from([False] * 7 + [True])
"""Whether something that turns everything over happens: else nothing would ever run for long."""


class KernelMachine(World, RuleBasedStateMachine):
    """Everything that may happen to a kernel, as rules."""

    def makers(self):
        """What makes a policy of a predictor: those that a machine may run under."""
        raise NotImplementedError

    @initialize(data=st.data(), kind=st.sampled_from(PREDICTORS), can_split=st.booleans())
    def start(self, data, kind, can_split):
        """A policy, and two models."""
        self.begin(data.draw(self.makers()), kind, can_split=can_split)

    arrive = rule(requests=st.lists(one_of_each(WORDS), min_size=1, max_size=6), pause_ns=PAUSES)(
        World.arrive
    )
    cancel = rule(which=PICKS, pause_ns=PAUSES)(World.cancel)
    train = rule(count=st.integers(-1, 1 << 40), pause_ns=PAUSES)(World.train)
    finish = rule(picks=st.lists(PICKS, min_size=1, max_size=4), pause_ns=PAUSES)(World.finish)
    go_on_loading = precondition(lambda self: self.loading)(
        rule(which=PICKS, fails=st.sampled_from([True] + [False] * 3), can_batch=st.booleans())(
            World.go_on_loading
        )
    )
    stop = precondition(lambda self: self.unloading)(rule(which=PICKS, pause_ns=PAUSES)(World.stop))
    say_what_is_stale = rule(number=st.integers(1, 40), pause_ns=PAUSES)(World.say_what_is_stale)
    wake = rule()(World.wake)
    wake_at_any_time = rule(pause_ns=PAUSES)(World.wake_at_any_time)

    @precondition(lambda self: self.batches)
    @rule(which=PICKS, pause_ns=PAUSES, is_so=SELDOM)
    def fail_seldom(self, which, pause_ns, is_so):
        """Some batch raises."""
        if is_so:
            self.fail(which, pause_ns)

    @rule(picks=st.lists(PICKS, max_size=3), pause_ns=PAUSES, is_so=SELDOM)
    def lose_seldom(self, picks, pause_ns, is_so):
        """A worker dies."""
        if is_so:
            self.lose(picks, pause_ns)

    @rule(
        model=st.sampled_from(WORDS["model"]),
        what=one_of_each(SETTINGS),
        pause_ns=PAUSES,
        is_so=SELDOM,
    )
    def load_seldom(self, model, what, pause_ns, is_so):
        """A model is loaded anew."""
        if is_so:
            self.ask_for(model, **what, pause_ns=pause_ns)

    @rule(model=st.sampled_from(WORDS["model"]), pause_ns=PAUSES, is_so=SELDOM)
    def unload_seldom(self, model, pause_ns, is_so):
        """A model goes."""
        if is_so:
            self.unload(model, pause_ns)

    @precondition(lambda self: len(self.requests) > 40)
    @rule(is_so=SELDOM)
    def drain_seldom(self, is_so):
        """All of it goes."""
        if is_so:
            self.drain()

    check = invariant()(World.check)

    def teardown(self):
        """Everything comes to its end."""
        if hasattr(self, "talk"):
            self.end()


class PlainMachine(KernelMachine):
    """Policies that start whatever is first; nothing but time follows from what is stale."""

    def makers(self):
        """As they stand."""
        return st.sampled_from([PLAIN[name] for name in sorted(PLAIN)])


WHAT_TIME_BRINGS = (SetTimer, Dispatch, Expire, UnloadReplica, ConcludeUnload)
"""Time alone may let a policy start what it held, or give it up."""


class NamedMachine(KernelMachine):
    """Every policy by name, with the settings that it has unless told otherwise."""

    may_follow = WHAT_TIME_BRINGS

    def makers(self):
        """As they stand."""
        return st.sampled_from([NAMED[name] for name in sorted(NAMED)])


class SwarmMachine(KernelMachine):
    """A policy that does whatever a policy may."""

    may_follow = WHAT_TIME_BRINGS

    def makers(self):
        """In the order of one that has a name."""
        swarms = st.builds(Swarm, st.integers(0, 1 << 32), st.sets(st.sampled_from(MOODS)))
        orders = st.sampled_from([PLAIN[name] for name in sorted(PLAIN)])
        return st.builds(lambda swarm, order: swarm.maker(order), swarms, orders)


@pytest.mark.parametrize("machine", [PlainMachine, NamedMachine, SwarmMachine])
def test_kernel_keeps_its_laws_under_any_order_of_events(machine):
    """Whatever happens in whatever order: no law breaks, and each request ends exactly once."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=60,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


# --- walks ----------------------------------------------------------------------------------------


def choose(chance, words):
    """One of each."""
    return {word: chance.choice(each) for word, each in words.items()}


def walk(world, chance, steps):
    """Let things happen by chance: mostly that work comes and is done."""

    def picks():
        return [chance.randrange(10) for _ in range(chance.randint(1, 2))]

    def model():
        return chance.choice(WORDS["model"])

    def turn_over():
        match chance.randrange(6):
            case 0:
                world.lose(picks(), pause_ns)
            case 1:
                world.unload(model(), pause_ns)
            case _:
                world.ask_for(model(), **choose(chance, SETTINGS), pause_ns=pause_ns)
                if chance.random() < 0.5:
                    world.make_ready()

    def load_or_stop():
        if world.loading:
            world.go_on_loading(chance.randrange(10), fails=chance.random() < 0.1, can_batch=True)
        if world.unloading:
            world.stop(chance.randrange(10), pause_ns)

    might = {
        lambda: world.arrive([choose(chance, WORDS) for _ in picks() * 2], pause_ns): 12,
        lambda: world.finish(picks(), pause_ns): 20,
        lambda: world.cancel(chance.randrange(10), pause_ns): 3,
        lambda: world.batches and world.fail(chance.randrange(10), pause_ns): 1,
        lambda: world.say_what_is_stale(chance.randint(1, 40), pause_ns): 1,
        lambda: world.wake_at_any_time(pause_ns): 2,
        world.wake: 8,
        load_or_stop: 12,
        turn_over: chance.choice([0, 1, 3]),
    }
    for _ in range(steps):
        pause_ns = chance.choice(PAUSES_NS[:-1])
        (step,) = chance.choices([*might], [*might.values()])
        step()
        world.check()


@pytest.mark.parametrize("seed", range(10))
def test_kernel_keeps_its_laws_on_a_long_walk_with_a_swarm(seed):
    """Hundreds of steps with a policy that cuts, holds, gives up, refuses and promotes."""
    chance = Random(f"{seed}/walk")
    world = World()
    world.may_follow = WHAT_TIME_BRINGS
    moods = [mood for mood in MOODS if chance.random() < 0.7]
    order = PLAIN[chance.choice(sorted(PLAIN))]
    world.begin(Swarm(seed, moods).maker(order), chance.choice(PREDICTORS), can_split=True)
    walk(world, chance, 600)
    world.end()


@pytest.mark.parametrize("name", sorted(NAMED))
def test_kernel_keeps_its_laws_on_a_long_walk_with_a_policy(name):
    """Each by its name."""
    chance = Random(f"{name}/walk")
    world = World()
    world.may_follow = WHAT_TIME_BRINGS
    world.begin(NAMED[name], chance.choice(PREDICTORS), can_split=True)
    walk(world, chance, 600)
    world.end()


def test_walks_with_a_swarm_meet_all_that_a_policy_may_do():
    """What the walks above are for does happen on them, and often."""
    met = Counter()

    class Seen(Swarm):
        def place(self, bucket, model, options, fleet, now_ns):
            placing = super().place(bucket, model, options, fleet, now_ns)
            met[type(placing)] += 1
            return placing

        def promoted_key(self, request):
            met["promoted"] += 1
            return super().promoted_key(request)

    for seed in range(3):
        world, chance = World(), Random(f"{seed}/met")
        world.may_follow = WHAT_TIME_BRINGS
        world.begin(Seen(seed, MOODS).maker(priority), None, can_split=True)
        walk(world, chance, 200)
        world.end()
        for record in world.talk.records:
            met.update(type(command) for command in record.commands)
    assert min(met[kind] for kind in (Hold, GiveUp, KeepSegment, Expire, "promoted")) > 5
