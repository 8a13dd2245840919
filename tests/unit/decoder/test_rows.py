"""Rows of keys and values."""

from pathlib import Path

import numpy as np
import pytest

from headway.decoder.rows import KvRows, RowPool
from headway.decoder.session import runs_of
from headway.decoder.shape import DecoderShape
from headway.errors import LoadError, OutOfMemoryError


def a_shape(**sizes):
    given = {
        "layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "head_size": 64, "inner": 64,
        "vocabulary": 300, "context": 1_024,
    }  # fmt: skip
    return DecoderShape(**given | sizes)


def test_copy_out_and_in_keeps_every_number():
    """In another row, too; other rows are as they were."""
    rows = KvRows(a_shape(), 3, 128)
    rows.parts[:] = np.arange(rows.parts.size, dtype=np.float32).reshape(rows.parts.shape)
    before = rows.parts.copy()
    kept = rows.copy_out(1, 20)
    rows.give_back(1)
    assert not rows.parts[:, 1].any()
    rows.copy_in(2, kept)
    assert np.array_equal(before[:, 1, :, :20], rows.parts[:, 2, :, :20])
    assert np.array_equal(before[:, 0], rows.parts[:, 0])


def test_memory_is_what_is_written_and_comes_back():
    """Address space costs nothing; a row that was left gives its pages back."""

    def resident_bytes():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    rows = KvRows(a_shape(layers=8), 64, 4_096)
    assert rows.parts.nbytes > 1 << 30
    before = resident_bytes()
    rows.parts[:, 5, :, :1_024] = 1.0
    written = rows.parts[:, 5, :, :1_024].nbytes
    assert resident_bytes() - before > 0.9 * written
    rows.give_back(5)
    assert resident_bytes() - before < 0.1 * written


def test_address_space_that_is_not_to_be_had_is_said():
    """With what to do."""
    with pytest.raises(OutOfMemoryError, match="sequences_max"):
        KvRows(a_shape(layers=1_000_000, head_size=1_024), 4_096, 1 << 20)


def test_sequence_without_a_free_row_waits_and_takes_nobody():
    """No victim would be of use."""
    pool = RowPool(100, 16, 1)
    pool.start(1, (), 16)
    assert pool.blocks_to_start((), 16, 17) > pool.total_count + pool.used_count
    pool.release(1)
    assert pool.blocks_to_start((), 16, 17) == 2


def test_lowest_row_is_taken_first():
    """So that steps stay dense."""
    pool = RowPool(100, 16, 4)
    for number in range(4):
        pool.start(number, (), 16)
    pool.release(2)
    pool.release(0)
    pool.start(9, (), 16)
    assert pool.row_of == {9: 0, 1: 1, 3: 3}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([3], [range(3, 4)]),
        ([2, 0, 1], [range(3)]),
        ([0, 5], [range(6)]),
        ([0, 6], [range(1), range(6, 7)]),
        ([0, 1, 20, 22], [range(2), range(20, 23)]),
    ],
)
def test_few_ride_along(rows, expected):
    """Rows far apart are runs of their own."""
    assert expected == runs_of(rows)


@pytest.mark.parametrize("sizes", [{"kv_heads": 3}, {"head_size": 8}, {"layers": 0}])
def test_sizes_that_cannot_be_run_are_refused(sizes):
    """The attention operator's limits are known before it meets them."""
    with pytest.raises(LoadError):
        a_shape(**sizes)
