"""A machine's GPUs as the file of `headway plan` has them, with how each is cut today.

A GPU is found in the MIG table by what its driver says of its profiles, for marketing names differ
between boards. Where the driver's word and the table's differ it is told: the plan goes by the
table, and `apply` by the driver. Knows readings and the table. Asks no driver itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headway.devices import MigGpu, MigInstance
from headway.plan import MigProduct, mig_product, mig_products

__all__ = ["FleetToday", "fleet_today"]

_MIB: Final = 1 << 20
_BRAND: Final = re.compile(r"^(NVIDIA|Tesla|GeForce|Quadro)\s+", re.IGNORECASE)


class FleetToday(NamedTuple):
    """One node for the file, and what a person has to add or to look at."""

    node: dict[str, Any]
    notes: tuple[str, ...]


def fleet_today(name: str, gpus: Sequence[MigGpu]) -> FleetToday:
    """The entry of a node.

    Args:
        name: of the node.
        gpus: all of them, in the driver's order.
    """
    notes: list[str] = []
    devices = []
    for gpu in gpus:
        if gpu.trouble is not None:
            notes.append(f"GPU {gpu.index} does not answer and is left out: {gpu.trouble}")
            continue
        product, told = _product(gpu)
        notes += [f"GPU {gpu.index}: {words}" for words in told]
        devices.append(_device(gpu, product))
    if len(devices) > 1:
        notes.append(
            "NVLink and NUMA: `nvidia-smi topo -m > FILE`, and `topology: FILE` beside `devices`"
        )
    return FleetToday({"name": name, "devices": devices}, tuple(notes))


def _device(gpu: MigGpu, product: MigProduct | None) -> dict[str, Any]:
    name = _BRAND.sub("", gpu.name or "unknown").replace(" ", "-")
    found: dict[str, Any] = {"product": name if product is None else product.name}
    if gpu.uuid is not None:
        found["uuid"] = gpu.uuid
    if product is None and gpu.memory_bytes is not None:
        found["memory"] = f"{gpu.memory_bytes // _MIB}MiB"
    if gpu.has_mig:
        instances = [_instance(one) for one in gpu.instances or () if one.profile is not None]
        found["mig"] = {"instances": instances} if instances else {}
    return found


def _instance(one: MigInstance) -> dict[str, Any]:
    """Where nobody says who runs in it, someone may."""
    found: dict[str, Any] = {"profile": one.profile, "start": one.placement.start}
    if one.pids is None or one.pids:
        found["busy"] = True
    return found


def _product(gpu: MigGpu) -> tuple[MigProduct | None, list[str]]:
    """The product of the table that offers most of what this GPU offers, and what differs."""
    if not gpu.profiles:
        return None, ["it has no MIG; say how many `multiprocessors` it has"]
    offered = {one.name: one.sm_count for one in gpu.profiles}
    best = max(map(mig_product, mig_products()), key=lambda one: _shared(one, offered))
    if not _shared(best, offered):
        names = ", ".join(offered)
        return None, [f"it is not in the MIG table, and is planned whole; it offers {names}"]
    return best, list(_departures(best, gpu))


def _shared(product: MigProduct, offered: Mapping[str, int]) -> int:
    """Profiles with the same name and as many multiprocessors."""
    return sum(offered.get(one.name) == one.sm_count for one in product.profiles)


def _departures(product: MigProduct, gpu: MigGpu) -> Iterator[str]:
    """What this driver says of the GPU and the table does not."""
    known = {one.name: one for one in product.profiles}
    for one in gpu.profiles or ():
        expected = known.get(one.name)
        if expected is None:
            yield f"its driver offers `{one.name}`, which `{product.name}` has not in the table"
            continue
        if one.sm_count != expected.sm_count:
            words = f"{one.sm_count} multiprocessors, in the table {expected.sm_count}"
            yield f"`{one.name}` has {words}"
        places = None if one.placements is None else {(p.start, p.size) for p in one.placements}
        if places is not None and places != {(start, expected.size) for start in expected.starts}:
            yield f"`{one.name}` may begin at other places than in the table"
    for name in sorted(known.keys() - {one.name for one in gpu.profiles or ()}):
        yield f"its driver does not offer `{name}`: a plan with it cannot be applied"
