"""Counting what this process and others took of the machine."""

from headway.bench.quiet import CpuWatch, _busy_ticks, _own_ticks


def test_own_work_is_counted_as_own():
    """Work done between entry and exit is in the own part, and no part is negative."""
    with CpuWatch() as watch:
        before = _own_ticks()
        while _own_ticks() < before + 5:
            sum(range(10_000))
    assert watch.use.own_cores > 0
    assert watch.use.others_cores is None or watch.use.others_cores >= 0


def test_machine_is_at_least_as_busy_as_we_are():
    """All of our time is time of the machine."""
    busy = _busy_ticks()
    assert busy is None or busy >= _own_ticks() > 0
