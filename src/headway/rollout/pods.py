"""Pods and deployments of the processes that a plan asks for.

Knows Kubernetes' core objects. Refuses to know who schedules them: an emitter adds that.
"""

from collections.abc import Mapping
from typing import Any, Final

from headway.rollout.emission import EmitOptions
from headway.rollout.servers import Deployable, node_affinity

__all__ = ["HTTP_PORT", "container", "deployment", "namespace_object"]

HTTP_PORT: Final = 8000
_MODELS: Final = "/mnt/models"


def container(
    options: EmitOptions,
    *,
    limits: Mapping[str, object],
    name: str = "server",
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One `headway serve`, with the devices that it may use."""
    found: dict[str, Any] = {
        "name": name,
        "image": options.image,
        "args": [
            "serve",
            f"{_MODELS}/serve.yaml",
            "--host",
            "0.0.0.0",  # noqa: S104 (inside a pod, whose address is not known)
            "--port",
            str(HTTP_PORT),
        ],
        "ports": [{"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": HTTP_PORT}},
    }
    if environment:
        found["env"] = [{"name": key, "value": value} for key, value in environment.items()]
    if limits:
        found["resources"] = {"limits": dict(limits)}
    return found


def deployment(
    deployable: Deployable,
    options: EmitOptions,
    *,
    limits: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    pod: Mapping[str, object] | None = None,
    is_on_planned_nodes: bool = True,
) -> dict[str, Any]:
    """Replicas of one process; `pod` is added to the pod's own specification."""
    own = {"app.kubernetes.io/name": deployable.name, "app.kubernetes.io/part-of": options.name}
    server = container(options, limits=limits, environment=environment)
    mount = {"name": "models", "mountPath": _MODELS, "subPath": deployable.name, "readOnly": True}
    server["volumeMounts"] = [mount]
    spec: dict[str, Any] = {"containers": [server], "volumes": [_volume(options)]}
    if is_on_planned_nodes:
        spec["affinity"] = node_affinity(deployable.nodes)
    spec.update(pod or {})
    metadata: dict[str, Any] = {"labels": {**own, **(labels or {})}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployable.name, "namespace": options.namespace, "labels": own},
        "spec": {
            "replicas": len(deployable.servers),
            "selector": {"matchLabels": {"app.kubernetes.io/name": deployable.name}},
            "template": {"metadata": metadata, "spec": spec},
        },
    }


def namespace_object(options: EmitOptions) -> dict[str, Any]:
    """The namespace that all of it is in."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace}}


def _volume(options: EmitOptions) -> dict[str, Any]:
    """Where the models come from: a claim of the name in `pvc://NAME`, else one named `models`."""
    scheme, _, rest = options.models_uri.partition("://")
    claim = rest.partition("/")[0] if scheme == "pvc" and rest else "models"
    return {"name": "models", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
