"""Metrics read back."""

import pytest

from headway.errors import HeadwayError
from headway.observe import read_exposition

TEXT = """\
# HELP headway_slots Slots of a device.
# TYPE headway_slots gauge
headway_slots{device="cpu:0"} 2
headway_slots{device="a \\"b\\""} 1.5
# TYPE headway_batches counter
headway_batches_total{model="m"} 7
"""


def test_samples_are_had_by_name_and_added_up() -> None:
    """Counters keep their ending; a name that is not there is unknown, not 0."""
    told = read_exposition(TEXT)
    assert [(s.labels["device"], s.value) for s in told.of("headway_slots")] == [
        ("cpu:0", 2.0),
        ('a "b"', 1.5),
    ]
    assert told.total("headway_slots") == 3.5
    assert told.total("headway_batches_total") == 7.0
    assert told.total("headway_queue_depth") is None
    assert told.of("headway_queue_depth") == []


def test_other_text_is_refused() -> None:
    """A page of words is no exposition."""
    with pytest.raises(HeadwayError, match="no metrics"):
        read_exposition('headway_slots{device="cpu:0" 2\n')
