"""`vtc`: virtual token counters, the published fair scheduler, to be compared with.

Sheng et al., Fairness in Serving Large Language Models, OSDI 2024. Each client has a counter of
what it has been served: `input_weight` for each prompt token when a request begins, `output_weight`
for each token as it is generated, over the client's weight. A slot goes to the client with the
smallest counter. A client that comes back after it had nothing waiting is lifted to the smallest
counter of those who wait, or to that of the client that left last where nobody does: time that was
not used is not saved up. Nothing is preempted for fairness' sake.

Two clients that both have something waiting all along differ by at most 2 max(w_in L, w_out M) in
service, L being the longest prompt and M the tokens that the memory has room for.
"""

from collections import deque
from collections.abc import Mapping

from headway.core import TenantId
from headway.generate.sequence import Sequence

__all__ = ["VtcOrder"]


class VtcOrder:
    """The client with the smallest counter goes first; inside a client, arrival.

    Args:
        input_weight: of a token of prompt.
        output_weight: of a generated token.
        weights: of clients; those not named have 1.
    """

    name = "vtc"

    def __init__(
        self,
        input_weight: float = 1.0,
        output_weight: float = 2.0,
        weights: Mapping[TenantId, float] | None = None,
    ) -> None:
        self._input_weight = input_weight
        self._output_weight = output_weight
        self._weights = weights or {}
        self._waiting: dict[TenantId, deque[Sequence]] = {}
        self._counters: dict[TenantId, float] = {}
        self._left_last: TenantId | None = None

    def counter(self, tag: TenantId) -> float:
        """What a client has been served, with what it was lifted by."""
        return self._counters.get(tag, 0.0)

    def add(self, sequence: Sequence) -> None:
        """A client that had nothing waiting is lifted."""
        waiting = self._waiting.get(sequence.tag)
        if waiting is None:
            self._lift(sequence.tag)
            waiting = self._waiting[sequence.tag] = deque()
        if sequence.preempted_at_ns is None:
            waiting.append(sequence)
        else:
            waiting.appendleft(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Nearly always the first of its client."""
        waiting = self._waiting[sequence.tag]
        waiting.remove(sequence)
        if not waiting:
            del self._waiting[sequence.tag]
            self._left_last = sequence.tag

    def peek(self) -> Sequence | None:
        """The first of the client that was served least."""
        if not self._waiting:
            return None
        tag = min(self._waiting, key=lambda each: (self._counters[each], each))
        return self._waiting[tag][0]

    def victim(self, running: list[Sequence]) -> Sequence:
        """The one that began last, as in the engine that it was published on."""
        return running[-1]

    def served(self, sequence: Sequence, input_tokens: int, output_tokens: int) -> None:
        """Charge a client."""
        units = self._input_weight * input_tokens + self._output_weight * output_tokens
        self._counters[sequence.tag] += units / self._weights.get(sequence.tag, 1.0)

    def ended(self, sequence: Sequence) -> None:
        """What was generated is charged already."""

    def _lift(self, tag: TenantId) -> None:
        counter = self._counters.get(tag, 0.0)
        if self._waiting:
            counter = max(counter, min([self._counters[each] for each in self._waiting]))
        elif self._left_last is not None:
            counter = max(counter, self._counters[self._left_last])
        self._counters[tag] = counter
