"""The text of metrics: in pieces that put together are what the library writes in one go."""

from functools import partial

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from tests.counted import listen

from headway.observe.exposition import _SAMPLES, exposition
from headway.testing import a_kernel


class Everything:
    def __init__(self, families):
        self.families = families

    def collect(self):
        return self.families


@pytest.mark.parametrize("is_openmetrics", [False, True])
def test_pieces_are_the_whole(is_openmetrics):
    """Nothing is lost or there twice at the joins."""
    families = list(listen(a_kernel(), knows=["m", "n"], aliases=["triton"]).collect())
    as_it_is = partial(generate_openmetrics, escaping="allow-utf-8")
    write = as_it_is if is_openmetrics else generate_latest
    pieces = list(exposition(families, is_openmetrics=is_openmetrics))
    assert len(pieces) > 2
    assert b"".join(pieces) == write(Everything(families))


def test_no_piece_is_long():
    """Each has few samples, or is the last of a single family."""
    families = list(listen(a_kernel(), knows=[f"m{number}" for number in range(20)]).collect())
    largest = max(len(family.samples) for family in families)
    for piece in exposition(families):
        lines = [line for line in piece.splitlines() if not line.startswith(b"#")]
        assert len(lines) < _SAMPLES + largest


def test_pieces_are_of_one_instant():
    """What happens while they are written is for the next scrape."""
    talk = a_kernel()
    metrics = listen(talk, knows=["m"])
    pieces = metrics.text()
    first = next(pieces)
    talk.arrives(1)
    text = b"".join([first, *pieces])
    assert b'headway_requests_arrived_total{model="m",tier="normal"} 0.0' in text
    assert b'headway_slots_busy{device="cpu:0"} 0.0' in text


def test_nothing_is_an_empty_text():
    """OpenMetrics has its end even then."""
    assert b"".join(exposition([])) == b""
    assert b"".join(exposition([], is_openmetrics=True)) == b"# EOF\n"
