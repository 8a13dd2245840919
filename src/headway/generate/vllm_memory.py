"""The account of memory where an engine keeps its own: what it holds, and what was promised of it.

vLLM gives a sequence the blocks of one chunk at a time, when the step that fills them is made. A
plan is made before that, and to begin a prompt without room for its end is to be somebody's victim
soon. So what a sequence is given here is a *promise*: room for so many tokens, of which the engine
holds a part already. Free is what the engine has free, less what is promised and not yet held; and
whatever the engine's own admission asks for, its watermark included, is asked for here.

    room      blocks that a sequence was promised
    held      of them, those that the engine has taken for it
    owed      the sum of room less held: nobody else's, though the engine calls it free

Knows counts. Refuses to know the engine, but for six questions (`EngineBlocks`).
"""

from collections.abc import Sequence as Row
from typing import NamedTuple, Protocol

from headway.errors import InvariantError
from headway.generate.names import SequenceId

__all__ = ["EngineBlocks", "EngineMemory", "PrefixHit"]


class PrefixHit(NamedTuple):
    """Of a sequence that waits, what the engine has in its cache."""

    block_count: int
    """Full blocks whose keys and values are there."""
    shared_count: int
    """Of them, those that somebody holds; the others count as free until they are taken."""


class EngineBlocks(Protocol):
    """What is asked of an engine's own memory."""

    total_count: int
    block_tokens: int
    watermark_count: int
    """Blocks that it keeps free when something begins beside what runs."""

    def free_count(self) -> int:
        """Blocks that nobody holds."""

    def prefix_hit(self, sequence_id: SequenceId) -> PrefixHit:
        """What is there of a sequence's prefix."""

    def held_count(self, sequence_id: SequenceId) -> int:
        """Blocks that the engine holds for a sequence; 0 where it does not know it."""

    def reader_counts(self, sequence_id: SequenceId) -> Row[int]:
        """How many sequences hold each of its blocks, itself included, in order."""

    def give_up(self, sequence_id: SequenceId) -> None:
        """Let go of all that a sequence holds, now; one that holds nothing does not mind."""


class EngineMemory:
    """A `KvAccount` over an engine's blocks.

    Prefix keys are the engine's own business: a sequence that may share has its number as its only
    key.

    Invariants: ``owed`` is the sum of room less held over all that were promised something.
    """

    def __init__(self, blocks: EngineBlocks) -> None:
        self._blocks = blocks
        self.total_count = blocks.total_count
        self.block_tokens = blocks.block_tokens
        self._room: dict[SequenceId, int] = {}
        self._owed: dict[SequenceId, int] = {}
        """Only of those who are owed something."""
        self._owed_sum = 0
        self._hits: dict[SequenceId, PrefixHit] = {}
        """What was asked since anything changed."""

    @property
    def free_count(self) -> int:
        """Blocks that nobody holds, and nobody was promised; below 0 where the engine took more."""
        return self._blocks.free_count() - self._owed_sum

    @property
    def used_count(self) -> int:
        """Blocks that somebody holds, or was promised."""
        return self.total_count - self.free_count

    @property
    def use_ratio(self) -> float:
        """Part of all blocks that are used."""
        return self.used_count / self.total_count

    def blocks_of(self, tokens: int) -> int:
        """Blocks that so many tokens fill."""
        return -(-tokens // self.block_tokens)

    def prefix_tokens(self, keys: Row[int], tokens: int) -> int:
        """Of a sequence's tokens, how many need not be computed."""
        return self._hit(keys).block_count * self.block_tokens

    def blocks_to_start(self, keys: Row[int], known_tokens: int, room_tokens: int) -> int:
        """Free blocks that the engine asks for to let it begin, and that it then has room with."""
        margin = self._blocks.watermark_count if self._room else 0
        return self.blocks_of(room_tokens) - self._hit(keys).shared_count + margin

    def start(self, sequence_id: SequenceId, keys: Row[int], tokens: int) -> int:
        """Promise what is there of a prefix; returns its tokens.

        Raises:
            InvariantError: the sequence was promised something already.
        """
        if sequence_id in self._room:
            raise InvariantError(f"sequence `{sequence_id}` holds blocks already")
        hit = self._hit(keys)
        self._room[sequence_id] = hit.block_count
        self._owe(sequence_id, hit.block_count - hit.shared_count)
        return hit.block_count * self.block_tokens

    def room_tokens(self, sequence_id: SequenceId) -> int:
        """Tokens that a sequence was promised room for."""
        return self._room[sequence_id] * self.block_tokens

    def grow(self, sequence_id: SequenceId, tokens: int) -> bool:
        """Promise room for so many tokens; False, and nothing changed, where there is none."""
        room = self._room[sequence_id]
        count = self.blocks_of(tokens) - room
        if count <= 0:
            return True
        if count > self.free_count:
            return False
        self._room[sequence_id] = room + count
        self._owe(sequence_id, self._owed.get(sequence_id, 0) + count)
        return True

    def filled(self, sequence_id: SequenceId, tokens: int) -> None:
        """The engine sees to that."""

    def freed_by(self, sequence_id: SequenceId) -> int:
        """Blocks that would be free if this sequence let go of all it holds."""
        alone = sum([count == 1 for count in self._blocks.reader_counts(sequence_id)])
        return alone + self._owed.get(sequence_id, 0)

    def prefix_with_others(self, sequence_id: SequenceId) -> int:
        """Tokens of a sequence's prefix that others hold, too: they stay when it lets go."""
        leading = 0
        for count in self._blocks.reader_counts(sequence_id):
            if count == 1:
                break
            leading += 1
        return leading * self.block_tokens

    def release(self, sequence_id: SequenceId) -> None:
        """Let go of all that a sequence holds; one that holds nothing does not mind."""
        if self._room.pop(sequence_id, None) is None:
            return
        self._owe(sequence_id, 0)
        self._blocks.give_up(sequence_id)
        self._hits.clear()

    def settle(self) -> None:
        """The engine has made a step: what it holds now is not owed any more."""
        self._hits.clear()
        for sequence_id in list(self._owed):
            held = self._blocks.held_count(sequence_id)
            if held:
                self._owe(sequence_id, max(0, self._room[sequence_id] - held))

    def check(self) -> None:
        """Demand the invariants.

        Raises:
            InvariantError: one does not hold.
        """
        if self._owed_sum != sum(self._owed.values()) or min(self._owed.values(), default=1) < 1:
            raise InvariantError(f"`{self._owed_sum}` blocks are owed, and not to those listed")
        if not self._owed.keys() <= self._room.keys():
            raise InvariantError("blocks are owed to somebody who was promised none")

    def _hit(self, keys: Row[int]) -> PrefixHit:
        if not keys:
            return PrefixHit(0, 0)
        sequence_id = SequenceId(keys[0])
        hit = self._hits.get(sequence_id)
        if hit is None:
            hit = self._hits[sequence_id] = self._blocks.prefix_hit(sequence_id)
        return hit

    def _owe(self, sequence_id: SequenceId, count: int) -> None:
        self._owed_sum += count - self._owed.pop(sequence_id, 0)
        if count:
            self._owed[sequence_id] = count
