"""The MPS daemons that a plan asks for: one for each device or instance that is shared by MPS.

One daemon serves one device, for a fault of one client ends all clients of its daemon's server and
keeps new ones out on every device that it serves. Knows plans. Starts nothing.
"""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from headway.plan import DeviceShare, Seat, SharingMode

__all__ = ["MpsClient", "MpsDaemon", "client_of", "daemon_named", "daemons_of", "is_daemon_name"]

_MIB: Final = 1 << 20
_NAME: Final = re.compile(r"gpu(?P<index>[0-9]{1,4})(?:-at-(?P<start>[0-9]{1,2}))?")


class MpsClient(Struct, frozen=True, kw_only=True):
    """A process that is to share the device, and what it may have of it."""

    name: str
    """`speech-0`: the model and which replica."""
    thread_percent: int | None
    memory_limit_mib: int | None
    client_priority: int | None

    def limits(self) -> dict[str, str]:
        """In the environment that it is started with; they may only lower those of the daemon."""
        found = {}
        if self.thread_percent is not None:
            found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(self.thread_percent)
        if self.memory_limit_mib is not None:
            found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={self.memory_limit_mib}M"
        if self.client_priority is not None:
            found["CUDA_MPS_CLIENT_PRIORITY"] = str(self.client_priority)
        return found


class MpsDaemon(Struct, frozen=True, kw_only=True):
    """A control daemon and who comes to it."""

    name: str
    """`gpu0`, or `gpu0-at-4` for the instance that begins at cell 4."""
    index: int
    """Of the GPU on its node."""
    start: int | None
    """First cell of the MIG instance; None for a whole device."""
    profile: str | None
    clients: tuple[MpsClient, ...]

    def folder(self, state_folder: str) -> str:
        """Where all of it is; in the file `planned` what it was started for and told."""
        return f"{state_folder}/{self.name}"

    def pipe_folder(self, state_folder: str) -> str:
        """Where its clients find it."""
        return f"{self.folder(state_folder)}/pipe"

    def log_folder(self, state_folder: str) -> str:
        """Where it writes what happened."""
        return f"{self.folder(state_folder)}/log"

    def defaults(self) -> tuple[str, ...]:
        """Commands for a fresh daemon: the largest limits of any client, which the others lower.

        The device is 0, for it is the only one that the daemon sees; by UUID the limit is not
        applied by every version.
        """
        percents = [one.thread_percent for one in self.clients if one.thread_percent is not None]
        limits = [one.memory_limit_mib for one in self.clients if one.memory_limit_mib is not None]
        found = []
        if percents and len(percents) == len(self.clients):
            found.append(f"set_default_active_thread_percentage {max(percents)}")
        if limits and len(limits) == len(self.clients):
            found.append(f"set_default_device_pinned_mem_limit 0 {max(limits)}M")
        return tuple(found)


def daemons_of(shares: Iterable[DeviceShare]) -> list[MpsDaemon]:
    """For the devices of one node."""
    found = []
    for share in shares:
        for piece in share.slices:
            if piece.inside is SharingMode.MPS and piece.seats:
                at = "" if piece.start is None else f"-at-{piece.start}"
                found.append(
                    MpsDaemon(
                        name=f"gpu{share.index}{at}",
                        index=share.index,
                        start=piece.start,
                        profile=piece.profile,
                        clients=tuple(client_of(seat) for seat in piece.seats),
                    )
                )
    return found


def is_daemon_name(name: str) -> bool:
    """Whether a folder of this name is one of ours."""
    return _NAME.fullmatch(name) is not None


def daemon_named(name: str) -> MpsDaemon:
    """A daemon of which only the name is known, `gpu0-at-4`."""
    match = _NAME.fullmatch(name)
    assert match is not None, f"`{name}` is no daemon of ours"
    start = match["start"]
    return MpsDaemon(
        name=name,
        index=int(match["index"]),
        start=None if start is None else int(start),
        profile=None,
        clients=(),
    )


def client_of(seat: Seat) -> MpsClient:
    """The process that holds a seat."""
    limit = seat.memory_limit_bytes
    return MpsClient(
        name=f"{seat.model}-{seat.replica}",
        thread_percent=seat.thread_percent,
        memory_limit_mib=None if limit is None else limit // _MIB,
        client_priority=seat.client_priority,
    )
