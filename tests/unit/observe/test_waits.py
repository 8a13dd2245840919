"""The estimated wait: what a client would be told, of every kind of request, at a bounded cost."""

import pytest
from tests.counted import TIERS, listen, series, value

from headway.core import (
    Kernel,
    LoadReplica,
    ModelLoadRequested,
    ReplicasLost,
    SlotClass,
    TierName,
)
from headway.observe import waits
from headway.policy import priority
from headway.predict import Recipe, build_predictor
from headway.runtime import TierParams
from headway.testing import a_device, a_kernel, a_model, a_request
from headway.units import NS_PER_S

MS = 1_000_000
NAME = "headway_estimated_wait_seconds"


def a_busy_talk(requests=3):
    """A kernel that knows how long its model takes, 10 ms, and has some requests waiting."""
    device = a_device()
    predictor = build_predictor(Recipe(kind="headway"), (device,))
    talk = a_kernel(priority(predictor), devices=[device], models=["m", "other"])
    talk.arrives(1)
    talk.finishes(1, at=10 * MS)
    for request_id in range(2, 2 + requests):
        talk.arrives(request_id, priority=1)
    return talk


def test_wait_is_what_the_estimate_says():
    """The same number that `/estimate` gives for a row of the same model and tier."""
    talk = a_busy_talk()
    metrics = listen(talk, knows=("m", "other"))
    for tier, terms in TIERS.items():
        request = a_request(
            9, at=talk.now_ns, model="m", tier=tier, priority=terms.priority, budget="60s"
        )
        expected = talk.kernel.estimate(request, talk.now_ns).foreseen
        assert expected.bound_ns > 0
        assert value(metrics, NAME, model="m", tier=tier) == expected.queue_ns / NS_PER_S


def test_more_that_waits_means_a_longer_wait():
    """It moves with the queue, at once and not when requests have ended."""
    waited = [
        value(listen(a_busy_talk(requests), knows=["m"]), NAME, model="m", tier="bulk")
        for requests in (1, 2, 6)
    ]
    assert waited == sorted(set(waited))


def test_idle_server_has_no_wait():
    """Every model that is served has its series, at 0, without a forecast."""
    talk = a_kernel(models=["m"])
    metrics = listen(talk, knows=["m", "absent"])
    assert series(metrics, NAME) == {
        frozenset({("model", "m"), ("tier", tier)}): 0 for tier in TIERS
    }


def test_model_that_is_not_ready_has_no_wait():
    """Nobody knows how long a load takes; with its worker lost it is unknown again."""
    talk = a_kernel(models=[])
    metrics = listen(talk, knows=["m"])
    (load,) = [
        command
        for command in talk.handle(ModelLoadRequested(model=a_model("m")))
        if isinstance(command, LoadReplica)
    ]
    assert series(metrics, NAME) == {}
    talk.warm(load.replica_id)
    assert len(series(metrics, NAME)) == len(TIERS)
    talk.handle(ReplicasLost(replica_ids=(load.replica_id,), message=""))
    assert series(metrics, NAME) == {}


def test_unknown_wait_has_no_series():
    """Nothing was ever seen of the model, and its slots are taken: that is not a wait of 0."""
    talk = a_kernel(models=["m"])
    talk.arrives(1)
    assert series(listen(talk, knows=["m"]), NAME) == {}


def test_estimates_of_a_scrape_are_bounded_and_take_turns(monkeypatch):
    """With more kinds of requests than are asked for at once, each is asked for in its turn."""
    talk = a_kernel(models=[a_model(f"m{number}") for number in range(20)])
    talk.arrives(1, model="m0")
    talk.finishes(1, at=10 * MS)
    talk.arrives(2, model="m0")
    tiers = {
        TierName(f"t{number}"): TierParams(
            priority=number, budget_ns=NS_PER_S, slot_class=SlotClass.HIGH
        )
        for number in range(4)
    }
    metrics = listen(talk, tiers=tiers, knows=[f"m{number}" for number in range(20)])
    asked = []
    estimate = Kernel.estimate

    def count(kernel, request, now_ns):
        asked.append((request.model, request.tier))
        return estimate(kernel, request, now_ns)

    monkeypatch.setattr(Kernel, "estimate", count)
    for _ in range(3):
        before = len(asked)
        list(metrics.collect())
        assert len(asked) - before <= waits._LOOKS_MAX
    assert len(set(asked)) == 20 * len(tiers)


def test_estimates_of_a_scrape_take_little_of_the_scheduler_s_time(monkeypatch):
    """Where each takes long few are asked for, and the next scrape asks for others."""
    talk = a_busy_talk()
    metrics = listen(talk, knows=["m", "other"])
    asked = []
    estimate = Kernel.estimate

    def take_long(kernel, request, now_ns):
        asked.append((request.model, request.tier))
        talk.now_ns += waits._LOOK_NS_MAX
        return estimate(kernel, request, now_ns)

    monkeypatch.setattr(Kernel, "estimate", take_long)
    for scrape in range(1, 5):
        list(metrics.collect())
        assert len(asked) == scrape
    assert len(set(asked)) == 2 * len(TIERS)


def test_estimates_alter_no_decision():
    """A server that is scraped at every step decides as one that never is."""

    def story(scrapes):
        talk = a_busy_talk()
        metrics = listen(talk, knows=["m"])
        for request_id in range(10, 30):
            talk.arrives(request_id, at=talk.now_ns + MS, budget="30ms")
            if scrapes:
                list(metrics.collect())
        talk.drain()
        return talk.records

    assert story(scrapes=True) == story(scrapes=False)


@pytest.mark.parametrize("rows", [1, 4])
def test_estimate_is_of_one_row_like_the_last(rows):
    """A large request that came last does not make the next one large."""
    talk = a_kernel("priority", models=[a_model(batch_rows_max=4)])
    metrics = listen(talk, knows=["m"])
    talk.arrives(1, rows=rows, payload=f"{rows * 100}B", bucket="wide")
    request = metrics._waits._request("m", TierName("normal"), metrics._series, 5)
    assert (request.rows, request.payload_bytes, request.bucket) == (1, 100, "wide")
