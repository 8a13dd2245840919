"""The line of everyone who waits: sorted whatever comes and goes."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headway.core import Line
from headway.core.waiting import Entry
from headway.testing import a_request

KEYS = st.lists(st.integers(0, 5000), unique=True, min_size=1, max_size=60)


def an_entry(key):
    """An entry that is served where its key says."""
    return Entry(a_request(key + 1), (key,))


@given(KEYS, st.integers(1, 40), st.data())
def test_line_is_sorted_whatever_comes_and_goes(keys, step, data):
    """After any pushes and leaves the rest stands in order, and is counted right."""
    line = Line()
    entries = {}
    for key in keys:
        for near in range(key * 100, key * 100 + step):  # runs, so that chunks fill and split
            entries[near] = an_entry(near)
            line.push(entries[near])
    gone = data.draw(st.lists(st.sampled_from(sorted(entries)), unique=True, max_size=80))
    for key in gone:
        line.leave(entries.pop(key))
    assert [entry.key[0] for entry in line.entries()] == sorted(entries)
    assert line.count == len(entries)
    for key in (0, *gone, 10**9):
        assert line.count_before((key,)) == sum(other < key for other in entries)


def test_line_empties_and_fills_again():
    """The last to leave takes the chunk along, and a newcomer starts a new one."""
    line = Line()
    entry = an_entry(3)
    line.push(entry)
    line.leave(entry)
    assert (list(line.entries()), line.count_before((9,))) == ([], 0)
    line.push(entry)
    assert list(line.entries()) == [entry]


def test_line_longer_than_a_chunk_is_in_order_and_counts_right():
    """Chunks are halved as they fill, in the middle as at the end, and go when they are empty."""
    line = Line()
    entries = {key: an_entry(key) for key in range(2_000)}
    for key in Random("line").sample(sorted(entries), len(entries)):
        line.push(entries[key])
    assert [entry.key[0] for entry in line.entries()] == sorted(entries)
    assert [line.count_before((key,)) for key in (0, 511, 513, 1_999, 5_000)] == [
        0,
        511,
        513,
        1_999,
        2_000,
    ]
    for key in range(1_500):
        line.leave(entries[key])
    assert [entry.key[0] for entry in line.entries()] == list(range(1_500, 2_000))
    assert (line.count, line.count_before((1_501,))) == (500, 1)
