"""What tiers promise, and how tenants fare in them."""

from tests.counted import TENANTS, TIERS, listen, series, value

from headway.core import RequestCancelled, TenantId, TierName
from headway.observe.attainment import _GONE_MAX, TenantTiers
from headway.testing import a_kernel, a_model, a_request

MS = 1_000_000
ANSWERS = "headway_tenant_answers_total"
VIOLATIONS = "headway_tenant_violations_total"
DEPTH = "headway_tenant_queue_depth"
AGE = "headway_tenant_queue_oldest_age_seconds"


def test_tiers_say_what_they_promise():
    """The budget of each, and the part that is to be met where one is configured."""
    metrics = listen(a_kernel(), targets={TierName("normal"): 0.95})
    assert value(metrics, "headway_tier_budget_seconds", tier="normal") == 1
    assert value(metrics, "headway_tier_budget_seconds", tier="bulk") == 60
    assert series(metrics, "headway_tier_attainment_target_ratio") == {
        frozenset({("tier", "normal")}): 0.95
    }


def test_tenants_have_every_series_from_the_start():
    """At 0, in each tier; without tenants there are none."""
    found = series(listen(a_kernel(), has_tenants=True), ANSWERS)
    assert found == {
        frozenset({("tenant", tenant), ("tier", tier)}): 0 for tenant in TENANTS for tier in TIERS
    }
    assert series(listen(a_kernel()), ANSWERS) == {}


def test_tenants_attainment_is_what_was_answered_in_time():
    """Late, refused and expired are violations; who left is neither; others are not counted."""
    talk = a_kernel(models=[a_model(queue_requests_max=2)])
    metrics = listen(talk, has_tenants=True)
    talk.arrives(1, tenant="acme")
    talk.arrives(2, tenant="acme", budget="5ms")
    talk.arrives(3, tenant="umbrella", tier="bulk")
    talk.arrives(4, tenant="acme")
    talk.wakes(at=5 * MS)
    talk.arrives(5, tenant="acme", budget="1ms", late="1s")
    talk.arrives(6, tenant="someone else")
    talk.handle(RequestCancelled(request_id=3))
    talk.finishes(1, at=8 * MS)
    talk.drain()
    acme = {"tenant": "acme", "tier": "normal"}
    assert value(metrics, ANSWERS, **acme) == 4
    assert value(metrics, VIOLATIONS, **acme) == 3
    umbrella = {"tenant": "umbrella", "tier": "bulk"}
    assert (value(metrics, ANSWERS, **umbrella), value(metrics, VIOLATIONS, **umbrella)) == (0, 0)
    assert {dict(key)["tenant"] for key in series(metrics, ANSWERS)} == set(TENANTS)


def test_tenant_that_is_configured_anew_goes_on_with_its_counts():
    """Counters do not fall when a file is read again; a new tenant has series at once."""
    now = [TenantId("acme")]
    tiers = TenantTiers(lambda: now, [TierName("normal")])
    tiers.ended(a_request(tenant="acme"), is_violation=True)
    tiers.ended(a_request(tenant="late"), is_violation=True)
    now[:] = [TenantId("late")]
    tiers.ended(a_request(tenant="late"), is_violation=False)
    now[:] = [TenantId("acme"), TenantId("late")]
    answers, violations, *_ = tiers.families([], 0)
    assert {s.labels["tenant"]: s.value for s in answers.samples} == {"acme": 1, "late": 1}
    assert {s.labels["tenant"]: s.value for s in violations.samples} == {"acme": 1, "late": 0}


def test_waiting_of_a_tenant_is_that_of_now():
    """Depth and oldest age by tenant and tier, at once, of what waits and not of what runs."""
    talk = a_kernel(models=[a_model(batch_rows_max=1)])
    metrics = listen(talk, has_tenants=True)
    talk.arrives(1, tenant="acme")
    talk.arrives(2, tenant="acme", at=2 * MS)
    talk.arrives(3, tenant="acme", at=3 * MS)
    talk.arrives(4, tenant="umbrella", tier="bulk", at=4 * MS)
    talk.arrives(5, tenant="someone else", at=4 * MS)
    talk.now_ns = 10 * MS
    told = {
        ("acme", "normal"): (2, 0.008),
        ("acme", "bulk"): (0, 0),
        ("umbrella", "normal"): (0, 0),
        ("umbrella", "bulk"): (1, 0.006),
    }
    assert waiting(metrics) == told
    talk.drain()
    assert set(waiting(metrics).values()) == {(0, 0)}


def waiting(metrics):
    depths, ages = series(metrics, DEPTH), series(metrics, AGE)
    assert depths.keys() == ages.keys()
    return {
        (dict(key)["tenant"], dict(key)["tier"]): (depth, ages[key])
        for key, depth in depths.items()
    }


def test_tenants_that_come_and_go_do_not_pile_up():
    """Whoever is configured has series, however many; of those who went a bounded number has."""
    now = []
    tiers = TenantTiers(lambda: now, [TierName("normal")])
    for number in range(1_000):
        now[:] = [TenantId("stays"), TenantId(f"tenant-{number}")]
        tiers.ended(a_request(tenant="stays"), is_violation=False)
        tiers.ended(a_request(tenant=f"tenant-{number}"), is_violation=False)
    answers, *_ = tiers.families([], 0)
    found = {s.labels["tenant"]: s.value for s in answers.samples}
    assert len(found) == 2 + _GONE_MAX
    assert (found["stays"], found["tenant-999"], found["tenant-998"]) == (1_000, 1, 1)
    assert "tenant-0" not in found
    now[:] = [TenantId(f"tenant-{number}") for number in range(2 * _GONE_MAX)]
    answers, *_ = tiers.families([], 0)
    assert {s.labels["tenant"] for s in answers.samples} >= set(now)
