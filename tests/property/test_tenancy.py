"""Laws of the gate: whatever comes and goes, nothing is lost, and no limit is overdrawn."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import ModelName, TenantId
from headway.errors import RejectedError
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
)
from headway.tenancy.buckets import Bucket
from headway.units import NS_PER_MS, NS_PER_S

NAMES = ("a", "b", "c")
PLACES = 8
CONCURRENCY = 5
RESERVE = {"a": 0.25, "b": 0.5, "c": 0.0}


def a_gate():
    """Three tenants with all kinds of limits."""
    return Gate(
        [
            TenantParams(
                tenant=TenantId(name),
                keys=(KeyParams(key_hash=hash_of(name)),),
                rows_per_s=200.0,
                concurrency_max=CONCURRENCY,
                reserve_ratio=RESERVE[name],
                quota=QuotaParams(device_ns=400 * NS_PER_MS, period=Period.HOUR),
            )
            for name in NAMES
        ],
        places_max=PLACES,
        started_at_unix_ns=0,
    )


def tried(gate, name, ask, now_ns):
    """A pass, or why there is none."""
    try:
        return gate.enter(name, ask, now_ns)
    except RejectedError as refused:
        return refused


steps = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.booleans(),
        st.integers(1, 40),
        st.sampled_from(Ending),
        st.integers(0, 30 * NS_PER_MS),
        st.integers(0, NS_PER_S),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_gate_counts_who_is_in_and_keeps_what_is_reserved(played):
    """Those under way never pass a limit, and a tenant within its reserve is let in by places."""
    gate, held, now_ns = a_gate(), {name: [] for name in NAMES}, 0
    for name, comes, rows, ending, device_ns, passes_ns in played:
        now_ns += passes_ns
        if comes:
            end = tried(gate, name, Ask(ModelName("m"), rows, 1), now_ns)
            if isinstance(end, RejectedError):
                within = len(held[name]) < int(PLACES * RESERVE[name])
                assert not (within and end.limit == "places")
                assert end.retry_after_ns > 0
            else:
                held[name].append(end)
        elif held[name]:
            outcome = Outcome(ending, rows=rows, device_ns=device_ns)
            gate.leave(held[name].pop(), outcome, now_ns)
        in_flight = {str(k): v for k, v in gate.in_flight().items()}
        assert in_flight == {name: len(each) for name, each in held.items()}
        assert max(in_flight.values()) <= CONCURRENCY
        unused = sum(max(0, int(PLACES * RESERVE[n]) - in_flight[n]) for n in NAMES)
        assert sum(in_flight.values()) + unused <= PLACES
    for name in NAMES:
        for each in held[name]:
            gate.leave(each, Outcome(Ending.CANCELLED), now_ns)
        quota = {s.name: s for s in gate.limits(gate.identify(name, now_ns), now_ns)}["quota"]
        assert quota.remaining <= quota.limit
    assert set(gate.in_flight().values()) == {0}


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0.01, 1e6),
    st.floats(0.001, 100.0),
    st.booleans(),
    st.lists(st.tuples(st.floats(0.0, 500.0), st.integers(0, 10 * NS_PER_S)), max_size=60),
)
def test_bucket_lets_no_more_through_than_burst_and_rate(rate_per_s, burst_s, asks, asked):
    """Over any span at most the burst, the rate's part and one more, paid before or afterwards."""
    bucket, now_ns, taken, largest = Bucket(rate_per_s, burst_s, 0), 0, 0.0, 0.0
    for amount, passes_ns in asked:
        now_ns += passes_ns
        if asks and bucket.wait_ns(amount, now_ns):
            continue
        if asks or bucket.level(now_ns) >= 0:
            bucket.take(amount, now_ns)
            taken += amount
            largest = max(largest, amount)
        allowed = bucket.size + now_ns * rate_per_s / NS_PER_S + largest
        assert taken <= allowed * (1 + 1e-9) + 1e-6
