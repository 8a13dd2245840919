"""Queues and deployments for the KAI scheduler: a queue a tenant, its quota what the plan gave it.

KAI counts fractions of a device and does not enforce them: a note says so. Knows KAI's queues,
labels and annotations.
"""

from math import ceil
from typing import Any, Final

from headway.core import TenantId
from headway.plan import SharingMode, SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, dns_name, header
from headway.rollout.pods import deployment, namespace_object
from headway.rollout.servers import Deployable, Server, deployables_of, servers_of
from headway.rollout.yaml_text import to_yaml

__all__ = ["emit_kai"]

_MIB: Final = 1 << 20
_UNLIMITED: Final = -1
_SOFT: Final = "KAI counts memory of a fraction and does not enforce it; MPS or MIG does"
_TRUST: Final = (
    "the priority class `inference` is one that KAI brings, and pods of it are not preempted"
)


def emit_kai(plan: SharingPlan, options: EmitOptions) -> Emission:
    """The queues, then the deployments."""
    notes = (_SOFT, _TRUST)
    shares = _tenant_devices(plan)
    objects = [_queue(options.name, ceil(sum(shares.values())), parent=None)]
    objects += [
        _queue(dns_name(tenant), round(devices, 2), parent=options.name)
        for tenant, devices in shares.items()
    ]
    objects.append(namespace_object(options))
    objects += [_deployment(one, options) for one in deployables_of(plan)]
    text = to_yaml(objects, comments=header("the KAI scheduler", notes))
    return Emission((EmittedFile("kai.yaml", text),), notes)


def _tenant_devices(plan: SharingPlan) -> dict[TenantId, float]:
    """What each tenant's processes hold as KAI counts: a `2g` of a GPU is two, not two sevenths."""
    found: dict[TenantId, float] = {}
    for server in servers_of(plan):
        tenant = server.tenants[0]
        found[tenant] = found.get(tenant, 0.0) + _devices(server)
    return dict(sorted(found.items()))


def _devices(server: Server) -> float:
    place = server.places[0]
    if place.slice.profile is not None:
        return float(place.slice.profile.partition("g")[0])
    if place.slice.inside in {SharingMode.MPS, SharingMode.TIME_SLICE}:
        return _fraction(server)
    return float(len(server.places))


def _fraction(server: Server) -> float:
    """Of the device's memory, which is what KAI divides."""
    part = server.memory_bytes / server.places[0].slice.memory_bytes
    return min(1.0, ceil(part * 100) / 100)


def _queue(name: str, quota: float, *, parent: str | None) -> dict[str, Any]:
    free = {"quota": _UNLIMITED, "limit": _UNLIMITED, "overQuotaWeight": 1}
    spec: dict[str, Any] = {} if parent is None else {"parentQueue": parent}
    spec["resources"] = {
        "cpu": dict(free),
        "gpu": {"quota": quota, "limit": _UNLIMITED, "overQuotaWeight": 1},
        "memory": dict(free),
    }
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def _deployment(deployable: Deployable, options: EmitOptions) -> dict[str, Any]:
    server = deployable.first
    is_part = server.profile is None and server.inside in {SharingMode.MPS, SharingMode.TIME_SLICE}
    limits: dict[str, object] = {} if is_part else dict(deployable.resources())
    return deployment(
        deployable,
        options,
        limits=limits,
        labels={"kai.scheduler/queue": dns_name(deployable.tenant)},
        annotations={"gpu-memory": str(ceil(server.memory_bytes / _MIB))} if is_part else None,
        environment=deployable.client_environment(),
        pod={"schedulerName": "kai-scheduler", "priorityClassName": "inference"},
    )
