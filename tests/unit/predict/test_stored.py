"""Reading back what may be anything."""

import pytest

from headway.predict.stored import fields_of, has_rows, number_of, rows_of, time_of


@pytest.mark.parametrize("value", [None, True, "1", float("nan"), float("inf"), 10**400, [1]])
def test_what_is_no_finite_number_is_none(value):
    """Truth, text, infinities and integers beyond all floats are no numbers."""
    assert number_of(value) is None


def test_numbers_are_numbers():
    """Whole ones too."""
    assert [number_of(3), number_of(-0.5)] == [3.0, -0.5]


def test_rows_that_do_not_fit_are_left_out():
    """Wrong kinds, wrong lengths and wrong numbers; what is no list has no rows."""
    lines = [["a", 1, 2.0], ["a", "b", 2.0], ["a", 1], ["a", True, 2.0], ["a", 1, None], 5]
    assert [row.key for row in rows_of(lines, (str, int), 1)] == [("a", 1)]
    assert list(rows_of("x", (str,), 1)) == []


def test_fields_of_anything_else_are_none():
    """Only an object has fields."""
    assert (fields_of({"a": 1}), fields_of([1])) == ({"a": 1}, {})


def test_times_are_cut_and_rows_are_those_of_a_batch():
    """A day at most; at least a row, and no more than fit a signed word."""
    assert [time_of(number) for number in (-1.0, 5.0, 1e308)] == [0.0, 5.0, 86_400e9]
    assert [has_rows(rows) for rows in (0, 1, 2**31 - 1, 2**31, "1")] == [
        False,
        True,
        True,
        False,
        False,
    ]
