"""Several generating engines in one virtual time: alike, or some for prompts, some for answers.

**Colocated.** Every engine does all of a request. Each goes to the engine that has the fewest
tokens to care for, those that must still be computed counted twice; what an engine has of its
prefix already need not be.

**Disaggregated.** Some engines compute prompts, up to the first token; then keys and values go over
a link to one of the others, which generates the rest. A first token never waits for somebody else's
decoding, and no decoding for somebody else's prompt. What it costs: engines that stand still when
the mix of work is not theirs, and the way, bytes of a token times length, which the second token
waits for. Each engine that receives has a link of its own, and what comes to it is sent in order;
until it has room for it, it lies in the host's memory.

Knows engines and requests. Refuses to know how an engine decides.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from headway.generate import BlockPool, SequenceId, TierTerms
from headway.sim.generation import Generation, GenerationRequest, GenerationRun, SequenceSample
from headway.units import NS_PER_S

__all__ = ["FleetRun", "GenerationFleet", "HandOver", "HandedPool"]


class HandOver(Struct, frozen=True, kw_only=True):
    """The way of keys and values from an engine to another.

    Raises:
        ValueError: nothing to carry, or a link that carries nothing.
    """

    kv_bytes: int
    """Of a token."""
    bytes_per_s: float
    latency_ns: int = 0
    """Before the first byte."""

    def __post_init__(self) -> None:
        if self.kv_bytes < 1 or self.bytes_per_s <= 0.0 or self.latency_ns < 0:
            raise ValueError("tokens have bytes, and a link carries some")

    def copy_ns(self, tokens: int) -> int:
        """So many tokens' keys and values."""
        return self.latency_ns + round(tokens * self.kv_bytes * NS_PER_S / self.bytes_per_s)


class HandedPool(BlockPool):
    """Memory of an engine that is handed sequences: all but their last token is computed.

    One that is preempted and recomputed begins again with what is shared, as anywhere.
    """

    def __init__(self, blocks_total: int, block_tokens: int) -> None:
        super().__init__(blocks_total, block_tokens)
        self._handed: set[SequenceId] = set()

    def hand(self, sequence_id: SequenceId) -> None:
        """Keys and values of this one have been brought."""
        self._handed.add(sequence_id)

    def start(self, sequence_id: SequenceId, keys: Sequence[int], tokens: int) -> int:
        """See `KvAccount`."""
        shared_tokens = super().start(sequence_id, keys, tokens)
        if sequence_id not in self._handed:
            return shared_tokens
        self._handed.remove(sequence_id)
        return tokens - 1


class FleetRun(Struct, kw_only=True):
    """A run of all engines."""

    samples: list[SequenceSample]
    """In order of the requests."""
    makespan_ns: int
    engines: list[GenerationRun]
    """Each engine's own, those for prompts first."""
    handed: int = 0
    handed_tokens: int = 0
    link_busy_ns: int = 0


class GenerationFleet:
    """Plays requests at several engines.

    Args:
        engines: each with a scheduler of its own; of a disaggregated fleet those for prompts.
        receivers: those that generate what the others have begun; none where all do all. Their
            pools are `HandedPool`.
        hand_over: the way between the two.
    """

    def __init__(
        self,
        engines: Sequence[Generation],
        receivers: Sequence[Generation] = (),
        hand_over: HandOver | None = None,
    ) -> None:
        if not engines or bool(receivers) != (hand_over is not None):
            raise ValueError("a fleet has engines, and a way to those that receive")
        self._engines = list(engines)
        self._receivers = list(receivers)
        self._hand_over = hand_over
        self._requests: dict[SequenceId, GenerationRequest] = {}
        self._at: dict[SequenceId, Generation] = {}
        self._handed_at: dict[SequenceId, Generation] = {}
        self._handing: list[tuple[int, SequenceId]] = []
        """Heap: when its prompt was through, and which."""
        self._links_free_at_ns = dict.fromkeys(range(len(receivers)), 0)
        self._tokens = 0
        self._link_busy_ns = 0
        if receivers:
            for engine in self._engines:
                engine.on_end = self._prompt_through

    def run(self, requests: Iterable[GenerationRequest]) -> FleetRun:
        """All of them, to the end, in the order in which things happen."""
        arrivals = sorted(
            [(each.arrived_at_ns, number, each) for number, each in enumerate(requests, start=1)],
            reverse=True,
        )
        everybody = (*self._engines, *self._receivers)
        while True:
            times = [each.next_at_ns() for each in everybody]
            engine_at_ns = min([at_ns for at_ns in times if at_ns is not None], default=None)
            handing_at_ns = self._handing[0][0] if self._handing else None
            heads = [arrivals[-1][0] if arrivals else None, handing_at_ns, engine_at_ns]
            known = [at_ns for at_ns in heads if at_ns is not None]
            if not known:
                break
            at_ns = min(known)
            if heads[0] == at_ns:
                _, number, request = arrivals.pop()
                self._arrive(SequenceId(number), request)
            elif heads[1] == at_ns:
                self._hand(heappop(self._handing)[1], at_ns)
            else:
                everybody[times.index(at_ns)].advance(at_ns)
        return self._result()

    def _arrive(self, sequence_id: SequenceId, request: GenerationRequest) -> None:
        self._requests[sequence_id] = request
        engine = min(self._engines, key=lambda each: _tokens_at(each, request))
        self._at[sequence_id] = engine
        if self._receivers:
            request = replace(request, output_tokens=1, output_tokens_max=1)
        engine.submit(sequence_id, request)

    def _prompt_through(self, sequence_id: SequenceId, now_ns: int) -> None:
        request = self._requests[sequence_id]
        is_gone = request.cancelled_at_ns is not None and request.cancelled_at_ns <= now_ns
        if not is_gone and min(request.output_tokens, request.output_tokens_max) > 1:
            heappush(self._handing, (now_ns, sequence_id))

    def _hand(self, sequence_id: SequenceId, now_ns: int) -> None:
        """Send it on, to where it will be with the fewest tokens."""
        assert self._hand_over is not None
        request = self._requests[sequence_id]
        later = replace(
            request,
            terms=_later_terms(request.terms),
            prompt_tokens=request.prompt_tokens + 1,
            output_tokens=max(1, request.output_tokens - 1),
            output_tokens_max=request.output_tokens_max - 1,
        )
        index = min(
            range(len(self._receivers)), key=lambda at: _tokens_at(self._receivers[at], later)
        )
        receiver = self._receivers[index]
        pool = receiver.scheduler.roster.pool
        assert isinstance(pool, HandedPool)
        tokens = request.prompt_tokens - pool.prefix_tokens(
            request.prefix_keys, later.prompt_tokens
        )
        copy_ns = self._hand_over.copy_ns(max(0, tokens))
        arrived_at_ns = max(now_ns, self._links_free_at_ns[index]) + copy_ns
        self._links_free_at_ns[index] = arrived_at_ns
        self._tokens += max(0, tokens)
        self._link_busy_ns += copy_ns
        cancelled_at_ns = request.cancelled_at_ns
        if cancelled_at_ns is not None and cancelled_at_ns <= arrived_at_ns:
            return
        self._handed_at[sequence_id] = receiver
        pool.hand(sequence_id)
        receiver.submit(sequence_id, replace(later, arrived_at_ns=arrived_at_ns))

    def _result(self) -> FleetRun:
        runs = [engine.result() for engine in (*self._engines, *self._receivers)]
        return FleetRun(
            samples=[self._sample(number) for number in sorted(self._requests)],
            makespan_ns=max(run.makespan_ns for run in runs),
            engines=runs,
            handed=len(self._handed_at),
            handed_tokens=self._tokens,
            link_busy_ns=self._link_busy_ns,
        )

    def _sample(self, sequence_id: SequenceId) -> SequenceSample:
        """What its client saw of it, wherever it was."""
        first = self._at[sequence_id].sample(sequence_id)
        receiver = self._handed_at.get(sequence_id)
        request = self._requests[sequence_id]
        if receiver is None:
            wanted = min(request.output_tokens, request.output_tokens_max)
            ended_at_ns = first.ended_at_ns if first.tokens >= wanted else None
            return _with(first, request, ended_at_ns=ended_at_ns)
        rest = receiver.sample(sequence_id)
        gap_ns = 0
        if rest.first_token_at_ns is not None and first.first_token_at_ns is not None:
            gap_ns = rest.first_token_at_ns - first.first_token_at_ns
        return SequenceSample(
            request=request,
            first_token_at_ns=first.first_token_at_ns,
            ended_at_ns=rest.ended_at_ns,
            tokens=first.tokens + rest.tokens,
            preempts=first.preempts + rest.preempts,
            is_refused=first.is_refused or rest.is_refused,
            itl_ns_max=max(gap_ns, rest.itl_ns_max),
        )


def _with(
    sample: SequenceSample, request: GenerationRequest, *, ended_at_ns: int | None
) -> SequenceSample:
    return replace(sample, request=request, ended_at_ns=ended_at_ns)


def _tokens_at(engine: Generation, request: GenerationRequest) -> int:
    """What an engine would have to care for with this request, too."""
    roster = engine.scheduler.roster
    here = sum([each.known_tokens + each.remaining_tokens for each in roster.sequences.values()])
    shared = roster.pool.prefix_tokens(request.prefix_keys, request.prompt_tokens)
    return here + engine.expected_tokens + 2 * (request.prompt_tokens - shared)


def _later_terms(terms: TierTerms) -> TierTerms:
    """For who has had its first token: the next is due after its pace, and nobody turns it away."""
    return replace(terms, ttft_ns=terms.tpot_ns, refuses_unreachable=False)
