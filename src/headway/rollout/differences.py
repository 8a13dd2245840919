"""A node as it is today beside the plan, row by row.

Knows plans and readings of GPUs and daemons. Refuses to say what should be done: `proposal` does.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from headway.devices import MigGpu, MigInstance
from headway.plan import DeviceShare, PlacedSlice, SharingMode
from headway.rollout.mig_changes import made_of
from headway.rollout.mps_daemons import MpsDaemon, daemon_named, daemons_of
from headway.rollout.proposal import device_of, process_words, stays
from headway.rollout.servers import is_used
from headway.rollout.steps import DaemonToday

__all__ = ["Difference", "Standing", "differences"]


class Standing(StrEnum):
    """How today compares with the plan."""

    SAME = "as planned"
    MISSING = "missing"
    OTHER = "other than planned"
    UNPLANNED = "not in the plan"
    """Stays, where it is in nobody's way."""
    UNKNOWN = "not known"


class Difference(NamedTuple):
    """One thing of a node, planned or there."""

    where: str
    planned: str
    """Empty where the plan has nothing of it."""
    today: str
    standing: Standing


def differences(
    shares: Sequence[DeviceShare], gpus: Mapping[int, MigGpu], running: Sequence[DaemonToday]
) -> list[Difference]:
    """For one node: GPU by GPU, then daemons; GPUs that nobody is planned on are left out."""
    found: list[Difference] = []
    for share in filter(is_used, shares):
        gpu = gpus.get(share.index)
        where = f"GPU {share.index}"
        if gpu is None:
            found.append(Difference(where, share.product, "not there", Standing.MISSING))
        elif gpu.trouble is not None:
            found.append(Difference(where, share.product, gpu.trouble, Standing.UNKNOWN))
        else:
            found += _of_gpu(where, share, gpu)
    wanted = {daemon.name: daemon for daemon in daemons_of(shares)}
    used = {share.index for share in shares if is_used(share)}
    today = {one.name: one for one in running if daemon_named(one.name).index in used}
    for name in sorted(wanted.keys() | today.keys()):
        found.append(_of_daemon(name, wanted.get(name), today.get(name), gpus))
    return found


def _of_gpu(where: str, share: DeviceShare, gpu: MigGpu) -> Iterator[Difference]:
    is_mig = share.mode is SharingMode.MIG
    today = {None: "without MIG", False: "MIG off", True: "MIG on"}[gpu.has_mig]
    if gpu.will_have_mig is not None:
        today += f", {'on' if gpu.will_have_mig else 'off'} after a reset"
    is_so = bool(gpu.has_mig) is is_mig and gpu.will_have_mig in {None, is_mig}
    standing = Standing.SAME if is_so else Standing.OTHER
    yield Difference(where, "MIG on" if is_mig else "no MIG", today, standing)
    pieces = made_of(share) if is_mig else []
    for piece in sorted(pieces, key=lambda piece: piece.start or 0):
        yield _of_piece(where, piece, gpu)
    places = {(piece.profile, piece.start) for piece in pieces}
    for one in gpu.instances or ():
        if (one.profile, one.placement.start) not in places:
            name = f"{where}, cells {one.placement.start}:{one.placement.size}"
            yield Difference(name, "", _words(one), Standing.UNPLANNED)


def _of_piece(where: str, piece: PlacedSlice, gpu: MigGpu) -> Difference:
    name = f"{where}, cells {piece.start}:{piece.size}"
    planned = f"{piece.profile}: {', '.join(seat.model for seat in piece.seats) or 'spare'}"
    for one in gpu.instances or ():
        if (one.profile, one.placement.start) == (piece.profile, piece.start):
            standing = Standing.SAME if stays(one, [piece]) else Standing.OTHER
            return Difference(name, planned, _words(one), standing)
    is_told = gpu.instances is not None or gpu.has_mig is False
    return Difference(name, planned, "", Standing.MISSING if is_told else Standing.UNKNOWN)


def _words(instance: MigInstance) -> str:
    words = instance.profile or "an instance"
    if instance.uuids is not None and len(instance.uuids) != 1:
        words += f" in {len(instance.uuids)} parts"
    if instance.pids is None:
        return f"{words}, processes not known"
    return f"{words}, {process_words(instance.pids)}" if instance.pids else f"{words}, idle"


def _of_daemon(
    name: str,
    wanted: MpsDaemon | None,
    today: DaemonToday | None,
    gpus: Mapping[int, MigGpu],
) -> Difference:
    planned = "" if wanted is None else _told(wanted.defaults())
    if today is None:
        return Difference(f"MPS {name}", planned, "", Standing.MISSING)
    clients = "clients not known"
    if today.clients is not None:
        clients = "1 client" if len(today.clients) == 1 else f"{len(today.clients)} clients"
    if today.device is None:
        words = f"runs, {clients}, for what nobody noted"
        return Difference(f"MPS {name}", planned, words, Standing.UNKNOWN)
    words = f"{_told(today.commands)}, {clients}"
    if wanted is None:
        return Difference(f"MPS {name}", planned, words, Standing.UNPLANNED)
    if today.device != device_of(wanted, gpus):
        words = f"for `{today.device}`, {words}"
        return Difference(f"MPS {name}", planned, words, Standing.OTHER)
    is_same = today.commands == wanted.defaults()
    standing = Standing.SAME if is_same else Standing.OTHER
    return Difference(f"MPS {name}", planned, words, standing)


def _told(commands: Sequence[str]) -> str:
    """What a daemon gives by default, without the words of its commands."""
    return ", ".join(_short(command) for command in commands) or "no limits"


def _short(command: str) -> str:
    word, *values = command.split()
    match word:
        case "set_default_active_thread_percentage":
            return f"threads {values[-1]} %"
        case "set_default_device_pinned_mem_limit":
            return f"memory {values[-1]}"
        case _:
            return command
