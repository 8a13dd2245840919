"""Asking what a request would take changes nothing, and says what admission would."""

import random

import pytest

from headway.core import RejectReason, RequestArrived
from headway.policy import priority
from headway.predict import Recipe, build_predictor
from headway.testing import a_device, a_kernel, a_model, a_request, dispatched

MS = 1_000_000
DEVICE = a_device(lanes=[0, 0, 1])


def play(kind, asks, *, looks_per_s=50):
    """The commands of one random run, with so many questions between any two events."""
    predictor = build_predictor(Recipe(kind=kind, looks_per_s=looks_per_s), (DEVICE,))
    talk = a_kernel(
        priority(predictor), devices=[DEVICE], models=[a_model("m", batch_rows_max=4), "n"]
    )
    chance = random.Random(3)
    commands, running = [], []
    for number in range(1, 300):
        now_ns = talk.now_ns + chance.randrange(4 * MS)
        for ask in range(asks):
            asked = a_request(10**6 + ask, model="mn"[ask % 2], priority=ask % 5, at=now_ns)
            talk.kernel.estimate(asked, now_ns)
        if running and chance.random() < 0.55:
            commands.append(talk.finishes(running.pop(0), at=now_ns))
        else:
            model, level = chance.choice("mn"), chance.randrange(5)
            said = {"model": model, "priority": level, "budget": "10s"}
            commands.append(talk.arrives(number, at=now_ns, **said))
        running += [c.batch_id for c in commands[-1] if type(c).__name__ == "Dispatch"]
    return commands


@pytest.mark.parametrize("kind", ["headway", "fixed", "rls", "windowed-pcie"])
def test_questions_change_no_decision_and_no_prediction(kind):
    """A run in which nobody asks and one with questions between all events are the same."""
    assert play(kind, 0) == play(kind, 3)


def test_estimate_says_what_admission_says():
    """The same request, asked about and then sent, is told the same."""
    predictor = build_predictor(Recipe(kind="headway"), (DEVICE,))
    talk = a_kernel(priority(predictor), devices=[DEVICE], models=["m"])
    for number in range(1, 40):
        sent = talk.arrives(number, at=talk.now_ns + 8 * MS, budget="10s")
        for (request_id,) in dispatched(sent):
            talk.finishes(request_id, at=talk.now_ns + 5 * MS)
    request = a_request(99, at=talk.now_ns, budget="10s")
    asked = talk.kernel.estimate(request, talk.now_ns)
    assert asked.reason is None
    assert asked.foreseen.mean_ns > MS
    talk.kernel.handle(RequestArrived(request=request), talk.now_ns)
    assert talk.kernel.ledger.live[99].foreseen == asked.foreseen


def test_estimate_of_what_would_be_refused_says_why():
    """A full queue, and a model that is not there, are reasons and no errors."""
    talk = a_kernel(slots=1, models=[a_model("m", queue_requests_max=1)])
    talk.arrives(1)
    talk.arrives(2)
    asked = talk.kernel.estimate(a_request(3), talk.now_ns)
    assert (asked.reason, asked.retry_after_ns > 0) == (RejectReason.MODEL_QUEUE_FULL, True)
    other = talk.kernel.estimate(a_request(4, model="other"), talk.now_ns)
    assert (other.reason, other.foreseen.mean_ns) == (RejectReason.MODEL_NOT_FOUND, 0)
    assert sorted(talk.kernel.ledger.live) == [1, 2]
