"""What a worker prints: lines for the log, a bounded number, the last ones kept."""

import logging

from headway.executors.process import LINE_CHARS_MAX, LINES_KEPT, LINES_PER_SECOND_MAX, OutputTail


def test_lines_are_logged_with_the_workers_label(caplog):
    """Lines are put together from pieces, and an unfinished last one counts."""
    tail = OutputTail("cpu")
    with caplog.at_level(logging.INFO, "headway.worker"):
        tail.feed(b"one\ntw", 1.0)
        tail.feed(b"o\n\nthr\xff", 1.0)
        tail.finish(1.0)
    assert caplog.messages == ["cpu: one", "cpu: two", "cpu: thr�"]
    assert tail.text() == "one\ntwo\nthr�"


def test_flood_is_counted_not_logged(caplog):
    """Beyond so many lines a second only their number is logged; the last lines are kept."""
    tail = OutputTail("cpu")
    with caplog.at_level(logging.INFO, "headway.worker"):
        tail.feed(b"".join(b"line %d\n" % i for i in range(LINES_PER_SECOND_MAX + 50)), 1.0)
        tail.feed(b"later\n", 2.5)
    assert len(caplog.messages) == LINES_PER_SECOND_MAX + 2
    assert caplog.messages[-2:] == ["cpu: 50 more lines not logged", "cpu: later"]
    assert len(tail.text().splitlines()) == LINES_KEPT


def test_endless_line_is_cut():
    """A worker that never ends its line takes no memory."""
    tail = OutputTail("cpu")
    for _ in range(100):
        tail.feed(b"x" * 10_000, 1.0)
    tail.feed(b"\n", 1.0)
    assert len(tail.text()) == LINE_CHARS_MAX
