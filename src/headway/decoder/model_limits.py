"""What the engine may use of a machine: numbers, for whoever configures it without running it."""

from msgspec import Struct

from headway.errors import LoadError

__all__ = ["DecoderLimits"]


class DecoderLimits(Struct, frozen=True, kw_only=True):
    """What the engine may use.

    Raises:
        LoadError: limits that leave room for no sequence.
    """

    kv_bytes: int = 256 << 20
    """For keys and values of all sequences that run or pause."""
    host_bytes: int = 256 << 20
    """For those of sequences that were swapped out."""
    context: int = 2_048
    """Tokens of prompt and answer together, at most; the model's own limit where that is less."""
    sequences_max: int = 16
    """In a step."""
    step_tokens_max: int = 512
    waiting_max: int = 1_024
    block_tokens: int = 16
    threads: int = 1
    """Inside an operator."""

    def __post_init__(self) -> None:
        if min(self.context, self.sequences_max, self.block_tokens, self.threads) < 1:
            raise LoadError("an engine has a context, a sequence, and a thread at least")
        if self.step_tokens_max < self.sequences_max:
            raise LoadError(
                f"a step of `{self.step_tokens_max}` tokens has none for each of "
                f"`{self.sequences_max}` sequences",
                hint="raise step_tokens_max or lower sequences_max",
            )
