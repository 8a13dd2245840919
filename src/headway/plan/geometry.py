"""MIG geometry: which instances may exist together, where, and what it takes to change them.

Knows the grid of one product: an instance covers memory cells from one of its profile's starts on,
no two overlap, and there are fewer compute slices than cells. So it is the places and not the
counts that decide what else fits: on the seven-slice GPUs a `3g` at 0 leaves three places for a
`1g`, and one at 4 leaves four; two `3g` leave none, for between them they cover all eight cells.

A product comes from the table beside this file, or from a driver, by whoever can ask one: then it
is the driver's word that counts, for names and memory of profiles move with its version. Refuses to
know what the instances are for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from headway.errors import ConfigError

__all__ = [
    "Geometry",
    "GeometryChange",
    "MigProduct",
    "MigProfile",
    "MigToday",
    "Placement",
    "cheapest_change",
    "geometries",
    "geometries_beside",
    "maximal_geometries",
    "mig_product",
    "mig_products",
    "placed_beside",
    "placed_sets",
    "placement_problems",
    "placements_of",
    "places_beside",
    "remaining_geometries",
    "stranded_sm_count",
]

_NAME_TO_GIB_RATIO: Final = 0.88
"""Of the number in a profile's name: less than any that was seen, of which 16.0 GiB of `1g.18gb` is
the least. For profiles whose memory nobody has printed yet."""

Geometry = tuple[str, ...]
"""Names of profiles, the largest first: what exists, wherever it is."""


class MigProfile(Struct, frozen=True, kw_only=True):
    """A kind of instance of one product."""

    name: str
    compute_slices: int
    sm_count: int
    memory_bytes: int
    instances_max: int
    starts: tuple[int, ...]
    """Memory cells at which one may begin."""
    size: int
    """Memory cells that one covers."""
    media: str | None = None
    """What it takes of the video engines: None is the profile's share, `+me` all there is."""
    is_estimated: bool = False
    """Its memory or its multiprocessors were not seen anywhere, and are a careful guess."""


class MigProduct(Struct, frozen=True, kw_only=True):
    """A GPU that can be partitioned."""

    name: str
    memory_cells: int
    compute_slices: int
    sm_count: int | None
    """Outside MIG; None where it was not seen."""
    driver_min: str
    device_ids: tuple[str, ...]
    """PCI, as NVIDIA's tools write them: `0x20B210DE`."""
    profiles: tuple[MigProfile, ...]
    verified: tuple[tuple[str, str], ...] = ()
    """What the figures rest on, by kind of figure."""

    def profile(self, name: str) -> MigProfile:
        """One of its profiles.

        Raises:
            ConfigError: it has none of that name.
        """
        for profile in self.profiles:
            if profile.name == name:
                return profile
        known = ", ".join(f"`{profile.name}`" for profile in self.profiles)
        raise ConfigError(
            f"`{self.name}` has no MIG profile `{name}`", value=name, hint=f"it has {known}"
        )

    @property
    def plain(self) -> tuple[MigProfile, ...]:
        """Without those that differ only in their video engines."""
        return tuple(profile for profile in self.profiles if profile.media is None)


class MigToday(Struct, frozen=True, kw_only=True):
    """A MIG instance that exists."""

    profile: str
    """As the driver names it, `3g.40gb`."""
    start: int
    """First memory cell that it covers."""
    is_busy: bool
    """Something runs in it that may not be stopped: it can be neither moved nor destroyed."""


class Placement(NamedTuple):
    """An instance: a kind, at a place."""

    profile: str
    start: int

    def __str__(self) -> str:
        """As `nvidia-smi mig -lgi` would have it in one word: `3g.40gb@4`."""
        return f"{self.profile}@{self.start}"


class GeometryChange(NamedTuple):
    """The way from the instances of today to others."""

    placed: tuple[Placement, ...]
    """What is there afterwards, by place."""
    kept: tuple[Placement, ...]
    """Of those, what is there today."""
    created: tuple[Placement, ...]
    destroyed: tuple[Placement, ...]
    """Each must be idle first; nothing else must."""


# --- what is legal --------------------------------------------------------------------------------


def placement_problems(product: MigProduct, placed: Sequence[Placement]) -> list[str]:
    """What keeps these instances from existing together, in words; nothing where they may."""
    problems = []
    covered: dict[int, Placement] = {}
    compute = 0
    full_media = [p for p in placed if (product.profile(p.profile).media or "").startswith("+me")]
    if len(full_media) > 1:
        problems.append(f"{full_media[0]} and {full_media[1]} both take the video engines")
    for name, count in Counter(p.profile for p in placed).items():
        count_max = product.profile(name).instances_max
        if count > count_max:
            problems.append(f"{count} instances of {name}, of which there may be {count_max}")
    for place in placed:
        profile = product.profile(place.profile)
        compute += profile.compute_slices
        if place.start not in profile.starts:
            starts = ", ".join(map(str, profile.starts))
            problems.append(f"{place} cannot begin there, only at {starts}")
        for cell in range(place.start, place.start + profile.size):
            if cell in covered:
                problems.append(f"{covered[cell]} and {place} both cover cell {cell}")
                break
            covered[cell] = place
    if compute > product.compute_slices:
        problems.append(f"{compute} compute slices, of which there are {product.compute_slices}")
    return problems


@cache
def places_beside(
    product: MigProduct, profile: str, placed: frozenset[Placement]
) -> tuple[Placement, ...]:
    """Where an instance of a profile may be made beside others, in ascending order."""
    places = (Placement(profile, start) for start in product.profile(profile).starts)
    return tuple(p for p in places if not placement_problems(product, [*placed, p]))


@cache
def placed_sets(product: MigProduct) -> tuple[tuple[Placement, ...], ...]:
    """Every legal set of instances with their places, of plain profiles; the empty one, too."""
    found = list(_extended(product, (), 0, product.compute_slices))
    return tuple(sorted(found, key=lambda placed: (len(placed), placed)))


def _extended(
    product: MigProduct, placed: tuple[Placement, ...], cell: int, compute: int
) -> Iterator[tuple[Placement, ...]]:
    """The set, and every set made of it by adding instances from a cell on."""
    yield placed
    for start in range(cell, product.memory_cells):
        for profile in product.plain:
            count = sum(place.profile == profile.name for place in placed)
            if (
                start in profile.starts
                and profile.compute_slices <= compute
                and count < profile.instances_max
            ):
                more = (*placed, Placement(profile.name, start))
                left = compute - profile.compute_slices
                yield from _extended(product, more, start + profile.size, left)


@cache
def geometries(product: MigProduct) -> tuple[Geometry, ...]:
    """Every legal set of instances, wherever they are; without the empty one."""
    found = {_geometry(product, placed) for placed in placed_sets(product) if placed}
    return tuple(sorted(found, key=lambda names: (len(names), names)))


@cache
def maximal_geometries(product: MigProduct) -> tuple[Geometry, ...]:
    """Those to which nothing can be added, wherever their instances are put."""
    every = geometries(product)
    counted = [Counter(names) for names in every]
    return tuple(
        names
        for names, count in zip(every, counted, strict=True)
        if not any(count < other for other in counted)
    )


@cache
def placements_of(product: MigProduct, names: Geometry) -> tuple[tuple[Placement, ...], ...]:
    """Every way to place such instances."""
    wanted = sorted(names)
    return tuple(
        placed
        for placed in placed_sets(product)
        if len(placed) == len(wanted) and sorted(place.profile for place in placed) == wanted
    )


@cache
def remaining_geometries(product: MigProduct, placed: frozenset[Placement]) -> int:
    """How many different sets of instances could still be added: what is left to choose from.

    The measure by which a place is a good one: whoever takes the place that leaves most of them
    fragments least.
    """
    return len(_addable(product, placed))


@cache
def geometries_beside(product: MigProduct, placed: frozenset[Placement]) -> tuple[Geometry, ...]:
    """The largest sets of instances that could be added to others, wherever there is room."""
    every = sorted(_addable(product, placed), key=lambda names: (len(names), names))
    counted = [Counter(names) for names in every]
    return tuple(
        names
        for names, count in zip(every, counted, strict=True)
        if names and not any(count < other for other in counted)
    )


def _addable(product: MigProduct, placed: frozenset[Placement]) -> set[Geometry]:
    """Sets that could be added, the empty one included."""
    cells = {
        cell
        for place in placed
        for cell in range(place.start, place.start + product.profile(place.profile).size)
    }
    used = Counter(place.profile for place in placed)
    compute = product.compute_slices - sum(
        product.profile(place.profile).compute_slices for place in placed
    )
    found = set()
    for added in placed_sets(product):
        profiles = [product.profile(place.profile) for place in added]
        is_free = all(
            cell not in cells
            for place, profile in zip(added, profiles, strict=True)
            for cell in range(place.start, place.start + profile.size)
        )
        if is_free and sum(profile.compute_slices for profile in profiles) <= compute:
            counts = Counter(profile.name for profile in profiles)
            limits = {profile.name: profile.instances_max for profile in profiles}
            if all(used[name] + count <= limits[name] for name, count in counts.items()):
                found.add(_geometry(product, added))
    return found


def stranded_sm_count(product: MigProduct, sm_count: int, placed: frozenset[Placement]) -> int:
    """Multiprocessors that no instance can have, whatever is added: the price of this cut.

    Args:
        product: of the device.
        sm_count: of the device outside MIG.
        placed: instances.
    """
    return max(0, sm_count - _reachable_sm_count(product, placed))


@cache
def _reachable_sm_count(product: MigProduct, placed: frozenset[Placement]) -> int:
    return max(
        sum(product.profile(place.profile).sm_count for place in every)
        for every in placed_sets(product)
        if placed <= set(every)
    )


def _geometry(product: MigProduct, placed: Sequence[Placement]) -> Geometry:
    def rank(name: str) -> tuple[int, int, str]:
        profile = product.profile(name)
        return -profile.compute_slices, -profile.size, name

    return tuple(sorted((place.profile for place in placed), key=rank))


# --- from today to tomorrow -----------------------------------------------------------------------


def cheapest_change(
    product: MigProduct, today: Sequence[MigToday], wanted: Geometry
) -> GeometryChange | None:
    """The way to have these instances beside the busy ones that disturbs the fewest of today's.

    A busy instance stays where it is, for none can be moved and only an idle one destroyed. Of
    equal ways the one that leaves most to choose from; idle instances that are not in the way stay.

    Returns:
        None where busy instances leave no room.
    """
    here = {Placement(instance.profile, instance.start) for instance in today}
    busy = {Placement(i.profile, i.start) for i in today if i.is_busy}
    best: tuple[tuple[int, int], frozenset[Placement]] | None = None
    for placed in placements_of(product, wanted):
        new = frozenset(placed)
        if new & busy or placement_problems(product, sorted(new | busy)):
            continue
        score = (len(new & here), remaining_geometries(product, new | busy))
        if best is None or score > best[0]:
            best = (score, new | busy)
    if best is None:
        return None
    after = set(best[1])
    for place in sorted(here - after):
        if not placement_problems(product, sorted(after | {place})):
            after.add(place)
    by_place = sorted(after, key=lambda place: place.start)
    return GeometryChange(
        placed=tuple(by_place),
        kept=tuple(place for place in by_place if place in here),
        created=tuple(place for place in by_place if place not in here),
        destroyed=tuple(sorted(here - after, key=lambda place: place.start)),
    )


def placed_beside(
    product: MigProduct, wanted: Geometry, busy: frozenset[Placement]
) -> tuple[Placement, ...] | None:
    """Places for instances beside busy ones, those that leave most to choose from; None where none.

    There is nothing else to be kept.
    """
    today = [MigToday(profile=name, start=start, is_busy=True) for name, start in sorted(busy)]
    change = cheapest_change(product, today, tuple(sorted(wanted)))
    return None if change is None else tuple(p for p in change.placed if p not in busy)


# --- the table ------------------------------------------------------------------------------------


def mig_products() -> tuple[str, ...]:
    """The products of the table."""
    return tuple(_table())


def mig_product(name: str) -> MigProduct:
    """A product of the table.

    Raises:
        ConfigError: it is not there.
    """
    table = _table()
    if name not in table:
        raise ConfigError(
            f"there is no GPU `{name}` in the MIG table",
            value=name,
            hint=f"it has {', '.join(f'`{known}`' for known in table)}",
        )
    return table[name]


@cache
def _table() -> Mapping[str, MigProduct]:
    text = (files("headway.plan") / "mig_profiles.json").read_bytes()
    return {
        name: _product(name, plain) for name, plain in msgspec.json.decode(text)["gpus"].items()
    }


def _product(name: str, plain: Mapping[str, Any]) -> MigProduct:
    sm_of_one = next(p["sm"] for p in plain["profiles"] if p["compute_slices"] == 1)
    return MigProduct(
        name=name,
        memory_cells=plain["memory_grid"],
        compute_slices=plain["compute_slices"],
        sm_count=plain["full_gpu_sm"],
        driver_min=plain["min_driver"],
        device_ids=tuple(plain["pci_device_ids"]),
        profiles=tuple(_profile(profile, sm_of_one) for profile in plain["profiles"]),
        verified=tuple(plain["verified"].items()),
    )


def _profile(plain: Mapping[str, Any], sm_of_one: int) -> MigProfile:
    memory_gib, sm_count = plain["memory_gib"], plain["sm"]
    named_gib = float(plain["name"].partition(".")[2].partition("gb")[0])
    return MigProfile(
        name=plain["name"],
        compute_slices=plain["compute_slices"],
        sm_count=plain["compute_slices"] * sm_of_one if sm_count is None else sm_count,
        memory_bytes=int((memory_gib or named_gib * _NAME_TO_GIB_RATIO) * (1 << 30)),
        instances_max=plain["max_instances"],
        starts=tuple(plain["placement_starts"]),
        size=plain["placement_size"],
        media=plain["media"],
        is_estimated=memory_gib is None or sm_count is None,
    )
