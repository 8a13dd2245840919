"""Laws of whole step schedulers, under arrivals, cancellations and a memory that is too small."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generate_rig import BRONZE, GOLD, MS, PLAIN, SILVER, Rig, an_engine

from headway.generate import (
    AgingSettings,
    CreditSettings,
    FcfsOrder,
    HeadwayScheduler,
    PreemptWay,
    PriorityOrder,
    StepLaw,
    StepSettings,
    StockScheduler,
    StockSettings,
    SwapSettings,
    VictimSettings,
    VtcOrder,
    WatermarkSettings,
)

TIERS = st.sampled_from([GOLD, SILVER, BRONZE, PLAIN])
KEYS = st.sampled_from([(), (1, 2, 3, 4), (1, 2, 5), (7, 8)])
ARRIVALS = st.tuples(
    st.just("arrive"), TIERS, st.integers(1, 120), st.integers(1, 40), st.sampled_from("abc"), KEYS
)
STEPS = st.tuples(st.just("step"), st.integers(1, 6))
CANCELS = st.tuples(st.just("cancel"), st.integers(1, 30))
PLAYS = st.lists(st.one_of(ARRIVALS, ARRIVALS, STEPS, CANCELS), max_size=50)
SETTINGS = st.builds(
    StepSettings,
    credits=st.builds(CreditSettings, quantum=st.sampled_from([10.0, 200.0])),
    victims=st.builds(
        VictimSettings, quantum_steps=st.sampled_from([0, 3]), preempts_max=st.integers(0, 2)
    ),
    swap=st.builds(
        SwapSettings,
        ways=st.sampled_from([(PreemptWay.RECOMPUTE,), (PreemptWay.SWAP,), tuple(PreemptWay)]),
        host_tokens_max=st.sampled_from([0, 150, 10_000]),
    ),
    watermark=st.sampled_from(
        [WatermarkSettings(), WatermarkSettings(high_ratio=1.0, low_ratio=0.99)]
    ),
    aging=st.builds(AgingSettings, after_ns=st.sampled_from([0, 50 * MS, 10_000 * MS])),
    long_tokens=st.sampled_from([40, 10_000]),
)
LIMITS = st.sampled_from(
    [
        {"blocks": 10, "sequences_max": 3, "step_tokens_max": 32},
        {"blocks": 12, "sequences_max": 8, "step_tokens_max": 256},
        {
            "blocks": 20,
            "sequences_max": 4,
            "step_tokens_max": 64,
            "law": StepLaw(base_ns=2.0 * MS, decode_ns=5.0 * MS, free_tokens=16),
        },
    ]
)


def played(rig, plays):
    """Do all that is asked for, then let everything end; returns who was cancelled or refused."""
    gone, arrived = set(), []
    for kind, *arguments in plays:
        if kind == "arrive":
            terms, prompt, output, tag, keys = arguments
            keys = keys[: prompt // 16]
            number = rig.arrive(terms, prompt=prompt, output=output, tag=tag, keys=keys)
            arrived.append(number)
            if number not in rig.scheduler.roster.sequences:
                gone.add(number)
        elif kind == "step":
            rig.step(arguments[0])
        elif arguments[0] in arrived:
            gone.add(arguments[0])
            rig.cancel(arguments[0])
    rig.run()
    return gone, arrived


def demand(rig, gone, arrived, *, tokens_max, sequences_max):
    """What holds for any scheduler."""
    for plan in rig.plans:
        assert plan.tokens <= tokens_max
        assert len(plan.work) == len(rig.in_step(plan)) <= sequences_max
        assert all(work.tokens >= 1 for work in plan.work)
    for number in arrived:
        if number not in gone:
            assert rig.tokens[number] == rig._output[number]
    assert rig.scheduler.pool.used_count == 0
    rig.scheduler.roster.check()


@settings(max_examples=300)
@given(PLAYS, SETTINGS, LIMITS)
def test_scheduler_serves_everybody_within_its_limits(plays, step_settings, limits):
    """All end with their tokens, no step exceeds its budget, memory comes back, victims are few."""
    engine = an_engine(**limits)
    rig = Rig(HeadwayScheduler(engine, step_settings))
    gone, arrived = played(rig, plays)
    demand(
        rig,
        gone,
        arrived,
        tokens_max=engine.step_tokens_max,
        sequences_max=engine.sequences_max,
    )
    most = max(rig.preempts.values(), default=0)
    assert most <= step_settings.victims.preempts_max
    assert rig.scheduler.preemption.rule.host_tokens == 0
    assert rig.scheduler.waiting_count == 0


@given(PLAYS, SETTINGS, LIMITS)
def test_victims_are_never_more_important_than_who_needs_them(plays, step_settings, limits):
    """Whoever is pushed out, somebody in the step that follows is as important, or more."""
    rig = Rig(HeadwayScheduler(an_engine(**limits), step_settings))
    priority_of = {}

    def remember(number, terms):
        priority_of[number] = terms.priority

    arrive = rig.arrive

    def arrive_and_remember(terms, **arguments):
        number = arrive(terms, **arguments)
        remember(number, terms)
        return number

    rig.arrive = arrive_and_remember
    played(rig, plays)
    for plan in rig.plans:
        for preempted in plan.preempted:
            beside = [priority_of[n] for n in rig.in_step(plan)]
            beside += [priority_of[load.sequence_id] for load in plan.loads]
            assert min(beside) <= priority_of[preempted.sequence_id]


@given(PLAYS, st.sampled_from([FcfsOrder, PriorityOrder, VtcOrder]), st.booleans())
def test_stock_schedulers_serve_everybody_within_their_limits(plays, order, reserves_prompt):
    """What ours is compared with keeps the same laws."""
    engine = an_engine(blocks=12, sequences_max=4, step_tokens_max=64)
    stock_settings = StockSettings(step_tokens=32, reserves_prompt=reserves_prompt)
    rig = Rig(StockScheduler(engine, order(), stock_settings))
    gone, arrived = played(rig, plays)
    demand(rig, gone, arrived, tokens_max=32, sequences_max=4)
