"""What a predictor is made from: plain values, as a journal's header holds them."""

from msgspec import Struct

from headway.predict.profile import ModelProfile

__all__ = ["Recipe"]


class Recipe(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a predictor is made from, so that a replay can make the same."""

    kind: str = "fixed"
    confidence: float = 0.95
    link_bytes_per_s: int = 12 << 30
    """For `windowed-pcie`: what the link to the devices carries."""
    profiles: tuple[ModelProfile, ...] = ()
    state: dict[str, object] = {}
    """What it had learnt before."""
    looks_per_s: int = 500
    """Forecasts a second for short and for long work each; beyond them the last is repeated."""
    trains_inline: bool = True
    """For `boosted`: fit as it learns. A live server fits in the background."""
