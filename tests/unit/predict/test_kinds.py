"""Numbers for kinds of batches."""

from headway.core import Run, SlotClass
from headway.predict.kinds import Kinds


def a_run(model):
    return Run(
        model=model,
        bucket="",
        rows=1,
        payload_bytes=0,
        device="cpu:0",
        slot=0,
        lane=0,
        slot_class=SlotClass.HIGH,
        priority=1,
    )


def test_kinds_share_the_last_number():
    """A kind keeps its number; those that find no room share the last."""
    kinds = Kinds(2)
    assert kinds.find(a_run("a")) is None
    assert [kinds.add(a_run(name)) for name in "abca"] == [0, 1, 1, 0]
    assert kinds.find(a_run("c")) == 1
    again = Kinds(2)
    assert not again.restore([["a", "", 1], ["a", "", 1]])
    assert not again.restore([["a", "", "1"]])
    assert again.restore(kinds.state())
    assert again.find(a_run("b")) == 1
