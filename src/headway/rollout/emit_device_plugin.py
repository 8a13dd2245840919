"""The ConfigMap with which NVIDIA's device plugin offers a device, or a MIG instance, many times.

The plugin shares all devices of a node alike, by MPS or by time slices and never both, and under
MPS it gives every client the same part. What a plan wants beyond that is a note.
"""

from collections.abc import Iterator
from typing import Any

from headway.plan import DeviceShare, PlacedSlice, SharingMode, SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, header
from headway.rollout.scripts import Line, script
from headway.rollout.servers import mig_resource, nodes_of
from headway.rollout.yaml_text import to_yaml

__all__ = ["emit_device_plugin"]


def emit_device_plugin(plan: SharingPlan, options: EmitOptions) -> Emission:
    """A key of the ConfigMap for each way in which a node shares, and the labels that choose it."""
    keys: dict[str, str] = {}
    lines = [Line("The configurations."), Line(None, "kubectl apply -f device-plugin.yaml")]
    notes: list[str] = []
    for node, shares in nodes_of(plan).items():
        text = to_yaml([_config(shares)])
        key = next(
            (name for name, other in keys.items() if other == text), f"{options.name}-{len(keys)}"
        )
        keys[key] = text
        notes += [f"{node}: {note}" for note in _notes(shares)]
        label = f"nvidia.com/device-plugin.config={key}"
        lines += [Line(node), Line(None, f"kubectl label node {node} {label} --overwrite")]
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{options.name}-device-plugin",
            "namespace": options.operator_namespace,
        },
        "data": keys,
    }
    told = tuple(notes)
    subject = "NVIDIA's device plugin"
    files = (
        EmittedFile("device-plugin.yaml", to_yaml([config_map], comments=header(subject, told))),
        EmittedFile("label-nodes.sh", script(subject, lines), is_executable=True),
    )
    return Emission(files, told)


def _config(shares: list[DeviceShare]) -> dict[str, Any]:
    config: dict[str, Any] = {"version": "v1"}
    if any(share.mode is SharingMode.MIG for share in shares):
        config["flags"] = {"migStrategy": "mixed"}
    by_mps = _replicas(shares, SharingMode.MPS)
    by_time = _replicas(shares, SharingMode.TIME_SLICE)
    # Limits weigh more than turns: where a node wants both, the devices with MPS have their way.
    if by_mps:
        config["sharing"] = {"mps": {"renameByDefault": True, "resources": by_mps}}
    elif by_time:
        config["sharing"] = {
            "timeSlicing": {
                "renameByDefault": True,
                "failRequestsGreaterThanOne": True,
                "resources": by_time,
            }
        }
    return config


def _replicas(shares: list[DeviceShare], inside: SharingMode) -> list[dict[str, object]]:
    """Of each resource as many as the fullest device or instance has seats."""
    most: dict[str, int] = {}
    for _, piece in _slices(shares, inside):
        if piece.profile is not None and inside is SharingMode.MPS:
            continue  # the plugin refuses it
        name = "nvidia.com/gpu" if piece.profile is None else mig_resource(piece.profile)
        most[name] = max(most.get(name, 0), len(piece.seats))
    return [{"name": name, "replicas": seats} for name, seats in most.items() if seats > 1]


def _notes(shares: list[DeviceShare]) -> Iterator[str]:
    mps, timed = (list(_slices(shares, mode)) for mode in (SharingMode.MPS, SharingMode.TIME_SLICE))
    if mps and timed:
        yield "has MPS and time slices; the plugin takes one of them, and this file says MPS"
    if any(piece.profile is not None for _, piece in mps):
        yield (
            "wants MPS inside MIG instances, which the plugin refuses; the formats `dra` and `mps` "
            "have it"
        )
    whole = [(share, piece) for share, piece in mps if piece.profile is None]
    parts = {seat.thread_percent for _, piece in whole for seat in piece.seats}
    if len(parts) > 1:
        yield (
            "tenants are to have different parts under MPS; the plugin gives each the same, and "
            "the formats `dra` and `mps` keep them apart"
        )
    shared = {share.device for share, _ in [*whole, *timed]}
    others = [
        share.device
        for share in shares
        if share.mode is not SharingMode.MIG and share.slices and share.device not in shared
    ]
    if (whole or timed) and others:
        yield (
            f"{', '.join(f'`{name}`' for name in others)} should not be shared, and the plugin "
            "shares all devices of a node"
        )


def _slices(
    shares: list[DeviceShare], inside: SharingMode
) -> Iterator[tuple[DeviceShare, PlacedSlice]]:
    for share in shares:
        for piece in share.slices:
            if piece.inside is inside and piece.seats:
                yield share, piece
