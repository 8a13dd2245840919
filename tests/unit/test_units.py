"""Durations and sizes, as people write them."""

import pytest

from headway.units import format_bytes, format_duration, parse_bytes, parse_duration_ns


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("1ns", 1),
        ("2us", 2_000),
        ("2µs", 2_000),
        ("250ms", 250_000_000),
        ("1.5s", 1_500_000_000),
        (" 2 m ", 120_000_000_000),
        ("2min", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("0s", 0),
        ("0.4ns", 0),
    ],
)
def test_duration_is_nanoseconds(text: str, expected_ns: int) -> None:
    """A number and a unit give nanoseconds, rounded to the nearest."""
    assert parse_duration_ns(text) == expected_ns


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7B", 7), ("64MiB", 64 << 20), ("1.5KiB", 1536), ("4GiB", 4 << 30), ("2MB", 2_000_000)],
)
def test_size_is_bytes(text: str, expected: int) -> None:
    """Binary and decimal units are told apart."""
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "5", "ms", "-1s", "1e3s", "1 week", "1,5s", "1s2ms", "4GiB"])
def test_duration_refuses_what_has_no_unit_of_time(text: str) -> None:
    """What is no duration is refused with the text in backticks and an example."""
    with pytest.raises(ValueError, match="is not a duration such as") as caught:
        parse_duration_ns(text)
    assert f"`{text}`" in str(caught.value)


@pytest.mark.parametrize("text", ["", "5", "mib", "-1B", "64 M", "1s"])
def test_size_refuses_what_has_no_unit_of_size(text: str) -> None:
    """What is no size is refused with an example."""
    with pytest.raises(ValueError, match="is not a size such as"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [
        (0, "0ns"),
        (999, "999ns"),
        (1_500, "1.5us"),
        (2_000_000, "2ms"),
        (-2_000_000, "-2ms"),
        (61_000_000_000, "61s"),
    ],
)
def test_duration_prints_readably(duration_ns: int, expected: str) -> None:
    """The largest unit that leaves a number of at least one is taken."""
    assert format_duration(duration_ns) == expected


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(0, "0B"), (1023, "1023B"), (1536, "1.5KiB"), (64 << 20, "64MiB"), (5 << 30, "5GiB")],
)
def test_size_prints_readably(size_bytes: int, expected: str) -> None:
    """Sizes are printed in binary units."""
    assert format_bytes(size_bytes) == expected
