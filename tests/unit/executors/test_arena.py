"""The shared file of a slot: growth, the limit, the mark of cancellation, memory given back."""

import os
from pathlib import Path

import pytest

from headway.executors.arena import (
    ALIGN_BYTES,
    FIRST_BYTES,
    TRIM_BATCHES,
    Arena,
    ArenaFullError,
    align,
)

MIB = 1 << 20


@pytest.fixture
def arena():
    made = Arena.create("test", 64 * MIB)
    yield made
    made.close()


def other_side(arena: Arena) -> Arena:
    """The same file as the worker would map it."""
    return Arena(os.dup(arena.fd), arena.bytes_max)


@pytest.mark.parametrize(("offset", "expected"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_align_rounds_up_to_a_cache_line(offset, expected):
    """A tensor begins at the next multiple of 64."""
    assert align(offset) == expected
    assert ALIGN_BYTES == 64


def test_both_sides_see_the_same_bytes(arena):
    """What one side writes the other reads."""
    other = other_side(arena)
    arena.map[100:104] = b"abcd"
    assert other.map[100:104] == b"abcd"
    other.close()


def test_growth_is_followed_by_the_other_side(arena):
    """Whoever needs room lengthens the file; the other maps it when told."""
    other = other_side(arena)
    arena.reserve(3 * MIB)
    assert arena.size_bytes == 4 * MIB
    arena.map[3 * MIB - 1 : 3 * MIB] = b"x"
    assert other.size_bytes == FIRST_BYTES
    other.follow(arena.size_bytes)
    assert other.map[3 * MIB - 1 : 3 * MIB] == b"x"
    other.follow(FIRST_BYTES)
    assert other.size_bytes == 4 * MIB
    other.close()


def test_old_views_outlive_growth(arena):
    """A view of the smaller mapping still reads what was there."""
    arena.map[100:104] = b"abcd"
    view = arena.view[100:104]
    arena.reserve(8 * MIB)
    assert bytes(view) == b"abcd"


def test_limit_is_exact_and_named(arena):
    """The last byte within the limit is there; one more is refused, and nothing changes."""
    arena.reserve(64 * MIB)
    with pytest.raises(ArenaFullError, match=r"64MiB .* limit of 64MiB"):
        arena.reserve(64 * MIB + 1)
    assert arena.size_bytes == 64 * MIB


def test_limit_below_the_first_size():
    """A tiny limit makes a tiny file."""
    arena = Arena.create("tiny", 4096)
    assert arena.size_bytes == 4096
    with pytest.raises(ArenaFullError):
        arena.reserve(4097)
    arena.close()


def test_file_cannot_be_shortened(arena):
    """The seal protects each side from the other: a shorter file would kill its reader."""
    with pytest.raises(PermissionError):
        os.ftruncate(arena.fd, 1)


def test_cancelled_batch_is_seen_by_the_other_side(arena):
    """The mark names one batch."""
    other = other_side(arena)
    assert not other.is_cancelled(7)
    arena.cancel(7)
    assert other.is_cancelled(7)
    assert not other.is_cancelled(8)
    other.close()


def resident_bytes(arena: Arena) -> int:
    return os.fstat(arena.fd).st_blocks * 512


def test_memory_of_one_great_batch_is_given_back(arena):
    """After many small batches in a row the file holds only what they need."""
    arena.reserve(16 * MIB)
    arena.map[0 : 16 * MIB] = bytes(16 * MIB)
    arena.settle(16 * MIB)
    assert resident_bytes(arena) == 16 * MIB
    for _ in range(2 * TRIM_BATCHES):
        arena.settle(10_000)
    assert resident_bytes(arena) == 12_288
    assert arena.map[0:10] == bytes(10)


def test_memory_in_steady_use_is_kept(arena):
    """Batches of changing size do not cost a page fault each."""
    arena.reserve(16 * MIB)
    arena.map[0 : 16 * MIB] = bytes(16 * MIB)
    for index in range(4 * TRIM_BATCHES):
        arena.settle(16 * MIB if index % 100 == 0 else 1_000)
    assert resident_bytes(arena) == 16 * MIB


def test_close_gives_the_descriptor_back():
    """Nothing is left of a closed arena."""
    arena = Arena.create("closed", MIB)
    link = Path(f"/proc/self/fd/{arena.fd}")
    assert "memfd:headway-closed" in str(link.readlink())
    arena.close()
    assert not link.exists() or "headway-closed" not in str(link.readlink())
