"""What a step scheduler is built from: the engine's limits, and what can be tuned."""

from msgspec import Struct, field

from headway.generate.aging import AgingSettings
from headway.generate.credits import CreditSettings
from headway.generate.step_times import StepLaw
from headway.generate.swap import CopyLaw, SwapSettings
from headway.generate.victims import VictimSettings
from headway.generate.watermark import WatermarkSettings

__all__ = ["EngineLimits", "StepSettings"]


class EngineLimits(Struct, frozen=True, kw_only=True):
    """What the engine can do, and takes for it as far as is known before the first step."""

    blocks: int
    """Of memory for keys and values."""
    block_tokens: int = 16
    sequences_max: int = 256
    """In one step."""
    step_tokens_max: int = 2_048
    """In one step, prompt tokens and decoding sequences together."""
    waiting_max: int = 4_096
    """Sequences that wait; one more is refused."""
    law: StepLaw = field(default_factory=StepLaw)
    copies: CopyLaw = field(default_factory=CopyLaw)

    def __post_init__(self) -> None:
        if min(self.blocks, self.block_tokens, self.sequences_max, self.waiting_max) < 1:
            raise ValueError("an engine has blocks, and takes a sequence")
        if self.step_tokens_max < self.sequences_max:
            raise ValueError("a step has a token for each sequence at least")

    @property
    def kv_tokens(self) -> int:
        """Tokens that there is memory for."""
        return self.blocks * self.block_tokens


class StepSettings(Struct, frozen=True, kw_only=True):
    """How the scheduler decides."""

    credits: CreditSettings = field(default_factory=CreditSettings)
    watermark: WatermarkSettings = field(default_factory=WatermarkSettings)
    victims: VictimSettings = field(default_factory=VictimSettings)
    swap: SwapSettings = field(default_factory=SwapSettings)
    aging: AgingSettings = field(default_factory=AgingSettings)
    output_level: float = 0.6
    """Of the quantile by which the length of an answer is foreseen."""
    haste_ratio: float = 0.25
    """Part of the time to its target that a prompt is planned to be through in."""
    step_ratio: float = 0.5
    """Part of the tightest target for first tokens that a step may last at most."""
    chunk_tokens_min: int = 32
    """Prompt tokens that a step has room for, even where decoding is late."""
    long_tokens: int = 8_192
    """Prompt and foreseen output from which a sequence goes by the lane of the long ones."""
    long_ratio: float = 0.5
    """Of a step's prompt tokens that the long lane has while both have something to do."""
    long_part_max: float = 0.25
    """Of all prompts so far; where more than that are long they have no lane of their own. 1 for a
    lane whatever comes."""
    learns: bool = True
    """Fit the laws of steps and copies while it runs; else they stay as the engine's limits say."""

    def __post_init__(self) -> None:
        if self.step_ratio <= 0.0:
            raise ValueError("a step must last")
        if not 0.0 < self.haste_ratio <= 1.0 or not 0.0 < self.long_ratio < 1.0:
            raise ValueError("haste and the long lane's part lie between 0 and 1")
        if self.chunk_tokens_min < 1 or self.long_tokens < 1:
            raise ValueError("a chunk, and what is long, have a token at least")
