"""The account over an engine's own blocks: free is what it has free, less what it owes."""

from types import SimpleNamespace

import pytest

from headway.errors import InvariantError
from headway.generate.vllm_memory import EngineMemory, PrefixHit


class Engine:
    """An engine of ten blocks of 16, that takes blocks when it is told to."""

    def __init__(self, watermark_count=0):
        self.total_count, self.block_tokens, self.watermark_count = 10, 16, watermark_count
        self.readers = {}
        self.hits = {}
        self.gave_up = []

    def free_count(self):
        return self.total_count - sum(len(each) for each in self.readers.values())

    def prefix_hit(self, sequence_id):
        return self.hits.get(sequence_id, PrefixHit(0, 0))

    def held_count(self, sequence_id):
        return len(self.readers.get(sequence_id, ()))

    def reader_counts(self, sequence_id):
        return self.readers.get(sequence_id, [])

    def give_up(self, sequence_id):
        self.gave_up.append(sequence_id)
        self.readers.pop(sequence_id, None)


@pytest.fixture
def rig():
    engine = Engine()
    return SimpleNamespace(engine=engine, memory=EngineMemory(engine))


def test_promised_room_is_free_for_nobody_else(rig):
    """Before the engine takes a block for a prompt, its whole room counts as used."""
    assert rig.memory.blocks_to_start((), 40, 41) == 3
    assert rig.memory.start(1, (), 40) == 0
    assert rig.memory.grow(1, 41)
    assert (rig.memory.free_count, rig.memory.used_count) == (7, 3)
    assert rig.memory.room_tokens(1) == 48
    assert not rig.memory.grow(1, 11 * 16)
    assert rig.memory.free_count == 7
    rig.memory.check()


def test_what_the_engine_takes_is_not_owed_any_more(rig):
    """A chunk's blocks count once, as the engine's; the rest of the room stays owed."""
    rig.memory.start(1, (), 100)
    rig.memory.grow(1, 100)
    rig.engine.readers[1] = [1, 1, 1]
    rig.memory.settle()
    assert rig.engine.free_count() == 7
    assert rig.memory.free_count == 3
    assert rig.memory.freed_by(1) == 7
    rig.memory.check()


def test_prefix_that_others_hold_takes_no_free_block(rig):
    """Of a prefix that is there, only blocks that nobody holds are taken from the free ones."""
    rig.engine.readers[1] = [2, 2, 1]
    rig.engine.hits[2] = PrefixHit(block_count=4, shared_count=2)
    assert rig.memory.prefix_tokens((2,), 100) == 64
    assert rig.memory.blocks_to_start((2,), 100, 100) == 5
    assert rig.memory.start(2, (2,), 100) == 64
    assert rig.memory.free_count == 7 - 2
    assert rig.memory.prefix_with_others(1) == 32
    assert rig.memory.freed_by(1) == 1


def test_engines_own_headroom_is_asked_for_beside_others():
    """The first to begin needs none; the engine asks for none either."""
    memory = EngineMemory(Engine(watermark_count=2))
    assert memory.blocks_to_start((), 16, 16) == 1
    memory.start(1, (), 16)
    assert memory.blocks_to_start((), 16, 16) == 3


def test_released_sequence_is_given_up_at_once(rig):
    """The engine frees its blocks before the plan is made on, and nothing is owed to it."""
    rig.memory.start(1, (), 100)
    rig.memory.grow(1, 100)
    rig.memory.release(1)
    rig.memory.release(1)
    assert rig.engine.gave_up == [1]
    assert rig.memory.free_count == 10
    rig.memory.check()


def test_books_that_do_not_add_up_are_told(rig):
    """A sequence begins once; and a sum that is off is a bug."""
    rig.memory.start(1, (), 16)
    with pytest.raises(InvariantError, match="1"):
        rig.memory.start(1, (), 16)
    rig.memory._owed_sum = 3
    with pytest.raises(InvariantError, match="3"):
        rig.memory.check()
    rig.memory._owed_sum = 1
    rig.memory._owed[7] = 1
    with pytest.raises(InvariantError, match="promised none"):
        rig.memory.check()
