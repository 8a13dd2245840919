"""Who is in the engine: the sequences, the blocks they hold, and how a step moves them on.

Every step scheduler here keeps its sequences in one of these, so that phases, blocks and counts are
treated alike by all, and a policy is only what differs: who goes next, with how much.

Invariants: a resident sequence holds blocks with room for all that is computed of it; what has
ended holds nothing.
"""

from collections.abc import Iterable

from headway.errors import InvariantError
from headway.generate.blocks import KvAccount
from headway.generate.draft import Draft
from headway.generate.events import Load, Preempted, PreemptWay
from headway.generate.names import Phase, PhaseStep, SequenceId
from headway.generate.sequence import Sequence

__all__ = ["Roster"]


class Roster:
    """All sequences that have not ended."""

    def __init__(self, pool: KvAccount) -> None:
        self.pool = pool
        self.sequences: dict[SequenceId, Sequence] = {}
        self.decoding: dict[SequenceId, Sequence] = {}
        self.prefilling: dict[SequenceId, Sequence] = {}
        self.loading: dict[SequenceId, Sequence] = {}
        self._orphans: set[SequenceId] = set()
        """Ended while their copy was under way, which writes into their blocks until it is done."""
        self.preempt_counts = dict.fromkeys(PreemptWay, 0)

    def add(self, sequence: Sequence) -> None:
        """A sequence waits.

        Raises:
            InvariantError: there is one of that number.
        """
        if sequence.sequence_id in self.sequences or sequence.sequence_id in self._orphans:
            raise InvariantError(f"sequence `{sequence.sequence_id}` arrived twice")
        self.sequences[sequence.sequence_id] = sequence

    def start(self, sequence: Sequence, room_tokens: int) -> bool:
        """Begin, or begin again, with room for so many tokens; False where there is no room."""
        pool, keys = self.pool, sequence.params.prefix_keys
        sequence_id = sequence.sequence_id
        if pool.blocks_to_start(keys, sequence.known_tokens, room_tokens) > pool.free_count:
            return False
        prefix_tokens = pool.start(sequence_id, keys, sequence.known_tokens)
        has_room = pool.grow(sequence_id, room_tokens)
        assert has_room
        sequence.become(PhaseStep.START)
        sequence.computed_tokens = prefix_tokens
        sequence.room_tokens = pool.room_tokens(sequence_id)
        sequence.preempted_at_ns = None
        sequence.ran_steps = 0
        self.prefilling[sequence_id] = sequence
        return True

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Have room for so many tokens."""
        if tokens <= sequence.room_tokens:
            return True
        if not self.pool.grow(sequence.sequence_id, tokens):
            return False
        sequence.room_tokens = self.pool.room_tokens(sequence.sequence_id)
        return True

    def preempt(
        self,
        sequence: Sequence,
        way: PreemptWay,
        draft: Draft,
        now_ns: int,
        *,
        kept_tokens: int = 0,
    ) -> None:
        """Stop a resident sequence; where it is swapped, all but what others hold is copied."""
        assert sequence.is_resident
        draft.leave(sequence)
        self._leave(sequence)
        self.pool.release(sequence.sequence_id)
        sequence.room_tokens = 0
        sequence.preempt_count += 1
        sequence.preempted_at_ns = sequence.waits_since_ns = now_ns
        self.preempt_counts[way] += 1
        if way is PreemptWay.SWAP:
            sequence.become(PhaseStep.SWAP_OUT)
            sequence.host_start = kept_tokens
            sequence.host_tokens = sequence.computed_tokens - kept_tokens
            tokens = sequence.host_tokens
        else:
            sequence.become(PhaseStep.DROP)
            tokens = sequence.computed_tokens
            sequence.computed_tokens = 0
        draft.preempted.append(Preempted(sequence.sequence_id, way, tokens))

    def lose(self, sequence: Sequence, now_ns: int) -> None:
        """A resident sequence holds nothing any more, through no decision of ours."""
        assert sequence.is_resident
        self._leave(sequence)
        self.pool.release(sequence.sequence_id)
        sequence.become(PhaseStep.DROP)
        sequence.computed_tokens = sequence.room_tokens = 0
        sequence.preempted_at_ns = sequence.waits_since_ns = now_ns

    def load(self, sequence: Sequence, room_tokens: int, draft: Draft) -> None:
        """Set blocks aside for a swapped sequence and have it brought back; there must be room."""
        pool, sequence_id = self.pool, sequence.sequence_id
        pool.start(sequence_id, sequence.params.prefix_keys, sequence.known_tokens)
        has_room = pool.grow(sequence_id, room_tokens)
        assert has_room
        sequence.become(PhaseStep.LOAD)
        sequence.room_tokens = pool.room_tokens(sequence_id)
        self.loading[sequence_id] = sequence
        draft.loads.append(Load(sequence_id, sequence.host_tokens))

    def loaded(self, sequence_id: SequenceId) -> Sequence | None:
        """Its keys and values are back: it goes on; None where it ended meanwhile."""
        if sequence_id in self._orphans:
            self._orphans.remove(sequence_id)
            self.pool.release(sequence_id)
            return None
        sequence = self.loading.pop(sequence_id, None)
        if sequence is None:
            return None
        sequence.become(PhaseStep.LOADED)
        sequence.host_start = sequence.host_tokens = 0
        sequence.preempted_at_ns = None
        sequence.ran_steps = 0
        if sequence.remaining_tokens == 1:
            sequence.become(PhaseStep.PREFILLED)
            self.decoding[sequence_id] = sequence
        else:
            self.prefilling[sequence_id] = sequence
        return sequence

    def forget_host(self, sequence: Sequence) -> None:
        """What the host has of a swapped sequence is of no use any more: it will be recomputed."""
        sequence.become(PhaseStep.DROP)
        sequence.host_start = sequence.host_tokens = sequence.computed_tokens = 0

    def end(self, sequence: Sequence) -> None:
        """It is over; what it held is free, once nothing writes into it."""
        if sequence.phase is Phase.LOADING:
            self._orphans.add(sequence.sequence_id)
        else:
            self.pool.release(sequence.sequence_id)
        self._leave(sequence)
        sequence.become(PhaseStep.END)
        del self.sequences[sequence.sequence_id]

    def advance(self, draft: Draft, now_ns: int) -> list[Sequence]:
        """A step was run: those in it are further; returns those that have a new token."""
        yielded = []
        for sequence in draft.decodes.values():
            if sequence.phase is not Phase.DECODE:
                continue
            sequence.computed_tokens = sequence.known_tokens
            sequence.known_tokens += 1
            sequence.generated += 1
            sequence.ran_steps += 1
            sequence.waits_since_ns = now_ns
            if sequence.first_token_at_ns is None:
                # Swapped out with one token of its prompt to go: that step was a decode of one.
                sequence.first_token_at_ns = now_ns
            yielded.append(sequence)
        for sequence, tokens in draft.chunks.values():
            if sequence.phase is not Phase.PREFILL:
                continue
            sequence.computed_tokens += tokens
            sequence.ran_steps += 1
            sequence.waits_since_ns = now_ns
            if sequence.params.prefix_keys:
                self.pool.filled(sequence.sequence_id, sequence.computed_tokens)
            if sequence.remaining_tokens > 0:
                continue
            sequence.become(PhaseStep.PREFILLED)
            del self.prefilling[sequence.sequence_id]
            self.decoding[sequence.sequence_id] = sequence
            sequence.known_tokens += 1
            sequence.generated += 1
            if sequence.first_token_at_ns is None:
                sequence.first_token_at_ns = now_ns
            yielded.append(sequence)
        return yielded

    def check(self) -> None:
        """Demand the invariants.

        Raises:
            InvariantError: one does not hold.
        """
        self.pool.check()
        for sequence in self.sequences.values():
            if sequence.computed_tokens > sequence.known_tokens:
                raise InvariantError(f"sequence `{sequence.sequence_id}` is ahead of itself")
            if sequence.is_resident and sequence.computed_tokens > sequence.room_tokens:
                raise InvariantError(f"sequence `{sequence.sequence_id}` has no room for itself")
        homes = (self.decoding, self.prefilling, self.loading)
        _demand_homes(self.sequences.values(), homes)

    def _leave(self, sequence: Sequence) -> None:
        for home in (self.decoding, self.prefilling, self.loading):
            home.pop(sequence.sequence_id, None)


def _demand_homes(
    sequences: Iterable[Sequence], homes: tuple[dict[SequenceId, Sequence], ...]
) -> None:
    """Each sequence stands where its phase says."""
    phases = (Phase.DECODE, Phase.PREFILL, Phase.LOADING)
    count = 0
    for sequence in sequences:
        for phase, home in zip(phases, homes, strict=True):
            if (sequence.sequence_id in home) != (sequence.phase is phase):
                raise InvariantError(f"sequence `{sequence.sequence_id}` stands in a wrong place")
        count += sequence.phase in phases
    if count != sum([len(home) for home in homes]):
        raise InvariantError("somebody stands in the engine who has ended")
