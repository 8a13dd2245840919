"""What a predictor is made from: plain values, as a journal's header holds them."""

from msgspec import Struct
from msgspec.structs import replace

from headway.predict.links import Direction, LinkShares, LinkTree
from headway.predict.profile import ModelProfile

__all__ = ["Recipe", "on_links"]


class Recipe(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a predictor is made from, so that a replay can make the same."""

    kind: str = "fixed"
    confidence: float = 0.95
    links: LinkTree | None = None
    """For `headway`: the paths to the devices, where they are known; without them transfers are
    taken to be what they usually were."""
    link_bytes_per_s: int = 12 << 30
    """For `windowed-pcie`: what the link to the devices carries."""
    ridge_flop_per_byte: float = 0.0
    """For `pairwise` and what stands on it: below this arithmetic intensity a model that was not
    probed is bound by memory; 0 where the device was not calibrated."""
    profiles: tuple[ModelProfile, ...] = ()
    state: dict[str, object] = {}
    """What it had learnt before."""
    has_classes: bool = True
    """Slots are told the class of their batch, so that the weights of classes count."""
    looks_per_s: int = 100
    """Forecasts a second for short and for long work each; beyond them the last is repeated."""
    trains_inline: bool = True
    """For `boosted`: fit as it learns. A live server fits in the background."""


def on_links(recipe: Recipe, tree: LinkTree) -> Recipe:
    """The same on a machine whose links are known.

    What they carry in all is the sum of the max-min fair rates while every device copies in.
    """
    shares = LinkShares(tree)
    busy = sum(1 << shares.engine(device, Direction.IN) for device in tree.devices)
    return replace(recipe, links=tree, link_bytes_per_s=round(sum(shares.rates(busy)) * 1e9))
