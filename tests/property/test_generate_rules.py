"""Laws of the parts of a step scheduler: blocks, credits, gate, victims, peak, aging."""

from hypothesis import given
from hypothesis import strategies as st

from headway.generate import (
    Aging,
    AgingSettings,
    BlockPool,
    Candidate,
    CopyLaw,
    CreditSettings,
    PeakForecast,
    PreemptWay,
    Sequence,
    SequenceParams,
    StepLaw,
    SwapRule,
    SwapSettings,
    TagCredits,
    TierTerms,
    Watermark,
    WatermarkSettings,
    choose_victims,
    crossover_tokens,
)

TAGS = ("a", "b", "c", "d")
CHARGE_MAX = 300.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["start", "grow", "filled", "release"]),
            st.integers(1, 5),
            st.integers(1, 90),
            st.sampled_from([(), (1, 2, 3), (1, 2, 4), (1, 5), (6,)]),
        ),
        max_size=120,
    )
)
def test_blocks_never_leak_and_are_never_negative(steps):
    """Whatever is asked for in whatever order, the account adds up, and all comes back."""
    pool, room, tokens_of = BlockPool(8, 16), {}, {}
    for kind, sequence_id, tokens, keys in steps:
        if kind == "start" and sequence_id not in room:
            if pool.blocks_to_start(keys, tokens, tokens) > pool.free_count:
                continue
            prefix_tokens = pool.start(sequence_id, keys, tokens)
            assert prefix_tokens < tokens
            assert pool.grow(sequence_id, tokens)
            room[sequence_id], tokens_of[sequence_id] = tokens, prefix_tokens
        elif kind == "grow" and sequence_id in room:
            used_count = pool.used_count
            if pool.grow(sequence_id, tokens):
                room[sequence_id] = max(room[sequence_id], tokens)
            else:
                assert pool.used_count == used_count
        elif kind == "filled" and sequence_id in room:
            tokens_of[sequence_id] = max(tokens_of[sequence_id], min(tokens, room[sequence_id]))
            pool.filled(sequence_id, tokens_of[sequence_id])
        elif kind == "release":
            freed, free_count = room.pop(sequence_id, None), pool.free_count
            expected = 0 if freed is None else pool.freed_by(sequence_id)
            pool.release(sequence_id)
            assert pool.free_count == free_count + expected
        pool.check()
        assert all(pool.room_tokens(each) >= room[each] for each in room)
    for sequence_id in tuple(room):
        pool.release(sequence_id)
    pool.check()
    assert pool.free_count == 8


@given(st.lists(st.integers(2, 40), min_size=2, max_size=6), st.integers(0, 3))
def test_common_prefix_is_counted_once(prompts, common):
    """However many share it, the blocks of a prefix are in use once."""
    pool = BlockPool(1_000, 16)
    keys = tuple(range(common))
    for number, extra in enumerate(prompts):
        tokens = 16 * common + extra
        pool.start(number, keys, tokens)
        pool.grow(number, tokens)
        pool.filled(number, tokens)
    own = sum(-(-extra // 16) for extra in prompts)
    assert pool.used_count == own + common


@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from(TAGS), min_size=1), st.floats(1.0, CHARGE_MAX)),
        min_size=1,
        max_size=200,
    ),
    st.floats(0.0, 3.0),
)
def test_credits_are_conserved(looks, carry_rounds):
    """Every unit granted is spent, lost above the limit, or there; no balance is out of bounds."""
    settings = CreditSettings(quantum=100.0, carry_rounds=carry_rounds)
    account = TagCredits(settings)
    for wanting, units in looks:
        account.begin_round(sorted(wanting))
        tag = max(sorted(wanting), key=account.balance)
        assert account.has_credit(tag)
        account.spend(tag, units)
        assert account.is_conserved()
        for each in TAGS:
            assert -CHARGE_MAX <= account.balance(each) <= (1 + carry_rounds) * 100.0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(1.0, CHARGE_MAX)), min_size=50, max_size=400),
    st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=2, max_size=4),
    st.floats(0.0, 2.0),
)
def test_backlogged_tags_are_served_alike(looks, weights, carry_rounds):
    """Both stated bounds hold for tags that want all along, whoever with credit is chosen."""
    quantum = 100.0
    tags = [TAGS[index] for index in range(len(weights))]
    weight_of = dict(zip(tags, weights, strict=True))
    account = TagCredits(
        CreditSettings(quantum=quantum, carry_rounds=carry_rounds, weights=weight_of)
    )
    passed_over = {tag: dict.fromkeys(tags, 0.0) for tag in tags}
    served = dict.fromkeys(tags, 0.0)
    for choice, units in looks:
        account.begin_round(tags)
        able = [tag for tag in tags if account.has_credit(tag)]
        tag = able[choice % len(able)]
        account.spend(tag, units)
        served[tag] += units
        passed_over[tag] = dict.fromkeys(tags, 0.0)
        for other in tags:
            if other != tag:
                passed_over[other][tag] += units
        for i in tags:
            for j in tags:
                if i == j:
                    continue
                least = min(weight_of[i], weight_of[j])
                bound = 2 * ((carry_rounds + 1) * quantum + CHARGE_MAX / least)
                assert abs(served[i] / weight_of[i] - served[j] / weight_of[j]) <= bound + 1e-6
                rounds = carry_rounds + 1 + CHARGE_MAX / (quantum * weight_of[i])
                wait = (carry_rounds + 1) * quantum * weight_of[j] + CHARGE_MAX
                wait += weight_of[j] * rounds * quantum
                assert passed_over[i][j] <= wait + 1e-6


@given(st.lists(st.floats(0.0, 1.0), max_size=100))
def test_gate_changes_only_at_its_marks(ratios):
    """It is never shut below the low mark nor open above the high one, nor moves in between."""
    gate, was_open = Watermark(WatermarkSettings(high_ratio=0.85, low_ratio=0.7)), True
    for ratio in ratios:
        is_open = gate.look(ratio)
        if ratio >= 0.85:
            assert not is_open
        elif ratio <= 0.7:
            assert is_open
        else:
            assert is_open == was_open
        was_open = is_open


@given(
    st.lists(st.tuples(st.integers(0, 20), st.floats(0.0, 1e6), st.integers(1, 3)), max_size=12),
    st.integers(1, 60),
)
def test_victims_are_enough_and_none_is_superfluous(figures, needed):
    """Either nobody is taken, since all would not do, or enough are and not one too many."""
    candidates = []
    for number, (blocks, lost_ns, priority) in enumerate(figures):
        params = SequenceParams(
            sequence_id=number,
            model="llm",
            tag="t",
            terms=TierTerms(name="low", priority=priority),
            arrived_at_ns=number,
            prompt_tokens=8,
            output_tokens_max=8,
        )
        candidates.append(Candidate(Sequence(params, None), blocks, lost_ns))
    blocks_of = {each.sequence.sequence_id: each.blocks for each in candidates}
    chosen = [blocks_of[each.sequence_id] for each in choose_victims(candidates, needed)]
    if sum(blocks_of.values()) < needed:
        assert chosen == []
    else:
        assert sum(chosen) >= needed
        assert all(sum(chosen) - each < needed for each in chosen)


ENTRIES = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=10)


@given(ENTRIES, st.tuples(st.integers(1, 60), st.integers(1, 60)))
def test_peak_is_that_of_every_step(entries, extra):
    """The formula gives what playing all steps one by one gives."""

    def played(running):
        steps = max((left for left, _ in running), default=0)
        return max(
            (
                sum(held + step for left, held in running if left >= step)
                for step in range(1, steps + 1)
            ),
            default=0,
        )

    peak = PeakForecast(entries)
    assert peak.tokens == played(entries)
    more = played([*entries, extra])
    assert peak.with_one_more(*extra) == more
    assert [peak.fits(*extra, limit) for limit in (more - 1, more, more + 200)] == [
        False,
        True,
        True,
    ]


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.floats(1.0, 50.0)), max_size=300),
    st.floats(0.01, 0.5),
)
def test_aged_class_waits_no_longer_than_its_bound(steps, floor_ratio):
    """Served whenever it is owed something, a class is below its floor by one step at most."""
    aging = Aging(AgingSettings(after_ns=0, floor_ratio=floor_ratio, owed_max=1e9))
    total = own = 0.0
    for priority, units in steps:
        aging.waits(2, is_aged=True)
        chosen = 2 if aging.is_owed(2) else priority
        aging.served({chosen: units})
        total += units
        own += units * (chosen == 2)
        assert own >= floor_ratio * total - 50.0


@given(
    st.floats(1.0, 1e5),
    st.floats(0.0, 50.0),
    st.floats(0.0, 1e7),
    st.floats(1.0, 1e5),
    st.integers(1, 100_000),
)
def test_rule_takes_the_side_of_the_crossover(a, twice_b, c, s, tokens):
    """Alone and idle, what is chosen is what L* says, except where both cost the same."""
    law = StepLaw(prefill_ns=a, pair_ns=twice_b)
    copies = CopyLaw(fixed_ns=c, token_ns=s)
    rule = SwapRule(SwapSettings(margin_ratio=0.0), copies)
    length = crossover_tokens(law, copies)
    chosen = rule.choose(tokens, 0, law)
    costs = [rule.cost_ns(way, tokens, 0, law) for way in PreemptWay]
    if length is None or abs(costs[0] - costs[1]) <= 1e-6 * max(costs):
        return
    expected = PreemptWay.RECOMPUTE if tokens < length else PreemptWay.SWAP
    assert chosen is expected
