"""Memory for keys and values in blocks, with shared prefixes counted once.

A sequence holds blocks of two kinds. *Shared* ones carry a key that says what is in them (the
tokens of the block and all before them); however many sequences read one, it is one block. *Own*
ones belong to a sequence alone. A block of the prompt is own while it is filled and becomes shared
when it is full, unless somebody filled one of the same key meanwhile: then both stay, as engines do
not merge blocks that are in use.

A shared block that nobody holds is free, yet keeps its content until the room is needed; the one
that was let go first is overwritten first, and of one sequence's the last, since a prefix is of use
without its tail and a tail is of none without its prefix.

Knows counts and keys. Refuses to know where a block lies and what is in it.
"""

from collections import OrderedDict
from collections.abc import Sequence as Row
from typing import Protocol

from headway.errors import InvariantError
from headway.generate.names import SequenceId

__all__ = ["BlockPool", "KvAccount"]


class KvAccount(Protocol):
    """What a scheduler asks and tells of memory for keys and values.

    `BlockPool` keeps such an account itself. A host whose engine has one of its own gives a view of
    that instead: then what is decided is what the engine can do, to the block.
    """

    total_count: int
    block_tokens: int

    @property
    def used_count(self) -> int:
        """Blocks that somebody holds."""

    @property
    def free_count(self) -> int:
        """Blocks that nobody holds."""

    @property
    def use_ratio(self) -> float:
        """Part of all blocks that somebody holds."""

    def blocks_of(self, tokens: int) -> int:
        """Blocks that so many tokens fill."""

    def prefix_tokens(self, keys: Row[int], tokens: int) -> int:
        """Of a sequence's tokens, how many need not be computed."""

    def blocks_to_start(self, keys: Row[int], known_tokens: int, room_tokens: int) -> int:
        """Free blocks that `start` and then `grow` to the room would take."""

    def start(self, sequence_id: SequenceId, keys: Row[int], tokens: int) -> int:
        """Hold what is there of a prefix; returns its tokens."""

    def room_tokens(self, sequence_id: SequenceId) -> int:
        """Tokens that the blocks of a sequence have room for."""

    def grow(self, sequence_id: SequenceId, tokens: int) -> bool:
        """Have room for so many tokens; False, and nothing changed, where there is none."""

    def filled(self, sequence_id: SequenceId, tokens: int) -> None:
        """So many tokens of a sequence are computed."""

    def freed_by(self, sequence_id: SequenceId) -> int:
        """Blocks that would be free if this sequence let go of all it holds."""

    def prefix_with_others(self, sequence_id: SequenceId) -> int:
        """Tokens of a sequence's prefix that others hold, too."""

    def release(self, sequence_id: SequenceId) -> None:
        """Let go of all that a sequence holds; one that holds nothing does not mind."""

    def check(self) -> None:
        """Raise where the account does not add up."""


class _Holding:
    """What one sequence holds."""

    __slots__ = ("keys", "own_count", "shared_count")

    def __init__(self, keys: Row[int]) -> None:
        self.keys = keys
        """Of the full blocks of its prompt, in order."""
        self.shared_count = 0
        """It holds the first so many of them as shared."""
        self.own_count = 0


class BlockPool:
    """Counts blocks.

    Invariants: own and shared blocks in use never exceed the total, none is negative; a key is in
    use or kept, never both; what is kept fits in what is free.
    Cost: O(1) for growth, O(blocks of the prompt) where keys are given.
    """

    def __init__(self, blocks_total: int, block_tokens: int) -> None:
        if min(blocks_total, block_tokens) < 1:
            raise ValueError("a pool needs a block of at least one token")
        self.total_count = blocks_total
        self.block_tokens = block_tokens
        self._holdings: dict[SequenceId, _Holding] = {}
        self._readers: dict[int, int] = {}
        """Key of a shared block in use -> sequences that hold it."""
        self._kept: OrderedDict[int, None] = OrderedDict()
        """Keys of free blocks whose content is still there, the next to be overwritten first."""
        self._own_count = 0

    @property
    def used_count(self) -> int:
        """Blocks that somebody holds."""
        return self._own_count + len(self._readers)

    @property
    def free_count(self) -> int:
        """Blocks that nobody holds, with or without content."""
        return self.total_count - self._own_count - len(self._readers)

    @property
    def use_ratio(self) -> float:
        """Part of all blocks that somebody holds."""
        return self.used_count / self.total_count

    def blocks_of(self, tokens: int) -> int:
        """Blocks that so many tokens fill."""
        return -(-tokens // self.block_tokens)

    def prefix_tokens(self, keys: Row[int], tokens: int) -> int:
        """Of a sequence's tokens, how many need not be computed; one always is, to have a next."""
        return self._prefix_count(keys, tokens) * self.block_tokens

    def blocks_to_start(self, keys: Row[int], known_tokens: int, room_tokens: int) -> int:
        """Free blocks that `start` and then `grow` to the room would take."""
        live = 0
        for key in keys[: self._prefix_count(keys, known_tokens)]:
            if key in self._readers:
                live += 1
        return self.blocks_of(room_tokens) - live

    def start(self, sequence_id: SequenceId, keys: Row[int], tokens: int) -> int:
        """Hold what is there of a prefix; returns its tokens.

        Raises:
            InvariantError: the sequence holds something already.
        """
        if sequence_id in self._holdings:
            raise InvariantError(f"sequence `{sequence_id}` holds blocks already")
        holding = self._holdings[sequence_id] = _Holding(keys)
        holding.shared_count = count = self._prefix_count(keys, tokens)
        for key in keys[:count]:
            self._hold(key)
        return count * self.block_tokens

    def room_tokens(self, sequence_id: SequenceId) -> int:
        """Tokens that the blocks of a sequence have room for."""
        holding = self._holdings[sequence_id]
        return (holding.own_count + holding.shared_count) * self.block_tokens

    def grow(self, sequence_id: SequenceId, tokens: int) -> bool:
        """Have room for so many tokens; False, and nothing changed, where there is none."""
        holding = self._holdings[sequence_id]
        count = self.blocks_of(tokens) - holding.own_count - holding.shared_count
        if count <= 0:
            return True
        if count > self.free_count:
            return False
        holding.own_count += count
        self._own_count += count
        while len(self._kept) > self.free_count:
            self._kept.popitem(last=False)
        return True

    def filled(self, sequence_id: SequenceId, tokens: int) -> None:
        """So many tokens of a sequence are computed: full blocks of its prompt can be shared."""
        holding = self._holdings[sequence_id]
        full = min(len(holding.keys), tokens // self.block_tokens)
        while holding.shared_count < full and holding.own_count > 0:
            key = holding.keys[holding.shared_count]
            if key in self._readers:
                return
            self._kept.pop(key, None)
            self._readers[key] = 1
            holding.own_count -= 1
            self._own_count -= 1
            holding.shared_count += 1

    def freed_by(self, sequence_id: SequenceId) -> int:
        """Blocks that would be free if this sequence let go of all it holds."""
        holding = self._holdings[sequence_id]
        alone = sum([self._readers[key] == 1 for key in holding.keys[: holding.shared_count]])
        return holding.own_count + alone

    def prefix_with_others(self, sequence_id: SequenceId) -> int:
        """Tokens of a sequence's prefix that others hold, too: they stay when it lets go."""
        holding = self._holdings[sequence_id]
        for index in range(holding.shared_count):
            if self._readers[holding.keys[index]] == 1:
                return index * self.block_tokens
        return holding.shared_count * self.block_tokens

    def release(self, sequence_id: SequenceId) -> None:
        """Let go of all that a sequence holds; one that holds nothing does not mind."""
        holding = self._holdings.pop(sequence_id, None)
        if holding is None:
            return
        self._own_count -= holding.own_count
        for key in reversed(holding.keys[: holding.shared_count]):
            left = self._readers[key] - 1
            if left:
                self._readers[key] = left
            else:
                del self._readers[key]
                self._kept[key] = None

    def check(self) -> None:
        """Demand the invariants.

        Raises:
            InvariantError: one does not hold.
        """
        own_count = sum([holding.own_count for holding in self._holdings.values()])
        readers: dict[int, int] = {}
        for holding in self._holdings.values():
            for key in holding.keys[: holding.shared_count]:
                readers[key] = readers.get(key, 0) + 1
        if own_count != self._own_count or readers != self._readers:
            raise InvariantError("blocks in use are not those that sequences hold")
        if min([self.free_count, *[h.own_count for h in self._holdings.values()]]) < 0:
            raise InvariantError(f"`{self.free_count}` blocks are free")
        if len(self._kept) > self.free_count or self._kept.keys() & self._readers.keys():
            raise InvariantError("blocks are kept that are not free")

    def _prefix_count(self, keys: Row[int], tokens: int) -> int:
        """The first so many blocks are there, and a token of the sequence is left beyond them."""
        if not keys:
            return 0
        count_max = min(len(keys), (tokens - 1) // self.block_tokens)
        for index in range(count_max):
            if keys[index] not in self._readers and keys[index] not in self._kept:
                return index
        return count_max

    def _hold(self, key: int) -> None:
        """One more reader of a block that is there."""
        self._kept.pop(key, None)
        self._readers[key] = self._readers.get(key, 0) + 1
