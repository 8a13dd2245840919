"""Token-by-token models that the built-in engine runs: the section `generators`.

Knows what may be written. Refuses to know what a step does.
"""

from typing import Annotated

from pydantic import Field

from headway.config.quantities import PositiveDuration, PositiveSize, Size
from headway.config.section import Count, Name, PathName, Section, Whole
from headway.units import NS_PER_S

__all__ = ["GeneratorConfig", "GeneratorTierConfig"]

Niceness = Annotated[int, Field(ge=-20, le=19, strict=True)]


class GeneratorTierConfig(Section):
    """What a tier promises the answers of a generator, beside the budget of the whole."""

    ttft: PositiveDuration | None = None
    """Target from arrival to the first token."""
    tpot: PositiveDuration | None = None
    """Target for each token after the first, on average."""
    gated: bool = False
    """New answers wait while much of the memory for keys and values is in use, and until what runs
    is foreseen to leave room."""
    refuse_unreachable: bool = False
    """Refuse a prompt that takes longer than `ttft` even alone; else it has its first token as soon
    as it can be."""


class GeneratorConfig(Section):
    """A token-by-token model."""

    name: PathName
    """Under which clients ask for it."""
    path: str = Field(min_length=1)
    """The folder that `headway generate convert` wrote. Relative paths start at this file's
    folder."""
    tier: Name | None = None
    """Tier of requests that name none; without it the tier called `default`, else the first."""
    tiers: dict[Name, GeneratorTierConfig] = Field(default_factory=dict)
    """What tiers promise here; one that is not named promises its budget alone."""
    context: Count = 2_048
    """Tokens of prompt and answer together, at most; the model's own limit where that is less."""
    answer_tokens_max: Count = 1_024
    """Tokens of an answer, at most, whatever its client asks for."""
    kv_cache: PositiveSize = 256 << 20
    """Memory for keys and values of the answers that are being written."""
    kv_host: Size = 256 << 20
    """Memory for those of answers that make room for more important ones; 0 computes them again."""
    sequences_max: int = Field(default=16, ge=1, le=256, strict=True)
    """Answers in one step; more may be under way, and take turns."""
    step_tokens_max: Count = 512
    """Tokens of one step: of prompts, and one for each answer in it."""
    waiting_max: Count = 1_024
    """Answers that may wait to begin; further ones are refused."""
    threads: int = Field(default=1, ge=1, le=256, strict=True)
    """Threads of one step. They share the cores with whatever else runs."""
    niceness: Niceness = 5
    """How far the worker stands back; as `niceness.high` of a device."""
    step_max: PositiveDuration = 60 * NS_PER_S
    """A step that takes longer is taken for hung, and the worker is replaced."""
    load_max: PositiveDuration = 300 * NS_PER_S
    """How long loading may take."""
    seed: Whole | None = None
    """Of the chance of answers whose clients give no seed; without it the system's own."""
