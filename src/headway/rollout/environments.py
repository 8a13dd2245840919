"""What each process of a plan is started with, so that it finds its device and keeps its limits.

A process sees one MIG device, by its UUID; under MPS it sees what its daemon serves. Knows plans,
and readings of GPUs where there are any. Starts nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headway.core import ModelName
from headway.devices import MigGpu
from headway.plan import SharingMode
from headway.rollout.mps_daemons import client_of, daemons_of
from headway.rollout.proposal import device_of, instance_uuid
from headway.rollout.servers import Place, Server

__all__ = ["ServerEnvironment", "environments"]


class ServerEnvironment(NamedTuple):
    """One process."""

    models: tuple[ModelName, ...]
    where: str
    """For a person: `GPU 0, 3g.40gb at 0`."""
    values: dict[str, str]
    is_known: bool
    """Whether every UUID in it is; one that is not made yet is `MIG-UUID`."""


def environments(
    servers: Sequence[Server], gpus: Mapping[int, MigGpu], state_folder: str
) -> list[ServerEnvironment]:
    """Of the processes of one node, on its GPUs as they are."""
    return [_environment(server, gpus, state_folder) for server in servers]


def _environment(
    server: Server, gpus: Mapping[int, MigGpu], state_folder: str
) -> ServerEnvironment:
    where = "; ".join(_where(place) for place in server.places)
    if server.inside is SharingMode.MPS:
        place = server.places[0]
        daemon = next(one for one in daemons_of([place.share]) if one.start == place.slice.start)
        limits = client_of(server.seats[0]).limits()
        values = {"CUDA_MPS_PIPE_DIRECTORY": daemon.pipe_folder(state_folder), **limits}
        return ServerEnvironment(server.models, where, values, device_of(daemon, gpus) is not None)
    uuids = [_device(place, gpus) for place in server.places]
    values = {"CUDA_VISIBLE_DEVICES": ",".join(uuid or "MIG-UUID" for uuid in uuids)}
    if server.profile is None:
        values["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # CUDA would put the fastest GPU first
    return ServerEnvironment(server.models, where, values, None not in uuids)


def _device(place: Place, gpus: Mapping[int, MigGpu]) -> str | None:
    """What CUDA calls the device or instance of a place."""
    if place.slice.profile is None:
        return str(place.share.index)
    gpu = gpus.get(place.share.index)
    return instance_uuid(gpu, place.slice.profile, place.slice.start)


def _where(place: Place) -> str:
    cut = "" if place.slice.profile is None else f", {place.slice.profile} at {place.slice.start}"
    return f"GPU {place.share.index}{cut}"
