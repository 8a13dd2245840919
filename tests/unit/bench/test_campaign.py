"""What is recorded, and the messages to and from the process that records it."""

from pathlib import Path

import msgspec
import pytest

from headway.bench import FULL, QUICK, Progress, Recorded, Shift, orders_of
from headway.bench.campaign import journals_of
from headway.bench.orders import NEWS, ORDERS, SoloMeasured
from headway.bench.setups import SETUPS, find_setup
from headway.errors import ConfigError


def orders(campaign=FULL):
    """What would be recorded."""
    return orders_of(campaign, Path("out"), Path("models"))


def test_first_setup_has_every_load_seed_and_shift():
    """The others have the two highest loads, once."""
    first, *others = orders()
    steady = {(run.utilisation, run.seed) for run in first.runs if run.shift is Shift.NONE}
    assert steady == {(load, seed) for load in FULL.utilisations for seed in (1, 2, 3)}
    shifted = [(run.shift, run.seed) for run in first.runs if run.shift is not Shift.NONE]
    assert len(shifted) == len(set(shifted)) == FULL.shift_seeds * len(FULL.shifts)
    for order in others:
        assert [run.utilisation for run in order.runs] == [0.85, 0.95]
    assert [order.setup.name for order in orders()] == list(FULL.configs)


def test_count_is_that_of_the_journals():
    """What the progress bar is told is what there will be, each file once."""
    for campaign in (FULL, QUICK):
        paths = journals_of(orders(campaign))
        assert len(paths) == len(set(paths)) == campaign.recordings_count


def test_rate_doubles_in_its_shift():
    """The load after is twice that before; a new model comes without more load."""
    by_shift = {run.shift: run for run in orders()[0].runs}
    rate = by_shift[Shift.RATE]
    assert rate.utilisation_after == pytest.approx(2 * rate.utilisation)
    new_model = by_shift[Shift.NEW_MODEL]
    assert new_model.utilisation_after == new_model.utilisation


def test_unknown_setup_is_refused():
    """With those that there are."""
    with pytest.raises(ConfigError, match="no set-up `best`") as caught:
        find_setup("best")
    assert "pinned" in (caught.value.hint or "")


def test_setups_differ_as_their_names_say():
    """Spinning is asked for where it is the point, and nowhere else."""
    assert [name for name, setup in SETUPS.items() if setup.is_pinned] == ["pinned"]
    assert [name for name, setup in SETUPS.items() if setup.is_isolated] == ["per_model"]
    spinning = [name for name, setup in SETUPS.items() if setup.options.get("allow_spinning")]
    assert spinning == ["intra2_spinning"]
    assert SETUPS["intra2"].options == {"intra_op_threads": 2}


def test_messages_survive_the_way():
    """An order and each kind of news arrive as they were sent."""
    order = orders(QUICK)[0]
    assert ORDERS.decode(msgspec.json.encode(order)) == order
    for news in (
        SoloMeasured(classes=(), capacity_ratio=0.9, others_cores=None),
        Progress(path="a", done_ratio=0.5),
        Recorded(path="a", busy_ratio=0.8, others_cores=0.1),
    ):
        assert NEWS.decode(msgspec.json.encode(news)) == news
