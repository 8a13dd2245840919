"""Claims of dynamic resource allocation (`resource.k8s.io/v1`) and the deployments that make them.

Processes that share a device or an instance share one claim; those that have one to themselves
claim by template, one each. Knows the parameters of NVIDIA's DRA driver, of which sharing is
behind feature gates that are off by default.
"""

from math import ceil
from typing import Any, Final

from headway.plan import SharingMode, SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, dns_name, header
from headway.rollout.pods import deployment, namespace_object
from headway.rollout.servers import Deployable, Place, Server, deployables_of, memory_of
from headway.rollout.yaml_text import to_yaml

__all__ = ["emit_dra"]

_API: Final = "resource.k8s.io/v1"
_DRIVER: Final = "gpu.nvidia.com"
_MIB: Final = 1 << 20
_GATES: Final = (
    "NVIDIA's driver has sharing behind the gates `MPSSupport` and `TimeSlicingSettings`, which "
    "are alpha and off by default"
)
_STATIC: Final = (
    "MPS inside MIG excludes the gate `DynamicMIG`: make the instances first, with the format "
    "`nvidia-smi` or `mig-parted`"
)
_WHERE: Final = "which device of a kind a claim gets is up to kube-scheduler, not to the plan"


def emit_dra(plan: SharingPlan, options: EmitOptions) -> Emission:
    """Claims, templates of claims, and deployments."""
    objects: list[dict[str, Any]] = [namespace_object(options)]
    claimed: set[str] = set()
    deployables = deployables_of(plan)
    for deployable in deployables:
        if _shares(deployable.first):
            for server in deployable.servers:
                name = _claim_name(server.places[0])
                if name not in claimed:
                    claimed.add(name)
                    objects.append(_claim(name, server, options))
        else:
            objects.append(_template(deployable, options))
    for deployable in deployables:
        objects += _deployments(deployable, options)
    notes = _notes(deployables)
    text = to_yaml(objects, comments=header("dynamic resource allocation", notes))
    return Emission((EmittedFile("dra.yaml", text),), notes)


def _notes(deployables: list[Deployable]) -> tuple[str, ...]:
    shared = [one.first for one in deployables if _shares(one.first)]
    has_static = any(one.profile and one.inside is SharingMode.MPS for one in shared)
    return (_WHERE, *((_GATES,) if shared else ()), *((_STATIC,) if has_static else ()))


def _shares(server: Server) -> bool:
    return server.inside in {SharingMode.MPS, SharingMode.TIME_SLICE}


def _claim_name(place: Place) -> str:
    start = "" if place.slice.start is None else f"-at-{place.slice.start}"
    return dns_name(f"{place.share.device}{start}")


def _claim(name: str, server: Server, options: EmitOptions) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": options.namespace},
        "spec": _request(server),
    }


def _template(deployable: Deployable, options: EmitOptions) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": deployable.name, "namespace": options.namespace},
        "spec": {"spec": _request(deployable.first)},
    }


def _request(server: Server) -> dict[str, Any]:
    """What one claim asks for; the flat form of earlier versions is no longer valid."""
    kind = "mig" if server.profile else "gpu"
    exactly: dict[str, Any] = {"deviceClassName": f"{kind}.nvidia.com"}
    exactly["selectors"] = [{"cel": {"expression": _selector(server)}}]
    if len(server.places) > 1:
        exactly["count"] = len(server.places)
    devices: dict[str, Any] = {"requests": [{"name": "device", "exactly": exactly}]}
    if _shares(server):
        parameters = {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "MigDeviceConfig" if server.profile else "GpuConfig",
            "sharing": _sharing(server),
        }
        opaque = {"driver": _DRIVER, "parameters": parameters}
        devices["config"] = [{"requests": ["device"], "opaque": opaque}]
    return {"devices": devices}


def _selector(server: Server) -> str:
    """An instance of the profile; or any device with as much memory as all that sit on it need."""
    if server.profile:
        return f"device.attributes['{_DRIVER}'].profile == '{server.profile}'"
    needed = sum(memory_of(seat) for seat in server.places[0].slice.seats)
    quantity = f"quantity('{ceil(needed / _MIB)}Mi')"
    return f"device.capacity['{_DRIVER}'].memory.compareTo({quantity}) >= 0"


def _sharing(server: Server) -> dict[str, Any]:
    """Limits of the daemon: the largest of any client's, for a client may only lower its own."""
    if server.inside is SharingMode.TIME_SLICE:
        return {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}
    seats = server.places[0].slice.seats
    config: dict[str, Any] = {}
    percents = [seat.thread_percent for seat in seats if seat.thread_percent is not None]
    limits = [seat.memory_limit_bytes for seat in seats if seat.memory_limit_bytes is not None]
    if percents:
        config["defaultActiveThreadPercentage"] = max(percents)
    if limits:
        config["defaultPinnedDeviceMemoryLimit"] = f"{max(limits) // _MIB}Mi"
    return {"strategy": "MPS", "mpsConfig": config}


def _deployments(deployable: Deployable, options: EmitOptions) -> list[dict[str, Any]]:
    """One; where a claim is shared, one for each claim, for all pods of one have the same."""
    if not _shares(deployable.first):
        return [_deployment(deployable, options, {"resourceClaimTemplateName": deployable.name})]
    groups: dict[str, list[Server]] = {}
    for server in deployable.servers:
        groups.setdefault(_claim_name(server.places[0]), []).append(server)
    found = []
    for claim, servers in groups.items():
        name = deployable.name if len(groups) == 1 else dns_name(f"{deployable.name}-{claim}")
        part = Deployable(name=name, servers=tuple(servers))
        found.append(_deployment(part, options, {"resourceClaimName": claim}))
    return found


def _deployment(
    deployable: Deployable, options: EmitOptions, source: dict[str, str]
) -> dict[str, Any]:
    made = deployment(
        deployable,
        options,
        limits={},
        environment=deployable.client_environment(),
        pod={"resourceClaims": [{"name": "device", **source}]},
        is_on_planned_nodes=True,
    )
    server = made["spec"]["template"]["spec"]["containers"][0]
    server["resources"] = {"claims": [{"name": "device"}]}
    return made
