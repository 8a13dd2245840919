"""Kueue's quotas: a flavour a product, a queue a tenant, all of them in one cohort.

A tenant's quota is what the plan gave it; what it leaves idle the others may borrow. Knows
`kueue.x-k8s.io/v1beta2`. Nodes are told apart by a label of our own, for what NVIDIA labels a
product with is not what the table calls it.
"""

from collections.abc import Mapping
from typing import Any, Final

from headway.core import TenantId
from headway.plan import SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, dns_name, header
from headway.rollout.pods import namespace_object
from headway.rollout.scripts import Line, script
from headway.rollout.servers import Deployable, deployables_of
from headway.rollout.yaml_text import to_yaml

__all__ = ["emit_kueue"]

_API: Final = "kueue.x-k8s.io/v1beta2"
_LABEL: Final = "headway/product"
_STEP: Final = 1000
"""Between the values of two priorities, so that others fit between."""
_RESOURCES_MAX: Final = 64
"""Of a resource group, by the schema."""

_Counts = Mapping[tuple[TenantId, str, str], int]
"""By tenant, product and resource."""


def emit_kueue(plan: SharingPlan, options: EmitOptions) -> Emission:
    """The quotas, and the labels of nodes that flavours go by."""
    deployables = deployables_of(plan)
    counts = _counts(deployables)
    tenants = sorted({tenant for tenant, _, _ in counts})
    products = sorted({product for _, product, _ in counts})
    resources = sorted({resource for _, _, resource in counts})[:_RESOURCES_MAX]
    objects = [_topology(options)]
    objects += [_flavour(product, options) for product in products]
    objects += [_cluster_queue(tenant, products, resources, counts, options) for tenant in tenants]
    objects.append(namespace_object(options))
    objects += [_local_queue(tenant, options) for tenant in tenants]
    objects += _priorities(deployables)
    nodes = {share.node: share.product for share in plan.devices}
    lines = [
        Line(None, f"kubectl label node {node} {_LABEL}={dns_name(product)} --overwrite")
        for node, product in nodes.items()
    ]
    notes = (
        "pods join a queue by the label `kueue.x-k8s.io/queue-name`, their tenant's name",
        *_mixed(plan),
    )
    files = (
        EmittedFile("kueue.yaml", to_yaml(objects, comments=header("Kueue", notes))),
        EmittedFile("label-nodes.sh", script("Kueue", lines), is_executable=True),
    )
    return Emission(files, notes)


def _mixed(plan: SharingPlan) -> tuple[str, ...]:
    products: dict[str, set[str]] = {}
    for share in plan.devices:
        products.setdefault(share.node, set()).add(share.product)
    mixed = [node for node, found in products.items() if len(found) > 1]
    names = ", ".join(f"`{node}`" for node in mixed)
    return (f"{names}: a node has one flavour, and this one several products",) if mixed else ()


def _counts(deployables: list[Deployable]) -> dict[tuple[TenantId, str, str], int]:
    found: dict[tuple[TenantId, str, str], int] = {}
    for deployable in deployables:
        product = deployable.first.places[0].share.product
        for resource, count in deployable.resources().items():
            key = (deployable.tenant, product, resource)
            found[key] = found.get(key, 0) + count * len(deployable.servers)
    return found


def _topology(options: EmitOptions) -> dict[str, Any]:
    """Nodes only: a gang is one pod, and a node without a label of a level would get no pods."""
    levels = [{"nodeLabel": "kubernetes.io/hostname"}]
    return {
        "apiVersion": _API,
        "kind": "Topology",
        "metadata": {"name": options.name},
        "spec": {"levels": levels},
    }


def _flavour(product: str, options: EmitOptions) -> dict[str, Any]:
    name = dns_name(product)
    return {
        "apiVersion": _API,
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": {_LABEL: name}, "topologyName": options.name},
    }


def _cluster_queue(
    tenant: TenantId,
    products: list[str],
    resources: list[str],
    counts: _Counts,
    options: EmitOptions,
) -> dict[str, Any]:
    """Every flavour names every resource, as the schema demands: 0 of what it has not."""
    flavours = [
        {
            "name": dns_name(product),
            "resources": [
                {"name": resource, "nominalQuota": counts.get((tenant, product, resource), 0)}
                for resource in resources
            ],
        }
        for product in products
    ]
    return {
        "apiVersion": _API,
        "kind": "ClusterQueue",
        "metadata": {"name": dns_name(tenant)},
        "spec": {
            "cohortName": options.name,
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": options.namespace}
            },
            "queueingStrategy": "BestEffortFIFO",
            "preemption": {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "Any",
            },
            "resourceGroups": [{"coveredResources": resources, "flavors": flavours}],
        },
    }


def _local_queue(tenant: TenantId, options: EmitOptions) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "LocalQueue",
        "metadata": {"name": dns_name(tenant), "namespace": options.namespace},
        "spec": {"clusterQueue": dns_name(tenant)},
    }


def _priorities(deployables: list[Deployable]) -> list[dict[str, Any]]:
    """Here lower is served first, with Kueue the higher value."""
    priorities = sorted({one.priority for one in deployables}, reverse=True)
    return [
        {
            "apiVersion": _API,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": dns_name(f"priority-{priority}")},
            "value": (rank + 1) * _STEP,
            "description": f"headway's priority {priority}",
        }
        for rank, priority in enumerate(priorities)
    ]
