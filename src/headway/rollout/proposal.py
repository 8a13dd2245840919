"""From what a machine is today to what a plan wants of it, in steps, or why that may not be.

Nothing is destroyed in which a process runs, or of which nobody knows whether one does. Knows plans
and readings of GPUs. Runs nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headway.devices import MigGpu, MigInstance, MigPlacement
from headway.plan import DeviceShare, PlacedSlice, SharingMode
from headway.rollout.mig_changes import leaving_of, made_of
from headway.rollout.mps_daemons import MpsDaemon, daemon_named, daemons_of
from headway.rollout.servers import is_used
from headway.rollout.steps import (
    CreateInstance,
    DaemonToday,
    DestroyInstance,
    SetMode,
    StartDaemon,
    Step,
    StopDaemon,
)

__all__ = [
    "Proposal",
    "assumed_gpu",
    "device_of",
    "idle_servers",
    "instance_uuid",
    "is_as_planned",
    "process_words",
    "propose",
    "stays",
]


class Proposal(NamedTuple):
    """What would be done to a node."""

    steps: tuple[Step, ...]
    """In order."""
    refusals: tuple[str, ...]
    """Why it must not be done now; nothing is, where there is one."""
    left_alone: tuple[str, ...] = ()
    """What exists, is not in the plan and is in nobody's way."""


def propose(
    shares: Sequence[DeviceShare],
    gpus: Mapping[int, MigGpu],
    running: Sequence[DaemonToday],
    state_folder: str,
) -> Proposal:
    """For one node: its devices as planned, as they are, and the daemons that run."""
    refusals: list[str] = []
    left_alone: list[str] = []
    cuts: list[Step] = []
    for share in filter(is_used, shares):
        gpu = gpus.get(share.index)
        refusal = _unfit(share, gpu)
        if gpu is None or refusal is not None:
            refusals.append(refusal or f"GPU {share.index} is not there")
            continue
        change = _Change(share, gpu, idle_servers(running))
        refusals += change.refusals()
        left_alone += change.left_alone()
        cuts += change.steps()
    wanted = {daemon.name: daemon for daemon in daemons_of(shares)}
    used = {share.index for share in shares if is_used(share)}
    stops: list[StopDaemon] = []
    for one in running:
        daemon = daemon_named(one.name)
        if daemon.index not in used:
            continue  # of a device that the plan leaves alone
        if not is_as_planned(one, wanted.get(one.name), gpus) or _loses_device(daemon, cuts):
            refusals += _busy(f"the MPS daemon `{one.name}`", one.clients)
            stops.append(StopDaemon(daemon=daemon, before=one, state_folder=state_folder))
    kept = {one.name for one in running} - {step.daemon.name for step in stops}
    starts = [
        StartDaemon(daemon=daemon, state_folder=state_folder)
        for name, daemon in wanted.items()
        if name not in kept
    ]
    return Proposal((*stops, *cuts, *starts), tuple(refusals), tuple(left_alone))


def assumed_gpu(share: DeviceShare) -> MigGpu:
    """What a plan takes a GPU to be today: for a machine that cannot be asked."""
    leaving = [
        MigInstance(None, one.profile, MigPlacement(one.start, 1), None, ())
        for one in leaving_of(share)
    ]
    staying = [
        MigInstance(None, piece.profile, _placement(piece), None, ())
        for piece in made_of(share)
        if piece.is_kept
    ]
    changes_mode = str(share.device) in share.must_be_idle
    return MigGpu(
        index=share.index,
        has_mig=(share.mode is SharingMode.MIG) is not changes_mode,
        instances=(*leaving, *staying),
        pids=(),
    )


def stays(instance: MigInstance, pieces: Iterable[PlacedSlice]) -> bool:
    """Whether a plan wants an instance just as it is: there, and in one part."""
    is_whole = instance.uuids is None or len(instance.uuids) == 1
    return is_whole and any(
        (piece.profile, piece.start) == (instance.profile, instance.placement.start)
        for piece in pieces
    )


def process_words(pids: Sequence[int]) -> str:
    """Processes, for a sentence."""
    return ("process " if len(pids) == 1 else "processes ") + ", ".join(map(str, pids))


# --- GPUs -----------------------------------------------------------------------------------------


def _unfit(share: DeviceShare, gpu: MigGpu | None) -> str | None:
    """Why a GPU cannot become what is planned, whatever is done."""
    name = f"GPU {share.index}"
    if gpu is None:
        return f"{name} is not there"
    if gpu.trouble is not None:
        return f"{name} does not answer: {gpu.trouble}"
    if share.mode is not SharingMode.MIG:
        return None
    if gpu.has_mig is None:
        return f"{name} ({gpu.name or share.product}) has no MIG, or does not say"
    if gpu.will_have_mig is False:
        return f"{name} leaves MIG mode at its next reset: reset it, then plan again"
    return next(_unfit_pieces(share, gpu), None)


def _unfit_pieces(share: DeviceShare, gpu: MigGpu) -> Iterator[str]:
    """Instances that this GPU cannot have; nothing where it does not say what it can."""
    if gpu.profiles is None:
        return
    offered = {profile.name: profile for profile in gpu.profiles}
    for piece in made_of(share):
        found = offered.get(piece.profile or "")
        if found is None:
            names = ", ".join(offered) or "none"
            yield f"GPU {share.index} has no profile `{piece.profile}`; it has {names}"
        elif found.placements and piece.start not in {one.start for one in found.placements}:
            starts = ", ".join(str(one.start) for one in found.placements)
            what = f"`{piece.profile}` cannot begin at {piece.start}, only at {starts}"
            yield f"GPU {share.index}: {what}"


class _Change:
    """One GPU from today's cut to the planned one."""

    def __init__(self, share: DeviceShare, gpu: MigGpu, harmless: frozenset[int]) -> None:
        self._share = share
        self._gpu = gpu
        self._harmless = harmless
        self._is_mig = share.mode is SharingMode.MIG
        self._pieces = made_of(share) if self._is_mig else []
        today = gpu.instances or ()
        self._changes_mode = bool(gpu.has_mig) is not self._is_mig
        self._missing = [
            piece
            for piece in self._pieces
            if not any(stays(instance, [piece]) for instance in today)
        ]
        named = {(one.profile, one.start) for one in leaving_of(share)}
        self._leaving = [
            one
            for one in today
            if not stays(one, self._pieces)
            and (
                not self._is_mig
                or (one.profile, one.placement.start) in named
                or any(one.placement.overlaps(_placement(piece)) for piece in self._missing)
            )
        ]

    def refusals(self) -> Iterator[str]:
        """Whatever would end a process, or might."""
        name = f"GPU {self._share.index}"
        for one in self._leaving:
            what = f"{name}: `{one.profile}` at {one.placement.start}"
            yield from _busy(what, one.pids, self._harmless)
        if self._changes_mode:
            what = f"{name}, whose MIG mode is to change,"
            yield from _busy(what, self._gpu.pids, self._harmless)

    def left_alone(self) -> Iterator[str]:
        """Instances of others, which are in nobody's way."""
        for one in self._gpu.instances or ():
            if one not in self._leaving and not stays(one, self._pieces):
                yield f"GPU {self._share.index}: {one.profile} at {one.placement.start}"

    def steps(self) -> Iterator[Step]:
        """First what goes: MIG mode cannot end while there are instances."""
        index = self._share.index
        for one in self._leaving:
            start, profile = one.placement.start, one.profile or "?"
            yield DestroyInstance(index=index, profile=profile, start=start, id=one.id)
        if self._changes_mode:
            yield SetMode(index=index, is_on=self._is_mig)
        for piece in self._missing:
            place, profile = _placement(piece), piece.profile or "?"
            yield CreateInstance(index=index, profile=profile, start=place.start, size=place.size)


def _placement(piece: PlacedSlice) -> MigPlacement:
    return MigPlacement(piece.start or 0, piece.size or 0)


def _busy(
    what: str, pids: tuple[int, ...] | None, harmless: frozenset[int] = frozenset()
) -> Iterator[str]:
    """Why something may not be ended; nothing where nobody would be hurt."""
    if pids is None:
        yield f"{what} may be in use: nobody says which processes run there"
    elif others := [pid for pid in pids if pid not in harmless]:
        yield f"{what} is used by {process_words(others)}"


# --- daemons --------------------------------------------------------------------------------------


def is_as_planned(today: DaemonToday, daemon: MpsDaemon | None, gpus: Mapping[int, MigGpu]) -> bool:
    """Whether a daemon serves what a plan wants it to, with the limits that the plan wants."""
    return (
        daemon is not None
        and today.device is not None
        and today.device == device_of(daemon, gpus)
        and today.commands == daemon.defaults()
    )


def device_of(daemon: MpsDaemon, gpus: Mapping[int, MigGpu]) -> str | None:
    """What a daemon is started for: its GPU's index, or the UUID of its instance.

    Returns:
        None where there is no such instance, or it is in parts.
    """
    if daemon.start is None:
        return str(daemon.index)
    return instance_uuid(gpus.get(daemon.index), daemon.profile, daemon.start)


def instance_uuid(gpu: MigGpu | None, profile: str | None, start: int | None) -> str | None:
    """Of the one MIG device in an instance; None where there is none, or several, or no GPU."""
    for instance in (gpu.instances or ()) if gpu is not None else ():
        is_it = (instance.profile, instance.placement.start) == (profile, start)
        if is_it and instance.uuids is not None and len(instance.uuids) == 1:
            return instance.uuids[0]
    return None


def idle_servers(running: Iterable[DaemonToday]) -> frozenset[int]:
    """Processes of daemons without clients: they hold a device, and nobody misses them."""
    return frozenset(pid for one in running if one.clients == () for pid in one.servers)


def _loses_device(daemon: MpsDaemon, cuts: Iterable[Step]) -> bool:
    """Whether what a daemon serves is destroyed, or changes its mode."""
    for step in cuts:
        if step.index == daemon.index:
            if isinstance(step, SetMode):
                return True
            if isinstance(step, DestroyInstance) and step.start == daemon.start:
                return True
    return False
