"""A loaded model: its tokens, its memory, what runs it, and what its steps take.

Knows files, arrays and, when it measures, a clock that it is handed. Refuses to know sequences.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from headway.decoder.card import Card, read_card
from headway.decoder.model_limits import DecoderLimits
from headway.decoder.rows import KvRows
from headway.decoder.session import DecoderSession
from headway.decoder.tokenizer import Tokenizer
from headway.errors import LoadError
from headway.generate import EngineLimits, StepLaw

__all__ = ["DecoderModel"]

_ROWS_EACH: Final = 4
"""Sequences that may hold memory for each that a step takes; the others pause."""
_MEASURED_ROWS: Final = 4
_MEASURED_TOKENS: Final = (32, 128)
_REPEATS: Final = 3


class DecoderModel:
    """Loaded from a folder.

    Args:
        folder: with a card, a graph and weights.
        limits: what it may use.

    Raises:
        LoadError: it cannot be loaded, or not within these limits.
    """

    def __init__(self, folder: Path, limits: DecoderLimits) -> None:
        self.card: Card = read_card(folder)
        self.limits = limits
        self.tokenizer = Tokenizer(self.card.vocabulary)
        self.context = min(limits.context, self.card.shape.context)
        blocks = self.blocks
        if blocks * limits.block_tokens < self.context:
            raise LoadError(
                f"`{limits.kv_bytes}` bytes hold the keys and values of "
                f"`{blocks * limits.block_tokens}` tokens, and one sequence may have "
                f"`{self.context}`",
                hint=f"a token takes {self.card.shape.kv_token_bytes} bytes; "
                "give more memory, or a smaller context",
            )
        self.rows = KvRows(
            self.card.shape, min(_ROWS_EACH * limits.sequences_max, blocks), self.context
        )
        self.session = DecoderSession(folder, self.card, self.rows, limits.threads)

    @property
    def blocks(self) -> int:
        """Blocks of keys and values that there is memory for."""
        return self.limits.kv_bytes // (self.limits.block_tokens * self.card.shape.kv_token_bytes)

    @property
    def host_tokens(self) -> int:
        """Tokens that may be swapped out at a time."""
        return self.limits.host_bytes // self.card.shape.kv_token_bytes

    def engine_limits(self, law: StepLaw) -> EngineLimits:
        """As the step scheduler knows them."""
        limits = self.limits
        return EngineLimits(
            blocks=self.blocks,
            block_tokens=limits.block_tokens,
            sequences_max=limits.sequences_max,
            step_tokens_max=limits.step_tokens_max,
            waiting_max=limits.waiting_max,
            law=law,
        )

    def measure(self, now_ns: Callable[[], int]) -> StepLaw:
        """What steps take here, from a few of them: to begin with, as it is learned while it runs.

        Only before the first sequence: it writes into rows.
        """
        rows = min(_MEASURED_ROWS, self.rows.rows)
        short, long = [min(tokens, self.context) for tokens in _MEASURED_TOKENS]

        def fastest(run: Callable[[], object]) -> int:
            times = []
            for _ in range(_REPEATS + 1):
                began_at_ns = now_ns()
                run()
                times.append(now_ns() - began_at_ns)
            return min(times[1:])

        one_ns = fastest(lambda: self.session.step_rows(0, [0], [0]))
        rows_ns = fastest(lambda: self.session.step_rows(0, [0] * rows, [0] * rows))
        short_ns = fastest(lambda: self.session.prefill(0, [0] * short, 0))
        long_ns = fastest(lambda: self.session.prefill(0, [0] * long, 0))
        for row in range(rows):
            self.rows.give_back(row)
        row_ns = max(0.0, (rows_ns - one_ns) / max(1, rows - 1))
        token_ns = max(1.0, (long_ns - short_ns) / max(1, long - short))
        return StepLaw(
            base_ns=max(1.0, one_ns - row_ns),
            prefill_ns=token_ns,
            decode_ns=max(0.0, row_ns - token_ns),
            context_ns=0.0,
            free_tokens=0,
        )
