"""A head that the policy holds and that leaves must not keep those behind it waiting."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headway.core import (
    BucketView,
    FleetView,
    Hold,
    ModelParams,
    Placing,
    Policy,
    RejectReason,
    RequestCancelled,
    RequestId,
    SlotOption,
    Start,
)
from headway.policy import edf, priority
from headway.testing import MeanPredictor, a_kernel, a_model, dispatched


class HoldsTheFirst:
    """Request 1 never starts; all others do."""

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """By the head alone."""
        (head,) = bucket.front(1)
        return Hold() if head.request_id == 1 else Start(options[0])


def holding(policy: Policy) -> Policy:
    return replace(policy, placement=HoldsTheFirst(), displaces=True)


@pytest.mark.parametrize("count", [1, 3])
def test_cancelled_head_that_was_held_lets_the_next_start(count):
    """Nothing else happens that would make the kernel look again."""
    talk = a_kernel(holding(priority(MeanPredictor())))
    for request_id in range(1, count + 2):
        assert dispatched(talk.arrives(request_id, at="1ms", priority=request_id)) == []
    commands = talk.handle(RequestCancelled(request_id=RequestId(1)), at="2ms")
    assert dispatched(commands) == [(2,)]


def test_displaced_head_that_was_held_lets_the_next_start():
    """The least important of all may stand before others, where deadlines order them."""
    models = [a_model("m", queue_requests_max=2), a_model("other", linger="1s", batch_rows_max=4)]
    talk = a_kernel(holding(edf(MeanPredictor())), models=models, requests_max=2)
    talk.arrives(1, at="1ms", priority=9, budget="100ms")
    talk.arrives(2, at="1ms", priority=5, budget="200ms")
    commands = talk.arrives(3, at="2ms", model="other", priority=1)
    reasons = [c.reason for c in commands if hasattr(c, "reason")]
    assert reasons == [RejectReason.DISPLACED]
    assert dispatched(commands) == [(2,)]
