"""Metrics that see every step of a dialogue, as they happen, and what they export."""

from collections import Counter

from headway.core import SlotClass, TenantId, TierName
from headway.observe import Metrics
from headway.runtime import TierParams
from headway.tenancy import TenantCounts
from headway.units import NS_PER_MS, NS_PER_S

TIERS = {
    TierName("normal"): TierParams(priority=1, budget_ns=NS_PER_S, slot_class=SlotClass.HIGH),
    TierName("bulk"): TierParams(
        priority=5, budget_ns=60 * NS_PER_S, slot_class=SlotClass.LOW, late_ns=500 * NS_PER_MS
    ),
}
TENANTS = (TenantId("acme"), TenantId("umbrella"))


def listen(talk, *, tiers=TIERS, has_tenants=False, knows=(), **settings):
    """Metrics of a dialogue: they take what was said before, and from now on all that is."""
    metrics = Metrics(talk.kernel, lambda: talk.now_ns, tiers, **settings)
    if has_tenants:
        counts = {tenant: TenantCounts() for tenant in TENANTS}
        metrics.count_tenants(lambda: counts, lambda: dict.fromkeys(counts, 0))
    for model in knows:
        metrics.know(model)
    for record in talk.records:
        metrics(record.now_ns, record.event, record.commands)
    handle = talk.handle

    def told(event, *, at=None):
        commands = handle(event, at=at)
        metrics(talk.now_ns, event, commands)
        return commands

    talk.handle = told
    return metrics


def samples(metrics):
    """Every sample by name and labels, as they go into the exposition."""
    found = {}
    for family in metrics.collect():
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} stands there twice"
            found[key] = sample.value
    return found


def value(metrics, name, **labels):
    """One sample."""
    return samples(metrics)[name, frozenset(labels.items())]


def series(metrics, name):
    """All samples of a name, by their labels."""
    return {key[1]: number for key, number in samples(metrics).items() if key[0] == name}


def total(metrics, name, **labels):
    """All samples of a name that have these labels, added up."""
    wanted = frozenset(labels.items())
    return sum(number for key, number in series(metrics, name).items() if wanted <= key)


def by_label(metrics, name, label):
    """All samples of a name, added up by one of their labels; those at 0 left out."""
    sums = Counter()
    for key, number in series(metrics, name).items():
        sums[dict(key)[label]] += number
    return {each: number for each, number in sums.items() if number}
