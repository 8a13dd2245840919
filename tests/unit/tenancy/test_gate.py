"""The gate: who passes, what is held for them, and what a refusal says."""

import pytest

from headway.core import ModelName, TenantId, TierName
from headway.errors import NotAllowedError, NotAuthenticatedError, RejectedError
from headway.tenancy import (
    Ask,
    Ending,
    Gate,
    KeyParams,
    Outcome,
    Period,
    QuotaParams,
    TenantParams,
    hash_of,
    places_of,
)
from headway.units import NS_PER_MS, NS_PER_S

ACME, OTHER = TenantId("acme"), TenantId("other")
MODEL = ModelName("ocr")
DONE = Outcome(Ending.COMPLETED, rows=1, device_ns=10 * NS_PER_MS)


class Book:
    """Remembers what a gate tells."""

    def __init__(self):
        self.lines = []

    def note(self, tenant, ask, outcome, unix_ns):
        self.lines.append((tenant, ask.model, str(outcome.ending)))


def a_tenant(name=ACME, **limits):
    """A tenant whose key is its name."""
    return TenantParams(tenant=name, keys=(KeyParams(key_hash=hash_of(name)),), **limits)


def a_gate(*tenants, **how):
    """A gate of these, which opened in 1970."""
    return Gate(tenants or [a_tenant()], started_at_unix_ns=0, models=frozenset({MODEL}), **how)


def an_ask(rows=1, **fields):
    """What a request wants."""
    return Ask(fields.pop("model", MODEL), rows, 64, **fields)


def refusal(gate, key=ACME, now_ns=0, **ask):
    """Why a request is refused."""
    with pytest.raises(RejectedError) as raised:
        gate.enter(key, an_ask(**ask), now_ns)
    return raised.value


def test_key_says_whose_a_request_is():
    """Two tenants, two keys."""
    gate = a_gate(a_tenant(), a_tenant(OTHER))
    assert gate.enter(ACME, an_ask(), 0).tenant == ACME
    assert gate.enter(OTHER, an_ask(), 0).tenant == OTHER
    assert gate.in_flight() == {ACME: 1, OTHER: 1}


def test_request_without_a_key_is_the_anonymous_tenant_s_or_refused():
    """Where somebody stands for those without a key, a wrong key is still wrong."""
    with pytest.raises(NotAuthenticatedError, match="has no key"):
        a_gate().enter("", an_ask(), 0)
    gate = a_gate(a_tenant(), a_tenant(OTHER), anonymous=OTHER)
    assert gate.enter("", an_ask(), 0).tenant == OTHER
    with pytest.raises(NotAuthenticatedError, match="nobody's"):
        gate.enter("hwk_wrong", an_ask(), 0)


@pytest.mark.parametrize(
    ("limits", "ask", "message"),
    [
        ({"models": frozenset({ModelName("asr")})}, {}, "may not use model `ocr`"),
        ({}, {"tenant": OTHER}, "of tenant `acme`, not of `other`"),
    ],
)
def test_what_a_tenant_may_not_have_is_refused_and_nothing_is_held(limits, ask, message):
    """The message says what it may have instead."""
    gate = a_gate(a_tenant(**limits))
    with pytest.raises(NotAllowedError, match=message) as raised:
        gate.enter(ACME, an_ask(**ask), 0)
    assert raised.value.hint
    assert gate.in_flight() == {ACME: 0}


def test_concurrency_is_of_those_under_way():
    """The third of two is refused until one of them has left, with a guess of when that is."""
    gate = a_gate(a_tenant(concurrency_max=2))
    first, _ = gate.enter(ACME, an_ask(), 0), gate.enter(ACME, an_ask(), 0)
    found = refusal(gate)
    assert (found.reason, found.limit, found.remaining) == ("tenant_concurrency", "concurrency", 0)
    assert "2 requests under way" in found.message
    gate.leave(first, DONE, 5 * NS_PER_S)
    gate.enter(ACME, an_ask(), 0)
    assert refusal(gate).retry_after_ns >= 10 * NS_PER_MS


def test_rate_says_when_to_come_back():
    """And whoever does is let in."""
    gate = a_gate(a_tenant(requests_per_s=10.0, burst_s=0.1))
    gate.leave(gate.enter(ACME, an_ask(), 0), DONE, 0)
    found = refusal(gate)
    assert (found.reason, found.limit) == ("tenant_requests", "requests")
    assert found.retry_after_ns == pytest.approx(NS_PER_S / 10, rel=1e-6)
    assert gate.enter(ACME, an_ask(), found.retry_after_ns)


def test_rate_of_rows_is_of_the_rows_that_ran():
    """A model that takes no batches may have fewer rows than its input; the rest is given back."""
    gate = a_gate(a_tenant(rows_per_s=8.0))
    held = gate.enter(ACME, an_ask(rows=8), 0)
    assert refusal(gate).limit == "rows"
    gate.leave(held, DONE, 0)
    gate.enter(ACME, an_ask(rows=7), 0)


def test_tokens_are_paid_for_when_they_were_counted():
    """Who owes some waits until they are paid."""
    gate = a_gate(a_tenant(tokens_per_s=100.0))
    held = gate.enter(ACME, an_ask(), 0)
    gate.leave(held, Outcome(Ending.COMPLETED, rows=1, tokens=300), 0)
    found = refusal(gate)
    assert found.limit == "tokens"
    assert found.retry_after_ns == pytest.approx(2 * NS_PER_S, rel=1e-6)
    assert gate.enter(ACME, an_ask(), found.retry_after_ns)


@pytest.mark.parametrize("ending", [Ending.REFUSED, Ending.INVALID])
def test_what_was_not_even_tried_is_given_back(ending):
    """The scheduler refused it, or it made no sense: it has cost nobody anything."""
    gate = a_gate(a_tenant(requests_per_s=1.0, rows_per_s=4.0))
    for _ in range(10):
        gate.leave(gate.enter(ACME, an_ask(rows=4), 0), Outcome(ending), 0)


@pytest.mark.parametrize("ending", [Ending.CANCELLED, Ending.FAILED, Ending.EXPIRED])
def test_what_came_to_nothing_is_not_paid_for_in_device_time(ending):
    """Held while it ran, and refunded."""
    gate = a_gate(a_tenant(quota=QuotaParams(device_ns=20 * NS_PER_MS, period=Period.DAY)))
    gate.leave(gate.enter(ACME, an_ask(), 0), DONE, 0)
    held = gate.enter(ACME, an_ask(), 0)
    assert refusal(gate).limit == "quota"
    gate.leave(held, Outcome(ending), 0)
    assert gate.enter(ACME, an_ask(), 0)


def test_quota_is_of_what_may_run_at_once_too():
    """Ten at once cannot use what one after the other could not."""
    gate = a_gate(a_tenant(quota=QuotaParams(device_ns=45 * NS_PER_MS, period=Period.DAY)))
    gate.leave(gate.enter(ACME, an_ask(), 0), DONE, 0)
    for _ in range(3):
        gate.enter(ACME, an_ask(), 0)
    found = refusal(gate)
    assert (found.reason, found.remaining) == ("tenant_quota", 5)
    assert "45ms of device time a day, of which 5ms are left" in found.message
    assert found.retry_after_ns == 24 * 3600 * NS_PER_S


def test_quota_goes_on_from_what_was_used_before_this_run():
    """A restart is no new day."""
    quota = QuotaParams(device_ns=45 * NS_PER_MS, period=Period.DAY)
    gate = a_gate(a_tenant(quota=quota), used={ACME: 45 * NS_PER_MS})
    assert refusal(gate).limit == "quota"


def test_reserve_is_kept_for_its_owner_and_the_rest_is_anybody_s():
    """Ten places, three of them kept: others have seven, and the owner has ten less theirs."""
    gate = a_gate(a_tenant(reserve_ratio=0.3), a_tenant(OTHER), places_max=10)
    held = [gate.enter(OTHER, an_ask(), 0) for _ in range(7)]
    found = refusal(gate, OTHER)
    assert (found.reason, found.remaining) == ("tenant_places", 0)
    mine = [gate.enter(ACME, an_ask(), 0) for _ in range(3)]
    assert refusal(gate, ACME).limit == "places"
    gate.leave(held.pop(), DONE, 0)
    mine.append(gate.enter(ACME, an_ask(), 0))
    assert refusal(gate, OTHER).limit == "places"
    gate.leave(mine.pop(), DONE, 0)
    gate.enter(OTHER, an_ask(), 0)


def test_limits_tell_what_remains_and_when_it_resets():
    """Every limit that there is, in the units in which it is set."""
    quota = QuotaParams(device_ns=1000 * NS_PER_MS, period=Period.HOUR)
    gate = a_gate(
        a_tenant(requests_per_s=10.0, concurrency_max=4, quota=quota, reserve_ratio=0.5),
        places_max=8,
    )
    gate.leave(gate.enter(ACME, an_ask(), 0), DONE, 0)
    gate.enter(ACME, an_ask(), 0)
    found = {state.name: state for state in gate.limits(gate.identify(ACME, 0), 0)}
    assert list(found) == ["concurrency", "requests", "quota", "places"]
    assert (found["concurrency"].limit, found["concurrency"].remaining) == (4, 3)
    assert (found["requests"].remaining, found["requests"].resets_ns) == (8, NS_PER_S // 5)
    assert found["quota"].remaining == 980
    assert found["quota"].resets_ns == 3600 * NS_PER_S
    assert (found["places"].limit, found["places"].remaining) == (8, 7)


def test_tenants_that_are_read_again_keep_what_they_used():
    """Another key, another limit; what is under way and what was used stay."""
    gate = a_gate(a_tenant(requests_per_s=2.0, burst_s=1.0), a_tenant(OTHER))
    held = gate.enter(ACME, an_ask(), 0)
    gone = gate.enter(OTHER, an_ask(), 0)
    rotated = TenantParams(
        tenant=ACME, keys=(KeyParams(key_hash=hash_of("new")),), requests_per_s=2.0
    )
    gate.replace([rotated], None, 0)
    with pytest.raises(NotAuthenticatedError):
        gate.enter(ACME, an_ask(), 0)
    gate.enter("new", an_ask(), 0)
    assert refusal(gate, "new").limit == "requests"
    gate.leave(held, DONE, 0)
    gate.leave(gone, DONE, 0)
    assert gate.in_flight() == {ACME: 1}


def test_quota_that_comes_while_requests_run_is_not_charged_for_them():
    """What was not held is not settled."""
    gate = a_gate(a_tenant())
    held = gate.enter(ACME, an_ask(), 0)
    quota = QuotaParams(device_ns=5 * NS_PER_MS, period=Period.DAY)
    gate.replace([a_tenant(quota=quota)], None, 0)
    gate.leave(held, DONE, 0)
    assert next(gate.limits(gate.identify(ACME, 0), 0)).remaining == 5


def test_book_is_told_of_each_request_once():
    """Those that ended or were refused, and none that made no sense; invented models by no name."""
    book = Book()
    gate = a_gate(a_tenant(concurrency_max=1), book=book)
    held = gate.enter(ACME, an_ask(), 0)
    refusal(gate)
    gate.leave(held, DONE, 0)
    held = gate.enter(ACME, an_ask(), 0)
    refusal(gate, model=ModelName("invented"))
    gate.leave(held, Outcome(Ending.INVALID), 0)
    assert book.lines == [
        (ACME, MODEL, "refused"),
        (ACME, MODEL, "completed"),
        (ACME, ModelName("unknown"), "refused"),
    ]


def test_counts_are_of_each_tenant_and_of_each_end():
    """What the metrics show."""
    gate = a_gate(a_tenant(concurrency_max=1))
    held = gate.enter(ACME, an_ask(rows=3), 0)
    refusal(gate)
    gate.leave(held, Outcome(Ending.COMPLETED, rows=3, tokens=7, device_ns=9), 0)
    counts = gate.counts()[ACME]
    assert counts.endings["completed"] == 1
    assert counts.refused["concurrency"] == 1
    assert (counts.rows, counts.tokens, counts.device_ns) == (3, 7, 9)


def test_tier_is_checked_against_those_that_a_tenant_may_have():
    """Whoever knows which tier a request would have asks."""
    gate = a_gate(a_tenant(tiers=frozenset({TierName("b")})))
    held = gate.enter(ACME, an_ask(), 0)
    held.check_tier(TierName("b"))
    with pytest.raises(NotAllowedError, match="may not have tier `a`"):
        held.check_tier(TierName("a"))
    gate.enter(ACME, an_ask(tier=TierName("a")), 0)


def test_request_that_needs_more_than_a_quota_may_use_all_of_it():
    """Refused for ever it would be told to come back, again and again."""
    gate = a_gate(a_tenant(quota=QuotaParams(device_ns=30 * NS_PER_MS, period=Period.DAY)))
    gate.leave(gate.enter(ACME, an_ask(), 0), DONE, 0)
    later_ns = 24 * 3600 * NS_PER_S
    held = gate.enter(ACME, an_ask(rows=50), later_ns)
    assert refusal(gate, now_ns=later_ns).limit == "quota"
    gate.leave(held, Outcome(Ending.COMPLETED, rows=50, device_ns=500 * NS_PER_MS), later_ns)
    assert refusal(gate, now_ns=2 * later_ns).limit == "quota"


@pytest.mark.parametrize(
    ("ratio", "places", "kept"), [(0.29, 100, 29), (0.2, 4, 0), (0.7, 10, 7), (1.0, 3, 3)]
)
def test_reserve_keeps_whole_places(ratio, places, kept):
    """As many as the share has, whatever a computer makes of its fraction."""
    assert places_of(ratio, places) == kept
