"""`pcie`: priority by slack, and low inputs do not meet high ones on the way to a device."""

from msgspec.structs import replace

from headway.core import SetTimer, SlotClass
from headway.policy import PriorityThenSlack, pcie
from headway.predict import Profile
from headway.testing import MeanPredictor, a_device, a_kernel, a_model, a_request, dispatched

MS = 1_000_000
LOW = {"priority": 5, "slot_class": SlotClass.LOW}
HIGH = {"priority": 0}


class Copying(MeanPredictor):
    """3 ms of every service are the copies of its model, unless they are of another length."""

    def __init__(self, transfer_ms=3):
        super().__init__({"m": Profile({1: 10 * MS}), "n": Profile({1: 40 * MS})})
        self.transfer_ns = transfer_ms * MS

    def beside(self, candidate, device, now_ns):
        (own,) = super().beside(candidate, device, now_ns)
        return (replace(own, transfer_ns=self.transfer_ns),)


def a_talk(transfer_ms=3, devices=1):
    """A kernel with four slots on each device."""
    names = [f"gpu:{index}" for index in range(devices)]
    return a_kernel(
        pcie(Copying(transfer_ms)),
        devices=[a_device(name, lanes=range(4)) for name in names],
        models=[a_model("m", devices=names), a_model("n", devices=names)],
    )


def test_slack_orders_inside_a_priority():
    """Due later but with more to do comes first; a smaller number comes before all."""
    key = PriorityThenSlack(Copying()).key
    order = [
        a_request(1, model="m", budget="900ms", priority=0),
        a_request(2, model="n", budget="70ms", priority=1),
        a_request(3, model="m", budget="50ms", priority=1),
    ]
    assert sorted(order, key=key) == order


def test_low_inputs_wait_until_high_ones_are_copied():
    """Held for the 3 ms that the high batch copies, and started then though nothing changed."""
    talk = a_talk()
    assert dispatched(talk.arrives(1, at="1ms", **HIGH)) == [(1,)]
    commands = talk.arrives(2, at="2ms", model="n", **LOW)
    assert dispatched(commands) == []
    assert SetTimer(at_ns=4 * MS) in commands
    assert dispatched(talk.wakes(at="4ms")) == [(2,)]
    talk.drain()


def test_high_inputs_wait_for_nobody():
    """Neither for low ones nor for their like."""
    talk = a_talk()
    assert dispatched(talk.arrives(1, **LOW)) == [(1,)]
    assert dispatched(talk.arrives(2, **HIGH)) == [(2,)]
    assert dispatched(talk.arrives(3, **HIGH)) == [(3,)]
    talk.drain()


def test_low_work_goes_where_nothing_is_copied():
    """Another device has a link of its own."""
    talk = a_talk(devices=2)
    talk.arrives(1, **HIGH)
    (start,) = [c for c in talk.arrives(2, **LOW) if hasattr(c, "device")]
    assert start.device == "gpu:1"
    talk.drain()


def test_without_copies_nothing_is_held():
    """On cores it is strict priority by slack."""
    talk = a_talk(transfer_ms=0)
    assert dispatched(talk.arrives(1, **HIGH)) == [(1,)]
    assert dispatched(talk.arrives(2, **LOW)) == [(2,)]
    talk.drain()
