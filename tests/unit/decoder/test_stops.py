"""Texts to stop at."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.decoder import StopWatch


def test_beginning_of_a_stop_is_held_back():
    """Until it is one, or is known to be none."""
    watch = StopWatch(["END"])
    assert [watch.add(text) for text in ("a E", "N", "d EN", "D x")] == ["a ", "", "ENd ", ""]
    assert watch.has_stopped
    assert watch.add("more") == ""


def test_what_was_held_back_is_shown_at_the_end():
    """It was no stop after all."""
    watch = StopWatch(["END"])
    assert watch.add("the E") == "the "
    assert watch.finish() == "E"
    assert not watch.has_stopped


def test_earliest_of_several_ends_it():
    """Whichever comes first in the text."""
    watch = StopWatch(["yy", "x"])
    assert watch.add("abxcyy") == "ab"


@given(
    text=st.text("abc", max_size=40),
    stops=st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(0, 40), max_size=8),
)
def test_text_is_that_before_the_first_stop_however_it_comes(text, stops, cuts):
    """Cut into any pieces, what is shown is the same."""
    watch = StopWatch(stops)
    edges = sorted({0, len(text), *[cut for cut in cuts if cut <= len(text)]})
    shown = "".join(watch.add(text[a:b]) for a, b in pairwise(edges)) + watch.finish()
    places = [text.find(stop) for stop in stops if stop in text]
    first_end = min([text.find(stop) + len(stop) for stop in stops if stop in text], default=None)
    if first_end is None:
        assert shown == text
    else:
        assert not any(stop in shown for stop in stops)
        assert text.startswith(shown)
        assert len(shown) <= max(places)


@pytest.mark.parametrize("stops", [[], ["never"]])
def test_text_without_a_stop_is_whole(stops):
    """Nothing is lost."""
    watch = StopWatch(stops)
    assert watch.add("never mind"[:5] if not stops else "nev") + watch.finish() in ("never", "nev")
