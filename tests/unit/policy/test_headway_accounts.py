"""Accounts of tenants: rounds by weight, what did not run is given back, idleness saves nothing."""

from types import SimpleNamespace

import pytest

from headway.core import SlotClass
from headway.policy.accounts import Accounts
from headway.policy.urgency import Promotion, Urgency
from headway.predict import Profile
from headway.testing import MeanPredictor, a_request

MS = 1_000_000
QUANTUM_NS = 100 * MS
LOW = {"slot_class": SlotClass.LOW}
CROWDED = SimpleNamespace(is_crowded_out=lambda now_ns: True)


class Tenants:
    """Accounts, and requests of 50 ms that tenants send."""

    def __init__(self, weights=None, floors=None):
        predictor = MeanPredictor({"m": Profile({1: 50 * MS})})
        self.accounts = Accounts(predictor, weights or {}, floors or {}, QUANTUM_NS)
        self.sent = 0

    def sends(self, tenant, **what):
        """Let one in; with the round it is in."""
        self.sent += 1
        request = a_request(self.sent, tenant=tenant, **what)
        round_index = self.accounts.round_of(request)
        self.accounts.admitted(request, 0)
        assert self.accounts.round_index(request) == round_index
        return request

    def rounds(self, tenant, count):
        """The rounds of its next requests."""
        return [self.accounts.round_index(self.sends(tenant)) for _ in range(count)]

    def serves(self, request, device_ns=50 * MS):
        """Run it to its end."""
        self.accounts.started(request, 1, 0)
        self.accounts.ran(request, device_ns, 0)
        self.accounts.ended(request, True, 0)

    def next_round(self, tenant):
        """Where its next request would be."""
        return self.accounts.round_of(a_request(999, tenant=tenant))


def play(tenants, counts, *, steps, cost_ns=50 * MS):
    """Serve by round, then by number, keeping each tenant's line full; time each has had."""
    waiting = [tenants.sends(name) for name in counts]  # nobody is ever alone
    waiting += [tenants.sends(name) for name, count in counts.items() for _ in range(count - 1)]
    had_ns = dict.fromkeys(counts, 0)
    for _ in range(steps):
        head = min(waiting, key=lambda r: (tenants.accounts.round_index(r), r.request_id))
        waiting.remove(head)
        waiting.append(tenants.sends(head.tenant))
        tenants.serves(head, cost_ns)
        had_ns[head.tenant] += cost_ns
    return had_ns


def test_one_tenant_is_never_reordered():
    """All that it sends is of one round, however much that is."""
    assert Tenants().rounds("only", 50) == [0] * 50


def test_who_sends_more_than_its_share_is_put_off_to_later_rounds():
    """Two requests of 50 ms make a round of 100; whoever sends one is in the first."""
    tenants = Tenants()
    tenants.sends("calm")
    assert tenants.rounds("greedy", 6) == [0, 0, 1, 1, 2, 2]
    assert tenants.rounds("calm", 1) == [0]
    assert tenants.rounds("new", 1) == [0]


def test_rounds_are_longer_for_whoever_weighs_more():
    """At weight 2 a round has room for four requests of 50 ms."""
    tenants = Tenants(weights={"heavy": 2.0})
    tenants.sends("other")
    assert tenants.rounds("heavy", 6) == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("greed", [1, 10])
def test_time_is_divided_by_weight_however_many_one_sends(greed):
    """Weights 1, 1 and 2 at saturation: a quarter, a quarter and a half, within a round each."""
    tenants = Tenants(weights={"c": 2.0})
    had_ns = play(tenants, {"a": 2 * greed, "b": 2, "c": 4}, steps=400)
    total_ns = sum(had_ns.values())
    for name, share in (("a", 0.25), ("b", 0.25), ("c", 0.5)):
        assert had_ns[name] / total_ns == pytest.approx(share, abs=0.02)


def test_classes_have_accounts_of_their_own():
    """Much low work does not put off a tenant's high work."""
    tenants = Tenants()
    tenants.sends("other", **LOW)
    low = [tenants.accounts.round_index(tenants.sends("busy", **LOW)) for _ in range(4)]
    assert low == [0, 0, 1, 1]
    assert tenants.next_round("busy") == 0


def test_what_did_not_run_is_given_back():
    """Whoever was refused or expired before a start has used nothing."""
    tenants = Tenants()
    tenants.sends("other")
    requests = [tenants.sends("late") for _ in range(4)]
    assert tenants.next_round("late") == 2
    for request in requests[1:]:
        tenants.accounts.ended(request, False, 0)
    assert tenants.next_round("late") == 0


def test_what_took_longer_than_expected_is_charged():
    """An estimate of 50 ms that was 200 is settled when the batch has run."""
    tenants = Tenants()
    tenants.sends("other")
    request = tenants.sends("slow")
    tenants.sends("slow")
    tenants.serves(request, device_ns=200 * MS)
    assert tenants.next_round("slow") == 2


def test_what_still_runs_when_its_request_ends_is_paid_for():
    """A request that expires while it runs keeps its charge, and pays what it took in the end."""
    tenants = Tenants()
    tenants.sends("other")
    requests = [tenants.sends("late") for _ in range(2)]
    for request in requests:
        tenants.accounts.started(request, 1, 0)
        tenants.accounts.ended(request, False, 0)
    assert tenants.next_round("late") == 1
    for request in requests:
        tenants.accounts.ran(request, 100 * MS, 0)
    assert tenants.next_round("late") == 2
    assert tenants.accounts.round_index(requests[0]) == 2  # nothing of it is kept


def test_segments_are_paid_for_together():
    """Two that ran and one that was running when the request ended: 90 ms of 50 expected."""
    tenants = Tenants()
    tenants.sends("other")
    request = tenants.sends("rows")
    tenants.sends("rows")
    for _ in range(2):
        tenants.accounts.started(request, 1, 0)
        tenants.accounts.ran(request, 30 * MS, 0)
    tenants.accounts.started(request, 1, 0)
    tenants.accounts.ended(request, False, 0)
    assert tenants.next_round("rows") == 1
    tenants.accounts.ran(request, 30 * MS, 0)
    assert tenants.sends("rows").request_id == 4
    assert tenants.next_round("rows") == 1  # 90 + 2 x 50, over 100


def test_time_that_was_not_used_is_not_saved_up():
    """Who comes back after a long silence starts where everyone is."""
    tenants = Tenants()
    tenants.serves(tenants.sends("away"))
    play(tenants, {"a": 2, "b": 2}, steps=100)
    served = tenants.next_round("new")
    assert served > 10
    assert tenants.next_round("away") == served


def test_who_waits_is_not_overtaken_when_a_later_round_is_served():
    """Another's fifth round runs first, for whatever reason; the one that waits is still in its."""
    tenants = Tenants()
    tenants.sends("calm")
    greedy = [tenants.sends("greedy") for _ in range(10)]
    tenants.serves(greedy[-1])
    assert tenants.next_round("calm") == 0


def test_debt_is_not_forgotten_while_others_wait():
    """Nor is what was taken while alone held against anyone when others come."""
    tenants = Tenants()
    for _ in range(20):
        tenants.serves(tenants.sends("alone"))
    tenants.sends("alone")
    assert tenants.rounds("new", 1) == [0]
    assert tenants.rounds("alone", 2) == [0, 1]


@pytest.mark.parametrize(
    ("weights", "floors", "expected"),
    [
        ({"a": 1.0, "b": 1.0}, {"a": 0.8}, {"a": 0.8, "b": 0.2}),
        ({"a": 9.0, "b": 1.0}, {"a": 0.2}, {"a": 0.9, "b": 0.1}),
        ({"a": 10.0, "b": 1.0, "c": 1.0}, {"a": 0.2, "b": 0.2}, {"a": 8 / 11, "b": 0.2}),
        ({"a": 6.0, "b": 1.0, "c": 3.0}, {"b": 0.4, "c": 0.25}, {"b": 0.4, "c": 0.25, "a": 0.35}),
    ],
)
def test_floor_is_what_a_tenant_has_whatever_its_weight_says(weights, floors, expected):
    """Floors below what the weight gives change nothing; what they leave is shared by weight."""
    tenants = Tenants(weights, floors)
    had_ns = play(tenants, dict.fromkeys(weights, 60), steps=1500)
    for name, share in expected.items():
        assert had_ns[name] / sum(had_ns.values()) == pytest.approx(share, abs=0.02)


def test_floors_that_leave_nothing_still_let_the_others_live():
    """Floors that add up to all of the time are held against one another; no weight is infinite."""
    tenants = Tenants(floors={"a": 0.5, "b": 0.5})
    had_ns = play(tenants, {"a": 8, "b": 8, "c": 8}, steps=400)
    assert had_ns["a"] == pytest.approx(had_ns["b"], rel=0.05)
    assert 0 < had_ns["c"] < had_ns["a"]


def test_idle_accounts_make_room(monkeypatch):
    """Beyond the limit the first that is idle goes, with what is still owed to its name."""
    monkeypatch.setattr("headway.policy.accounts._TENANTS_MAX", 2)
    tenants = Tenants()
    idle = tenants.sends("idle")
    tenants.accounts.started(idle, 1, 0)
    tenants.accounts.ended(idle, False, 0)
    tenants.sends("busy")
    tenants.sends("third")
    tenants.sends("fourth")  # all others are busy: nobody is forgotten
    tenants.accounts.ran(idle, 70 * MS, 0)
    assert tenants.rounds("busy", 2) == [0, 1]


def test_unknown_requests_are_ignored():
    """Whoever was refused by the door was never charged."""
    tenants = Tenants()
    request = a_request(7, tenant="refused")
    tenants.accounts.started(request, 1, 0)
    tenants.accounts.ran(request, MS, 0)
    tenants.accounts.ended(request, False, 0)
    assert tenants.next_round("refused") == 0


def test_order_is_by_class_then_round_then_deadline():
    """A round goes before a deadline, a class before a round."""
    tenants = Tenants()
    urgency = Urgency(tenants.accounts)
    tenants.sends("calm")
    for _ in range(2):
        tenants.sends("greedy")
    order = [
        a_request(11, tenant="calm", budget="50ms"),
        a_request(12, tenant="calm", budget="90ms", priority=0),
        a_request(13, tenant="greedy", budget="10ms"),
        a_request(14, tenant="calm", budget="1ms", **LOW),
    ]
    assert sorted(order, key=urgency.key) == order


def test_promotion_puts_before_everyone_but_only_who_is_within_its_share():
    """Whoever's tenant is ahead keeps its class's place."""
    tenants = Tenants()
    promotion, urgency = (
        Promotion(tenants.accounts, CROWDED, 0.5, share_ratio=0.05),
        Urgency(tenants.accounts),
    )
    calm = tenants.sends("calm", budget="80ms", **LOW)
    greedy = [tenants.sends("greedy", budget="80ms", **LOW) for _ in range(3)]
    assert promotion.promotes_at_ns(calm) == 38 * MS
    assert promotion.is_entitled(calm)
    assert not promotion.is_entitled(greedy[-1])
    high = urgency.key(a_request(90, budget="1ms"))
    assert promotion.promoted_key(calm) < high < promotion.promoted_key(greedy[-1])
    calm_there = SimpleNamespace(is_crowded_out=lambda now_ns: False)
    idle = Promotion(tenants.accounts, calm_there, 0.5, share_ratio=0.05)
    assert idle.promoted_key(calm) > high, "it is not starved where high work leaves room"
    assert Promotion(tenants.accounts, CROWDED, 0.0, share_ratio=0.05).promotes_at_ns(calm) is None


def test_whoever_is_ahead_waits_for_what_all_the_others_are_to_have_meanwhile():
    """Two requests of 50 ms ahead, for which each of two tenants has 100 ms; weights count."""
    tenants = Tenants({"heavy": 3.0})
    asking = a_request(999, tenant="greedy")
    tenants.sends("greedy")
    assert tenants.accounts.ahead_ns(asking) == 0.0, "nobody else is there"
    tenants.sends("calm")
    tenants.sends("greedy")
    assert tenants.accounts.ahead_ns(asking) == 2 * 100 * MS
    tenants.sends("heavy")
    assert tenants.accounts.ahead_ns(asking) == 5 * 100 * MS
    assert tenants.accounts.ahead_ns(a_request(998, tenant="new")) == 0.0
