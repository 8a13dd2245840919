"""One Kubernetes object: core kinds, custom resources, and what only a scheduler or driver reads.

Core kinds go against Kubernetes' own schemas, custom resources against their definitions. The rest
(configuration inside a ConfigMap, a driver's parameters, annotations) goes against schemas of ours,
for nobody publishes any.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from headway.errors import HeadwayError
from headway.rollout.check_crds import Definitions
from headway.rollout.check_shapes import Fault, faults_by, library, shape_faults
from headway.rollout.check_values import device_plugin_faults, mig_parted_faults
from headway.rollout.yaml_text import from_yaml

__all__ = ["KUBERNETES_VERSION", "object_faults"]

KUBERNETES_VERSION: Final = "1.37"
_VERSION: Final = re.compile(r"([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?")
_CORE_GROUPS: Final = frozenset(
    "apps batch policy autoscaling resource.k8s.io scheduling.k8s.io rbac.authorization.k8s.io "
    "networking.k8s.io storage.k8s.io".split()
)
_DRIVER: Final = "gpu.nvidia.com"
_OURS: Final = ("mig-configs", "timeSlicing", "mps:")
"""Words of configurations that are known here."""


def object_faults(value: Mapping[str, Any], definitions: Definitions) -> list[Fault]:
    """What an API server, or whoever the object is for, would refuse."""
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(api_version, str) or not _VERSION.fullmatch(api_version):
        return [Fault("apiVersion", f"`{api_version}` is no version of an API")]
    if not isinstance(kind, str) or not kind.isalnum():
        return [Fault("kind", f"`{kind}` is no kind")]
    group, slash, _ = api_version.partition("/")
    if not slash or group in _CORE_GROUPS:
        return _core_faults(value) or list(_inner_faults(value))
    definition = definitions.get((api_version, kind))
    if definition is None:
        known = sorted(version for version, name in definitions if name == kind)
        hint = f"; known of this kind: {', '.join(known)}" if known else ""
        return [Fault("", f"no definition of `{kind}` in `{api_version}`{hint}")]
    return definition.faults(value) or list(_inner_faults(value))


def _core_faults(value: Mapping[str, Any]) -> list[Fault]:
    validator = _core_validator(value["apiVersion"], value["kind"])
    if validator is None:
        return [
            Fault("", f"Kubernetes {KUBERNETES_VERSION} has no `{value['kind']}` in this version")
        ]
    return faults_by(validator, value)


@cache
def _core_validator(api_version: str, kind: str) -> Any | None:
    """Kubernetes' schema of a kind, strict: what it does not name is refused.

    `kubernetes_validate` reads all definitions anew for each object, which a fleet has many of.
    """
    library("kubernetes_validate")  # says how to install it
    contents = library("kubernetes_validate.utils").schema_contents
    folder = f"kubernetes-json-schema/v{KUBERNETES_VERSION}.0-local-strict"
    group, slash, version = api_version.rpartition("/")
    stem = "-".join([kind.lower(), *([group.partition(".")[0]] if slash else []), version])
    try:
        schema = contents(f"{folder}/{stem}.json", KUBERNETES_VERSION)
    except FileNotFoundError:
        return None
    definitions = contents(f"{folder}/_definitions.json", KUBERNETES_VERSION)
    resource = library("referencing").Resource.from_contents
    registry = resource(definitions) @ (resource(schema) @ library("referencing").Registry())
    return library("jsonschema").Draft202012Validator(schema, registry=registry)


def _inner_faults(value: Mapping[str, Any]) -> Iterator[Fault]:
    """What the object holds for others, where it has the form that its own schema wants."""
    match value.get("kind"):
        case "ConfigMap":
            yield from _config_map_faults(value)
        case "ResourceClaim" | "ResourceClaimTemplate":
            yield from _claim_faults(value)
        case "ScaledObject":
            yield from _trigger_faults(value)
        case "Deployment":
            yield from _pod_faults(_under(value, "spec", "template"), "spec.template")
        case "Pod":
            yield from _pod_faults(value, "")
        case _:
            return


def _config_map_faults(value: Mapping[str, Any]) -> Iterator[Fault]:
    for key, text in (value.get("data") or {}).items():
        place = f"data[{key}]"
        try:
            documents = from_yaml(text or "")
        except HeadwayError as error:
            if any(word in text for word in _OURS):  # else it may be anything
                yield Fault(place, error.message)
            continue
        for document in documents:
            if isinstance(document, dict) and "mig-configs" in document:
                yield from (fault.within(place) for fault in mig_parted_faults(document))
            elif isinstance(document, dict) and document.keys() & {"sharing", "flags"}:
                yield from (fault.within(place) for fault in device_plugin_faults(document))


def _claim_faults(value: Mapping[str, Any]) -> Iterator[Fault]:
    keys = ("spec", "devices") if value["kind"] == "ResourceClaim" else ("spec", "spec", "devices")
    devices = _under(value, *keys)
    names = {str(request.get("name")) for request in _items(devices, "requests")}
    for index, entry in enumerate(_items(devices, "config")):
        place = f"{'.'.join(keys)}.config[{index}]"
        for name in sorted({str(name) for name in entry.get("requests") or ()} - names):
            yield Fault(f"{place}.requests", f"there is no request `{name}`")
        opaque = _under(entry, "opaque")
        if opaque.get("driver") == _DRIVER:
            faults = shape_faults("dra-parameters", opaque.get("parameters"))
            yield from (fault.within(f"{place}.opaque.parameters") for fault in faults)


def _trigger_faults(value: Mapping[str, Any]) -> Iterator[Fault]:
    for index, trigger in enumerate(_items(_under(value, "spec"), "triggers")):
        if trigger.get("type") == "prometheus":
            place = f"spec.triggers[{index}].metadata"
            faults = shape_faults("keda-prometheus", trigger.get("metadata"))
            yield from (fault.within(place) for fault in faults)


def _pod_faults(template: Mapping[str, Any], place: str) -> Iterator[Fault]:
    """Of pods for a scheduler that reads labels, annotations and limits of its own."""
    spec = _under(template, "spec")
    annotations = _under(template, "metadata", "annotations")
    labels = _under(template, "metadata", "labels")
    limits: dict[str, Any] = {}
    for container in _items(spec, "containers"):
        limits.update(_under(container, "resources", "limits"))
    pod = {"annotations": annotations, "labels": labels, "limits": limits}
    scheduler = spec.get("schedulerName")
    if scheduler is not None:
        pod["schedulerName"] = scheduler
    is_hami = any(key.startswith("hami.io/") for key in annotations) or any(
        key in limits for key in ("nvidia.com/gpumem", "nvidia.com/gpucores")
    )
    is_kai = "kai.scheduler/queue" in labels or annotations.keys() & {"gpu-fraction", "gpu-memory"}
    if is_hami or scheduler == "hami-scheduler":
        yield from (fault.within(place) for fault in shape_faults("hami-pod", pod))
    if is_kai or scheduler == "kai-scheduler":
        yield from (fault.within(place) for fault in shape_faults("kai-pod", pod))


def _under(value: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """A mapping below others; empty where there is none, for any part of an object may be null."""
    for key in keys:
        value = value.get(key) or {}
    return value


def _items(value: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    return [one or {} for one in value.get(key) or ()]
