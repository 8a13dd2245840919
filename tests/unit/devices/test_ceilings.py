"""Ceilings and host copies, from burners that are numbers."""

from collections import deque

import pytest

from headway.devices import (
    CacheLevel,
    CopyPath,
    Fingerprint,
    Load,
    LoadKind,
    Rate,
    copy_counts,
    measure_ceilings,
    measure_host_copies,
    stream_bytes,
)

WINDOW_NS = 7


class FakeBurners:
    """Gives the rates it is told to, and remembers what was asked."""

    def __init__(self, cores, rates_of) -> None:
        self.cores = cores
        self.rates_of = rates_of
        self.is_open = False
        self.load: Load | None = None

    def __enter__(self):
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def prepare(self, load: Load) -> None:
        assert self.is_open
        self.load = load

    def run(self, window_ns: int) -> list[Rate]:
        assert (self.is_open, window_ns) == (True, WINDOW_NS)
        return [self.rates_of(self.load, len(self.cores)) for _ in self.cores]


class Opener:
    """Opens fake burners and keeps them."""

    def __init__(self, rates_of) -> None:
        self.rates_of = rates_of
        self.opened: list[FakeBurners] = []

    def __call__(self, cores) -> FakeBurners:
        self.opened.append(FakeBurners(tuple(cores), self.rates_of))
        return self.opened[-1]


def test_ceilings_are_the_best_window_of_time_on_the_core() -> None:
    """The best of several windows counts, by processor time; presence is the mean."""
    compute = deque([Rate(1.0, 50.0, 0.5), Rate(1.0, 80.0, 1.0), Rate(1.0, 70.0, 1.0)])

    def rates(load: Load, count: int) -> Rate:
        if load.kind is LoadKind.COMPUTE and count == 1:
            return compute.popleft()
        return Rate(1.0, 10.0 / count, 1.0)

    opener = Opener(rates)
    steps: list[None] = []
    found = measure_ceilings(
        (0, 1, 2, 3),
        array_bytes=99,
        windows=3,
        window_ns=WINDOW_NS,
        on_step=lambda: steps.append(None),
        open_burners=opener,
    )
    assert (found.one.flop_per_s, found.one.bytes_per_s) == (80.0, 10.0)
    assert (found.every.flop_per_s, found.every.bytes_per_s) == (10.0, 10.0)
    assert (found.one.cores_count, found.every.cores_count) == (1, 4)
    assert found.ridge_flop_per_byte == 8.0
    assert found.presence_ratio == pytest.approx(1 - 0.5 / 30)
    assert [burners.cores for burners in opener.opened] == [(3,), (0, 1, 2, 3)]
    assert opener.opened[0].load == Load(LoadKind.STREAM, 99)
    assert len(steps) == 4


def test_stream_arrays_exceed_the_cache_and_fit_memory() -> None:
    """Twice the largest cache each, within bounds, and never more than a quarter of memory."""
    caches = (CacheLevel(level=3, kind="unified", size_bytes=32 << 20, cores_count=8),)
    machine = Fingerprint(cpu_model="a", caches=caches)
    gibibyte = 1 << 30
    assert stream_bytes(machine, available_bytes=64 * gibibyte, cores_count=8) == 64 << 20
    assert stream_bytes(machine, available_bytes=0, cores_count=8) == 64 << 20
    assert stream_bytes(machine, available_bytes=gibibyte, cores_count=8) * 3 * 8 <= gibibyte // 4
    assert stream_bytes(machine, available_bytes=1, cores_count=64) == 1 << 20
    bare = Fingerprint(cpu_model="a")
    assert stream_bytes(bare, available_bytes=gibibyte, cores_count=1) == 16 << 20


@pytest.mark.parametrize(("cores", "counts"), [(1, (1, 2)), (2, (1, 2, 4)), (64, (1, 2, 4, 8))])
def test_copies_go_on_at_once_up_to_twice_the_cores(cores: int, counts: tuple[int, ...]) -> None:
    """Powers of two, eight at most."""
    assert copy_counts(cores) == counts


def test_host_copies_share_cores_where_there_are_too_few() -> None:
    """The rate together is that of the copies that have a core, of which there are two."""
    opener = Opener(lambda load, count: Rate(1.0, float(load.size_bytes), 1.0))
    found = measure_host_copies(
        (4, 5), sizes_bytes=(10, 20), windows=1, window_ns=WINDOW_NS, open_burners=opener
    )
    rates = {(rate.copies_count, rate.size_bytes): rate.bytes_per_s for rate in found}
    assert rates == {(1, 10): 10, (1, 20): 20, (2, 10): 20, (2, 20): 40, (4, 10): 20, (4, 20): 40}
    assert [burners.cores for burners in opener.opened] == [(5,), (5, 4), (5, 4, 5, 4)]
    assert found[-1].bytes_per_s_each == 10
    assert {rate.path for rate in found} == {CopyPath.HOST}


def test_host_copies_are_the_median_window() -> None:
    """One slow window does not count."""
    rates = iter([9.0, 1.0, 8.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0])
    found = measure_host_copies(
        (0,),
        sizes_bytes=(64,),
        windows=3,
        window_ns=WINDOW_NS,
        open_burners=Opener(lambda load, count: Rate(1.0, next(rates), 1.0)),
    )
    assert found[0].bytes_per_s == 8.0
