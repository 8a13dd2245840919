"""A ServingRuntime of headway for KServe, and an InferenceService for each kind of process.

Standard deployment mode: plain deployments, no Knative. Scaling is left to the format `keda`, so
KServe is told to leave it alone. Knows `serving.kserve.io`.
"""

from typing import Any, Final

from headway.plan import SharingMode, SharingPlan
from headway.rollout.emission import Emission, EmitOptions, EmittedFile, header
from headway.rollout.pods import HTTP_PORT, container, namespace_object
from headway.rollout.servers import Deployable, deployables_of, node_affinity
from headway.rollout.yaml_text import to_yaml

__all__ = ["emit_kserve"]

_FORMAT: Final = "headway"
"""Of models: a folder with a configuration, whatever the models in it are."""
_FOLDER: Final = (
    "each InferenceService loads a folder with `serve.yaml` and the models that it names, below "
    "the `storageUri`"
)
_DAEMON: Final = (
    "under MPS the device plugin's own daemon gives each process the same part of a device, and "
    "the limits here can only lower it"
)
_NO_DAEMON: Final = (
    "the device plugin has no MPS inside MIG instances: here each process asks for an instance of "
    "its own, of which there are not enough; the format `dra` lets them share"
)


def emit_kserve(plan: SharingPlan, options: EmitOptions) -> Emission:
    """The runtime, then the services."""
    deployables = deployables_of(plan)
    by_mps = [one.first for one in deployables if one.first.inside is SharingMode.MPS]
    notes = [_FOLDER]
    if any(server.profile is None for server in by_mps):
        notes.append(_DAEMON)
    if any(server.profile is not None for server in by_mps):
        notes.append(_NO_DAEMON)
    notes += _split(deployables)
    objects = [namespace_object(options), _runtime(options)] if deployables else []
    objects += [_service(one, options) for one in deployables]
    files = (EmittedFile("kserve.yaml", to_yaml(objects, comments=header("KServe", tuple(notes)))),)
    return Emission(files if deployables else (), tuple(notes))


def _split(deployables: list[Deployable]) -> list[str]:
    """Models that need more than one service, for their replicas are not alike."""
    names: dict[tuple[str, ...], list[str]] = {}
    for one in deployables:
        names.setdefault(one.first.models, []).append(one.name)
    return [
        f"replicas of `{', '.join(models)}` are not alike and are {len(found)} services: "
        f"{', '.join(f'`{name}`' for name in found)}; put one route before them"
        for models, found in names.items()
        if len(found) > 1
    ]


def _runtime(options: EmitOptions) -> dict[str, Any]:
    server = container(options, limits={}, name="kserve-container")
    server["resources"] = {
        "requests": {"cpu": "1", "memory": "2Gi"},
        "limits": {"cpu": "4", "memory": "16Gi"},
    }
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": options.name},
        "spec": {
            "annotations": {
                "prometheus.kserve.io/port": str(HTTP_PORT),
                "prometheus.kserve.io/path": "/metrics",
            },
            "supportedModelFormats": [{"name": _FORMAT, "version": "1", "autoSelect": True}],
            "protocolVersions": ["v2"],
            "containers": [server],
        },
    }


def _service(deployable: Deployable, options: EmitOptions) -> dict[str, Any]:
    model: dict[str, Any] = {
        "modelFormat": {"name": _FORMAT, "version": "1"},
        "runtime": options.name,
        "protocolVersion": "v2",
        "storageUri": f"{options.models_uri.rstrip('/')}/{deployable.name}",
        "resources": {"limits": dict(deployable.resources())},
    }
    predictor: dict[str, Any] = {
        "minReplicas": len(deployable.servers),
        "maxReplicas": len(deployable.servers),
        "model": model,
        "affinity": node_affinity(deployable.nodes),
    }
    if deployable.first.inside is SharingMode.MPS:
        environment = deployable.client_environment()
        model["env"] = [{"name": key, "value": value} for key, value in environment.items()]
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": deployable.name,
            "namespace": options.namespace,
            "annotations": {
                "serving.kserve.io/deploymentMode": "Standard",
                "serving.kserve.io/autoscalerClass": "external",
            },
        },
        "spec": {"predictor": predictor},
    }
