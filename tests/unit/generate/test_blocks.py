"""Memory for keys and values: blocks, prefixes shared and kept."""

import pytest

from headway.errors import InvariantError
from headway.generate import BlockPool


def test_pool_grows_by_whole_blocks():
    """A block is taken for the first token in it, and all are back at the end."""
    pool = BlockPool(4, 16)
    assert pool.start(1, (), 17) == 0
    assert pool.grow(1, 17)
    assert (pool.used_count, pool.room_tokens(1)) == (2, 32)
    pool.release(1)
    assert pool.free_count == 4


def test_pool_refuses_what_does_not_fit_and_changes_nothing():
    """Growth is whole or not at all."""
    pool = BlockPool(2, 16)
    pool.start(1, (), 1)
    assert not pool.grow(1, 33)
    assert pool.used_count == 0


def test_prefix_counts_once():
    """Three sequences with a common prefix of two blocks hold it once."""
    pool = BlockPool(10, 16)
    pool.start(1, (7, 8, 1), 48)
    pool.grow(1, 48)
    pool.filled(1, 48)
    for other in (2, 3):
        assert pool.start(other, (7, 8, other * 10), 48) == 32
        pool.grow(other, 48)
    assert pool.used_count == 3 + 1 + 1
    assert pool.prefix_with_others(2) == 32
    assert pool.freed_by(2) == 1


def test_prefix_is_shared_only_once_it_is_computed():
    """What is still being filled helps nobody."""
    pool = BlockPool(10, 16)
    pool.start(1, (7, 8), 33)
    pool.grow(1, 33)
    pool.filled(1, 20)
    assert pool.prefix_tokens((7, 8), 33) == 16


def test_prefix_leaves_a_token_to_compute():
    """A prompt that is there as a whole still needs its last token, to have a next one."""
    pool = BlockPool(10, 16)
    pool.start(1, (7, 8), 32)
    pool.grow(1, 32)
    pool.filled(1, 32)
    assert pool.prefix_tokens((7, 8), 32) == 16


def test_prefix_outlives_its_sequence_until_its_room_is_needed():
    """Free blocks keep their content, and lose the tail of a prefix before its head."""
    pool = BlockPool(4, 16)
    pool.start(1, (7, 8), 33)
    pool.grow(1, 33)
    pool.filled(1, 33)
    pool.release(1)
    assert (pool.free_count, pool.prefix_tokens((7, 8), 33)) == (4, 32)
    pool.start(2, (), 48)
    pool.grow(2, 48)
    assert pool.prefix_tokens((7, 8), 33) == 16


def test_prefix_that_is_kept_needs_a_free_block_to_come_back():
    """What nobody holds is not counted as there when room is asked for."""
    pool = BlockPool(4, 16)
    pool.start(1, (7, 8), 33)
    pool.grow(1, 33)
    pool.filled(1, 33)
    assert pool.blocks_to_start((7, 8), 33, 34) == 1
    pool.release(1)
    assert pool.blocks_to_start((7, 8), 33, 34) == 3


def test_two_who_fill_the_same_prefix_at_once_keep_a_copy_each():
    """Blocks in use are not merged; the second copy is simply free at the end."""
    pool = BlockPool(10, 16)
    for sequence_id in (1, 2):
        pool.start(sequence_id, (7,), 17)
        pool.grow(sequence_id, 17)
    for sequence_id in (1, 2):
        pool.filled(sequence_id, 17)
    assert pool.used_count == 4
    pool.release(1)
    pool.release(2)
    pool.check()
    assert pool.free_count == 10


def test_pool_refuses_a_sequence_twice():
    """Who holds blocks does not start."""
    pool = BlockPool(4, 16)
    pool.start(1, (), 1)
    with pytest.raises(InvariantError, match="holds blocks already"):
        pool.start(1, (), 1)
