"""Fragmentation: memory of slices that is neither needed nor of use to anybody.

Knows a layout. Three models of 14 GB on slices of 20 GB need 42 of 60 GB, and if 14 GB is the least
that anybody needs, the 18 GB that are left are of use to nobody, though together they would hold a
fourth.
"""

from collections import defaultdict
from collections.abc import Iterator

from headway.plan.cuts import Cut
from headway.plan.drafts import SliceDraft
from headway.plan.greedy import Layout
from headway.plan.sharing import Waste
from headway.plan.terms import Terms

__all__ = ["waste_of"]


def waste_of(layout: Layout, terms: Terms) -> Iterator[Waste]:
    """By kind of slice, those in use."""
    by_cut: defaultdict[Cut, list[SliceDraft]] = defaultdict(list)
    for draft in layout.drafts:
        for into in draft.slices:
            if into.portions:
                by_cut[into.cut].append(into)
    for cut, slices in sorted(by_cut.items(), key=lambda item: str(item[0])):
        left = [0 if into.is_gang else cut.memory_bytes - into.memory_bytes for into in slices]
        needs = [own.memory_bytes for name in terms.models if (own := terms.get(name, cut))]
        least = min(needs, default=0)
        yield Waste(
            product=cut.product,
            profile=cut.profile,
            slices=len(slices),
            memory_bytes=cut.memory_bytes * len(slices),
            needed_bytes=sum(into.memory_bytes for into in slices),
            usable_bytes=sum(free for free in left if free >= least),
        )
