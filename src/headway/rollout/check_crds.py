"""Custom resources against their published definitions: the schema, and the rules written in CEL.

Definitions that headway's own objects need come with it, trimmed (`crds/`, see the notice there);
a folder of whole ones may be given instead. Knows OpenAPI's schemas as Kubernetes has them. Rules
about a change (`oldSelf`) say nothing about a file, and are passed over.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from headway.errors import HeadwayError
from headway.rollout.check_shapes import Fault, faults_by, library
from headway.rollout.yaml_text import from_yaml

__all__ = ["Definition", "Definitions", "closed_schema", "read_definitions", "shipped_definitions"]

_LOOSE: Final = "x-kubernetes-preserve-unknown-fields"
_KEPT_KEYS: Final = frozenset(
    "enum maximum minimum maxItems minItems maxLength minLength pattern required uniqueItems "
    "maxProperties minProperties multipleOf exclusiveMaximum exclusiveMinimum".split()
)
_ALWAYS: Final[Mapping[str, Any]] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


@dataclass(frozen=True)
class Definition:
    """One version of a custom resource."""

    api_version: str
    """`kueue.x-k8s.io/v1beta2`."""
    kind: str
    schema: Mapping[str, Any]
    """As it was published."""
    is_namespaced: bool

    def faults(self, value: Mapping[str, Any]) -> list[Fault]:
        """What an API server would refuse it for."""
        value = _completed(self.schema, value)
        found = faults_by(self._validator, value)
        if not self.is_namespaced and "namespace" in (value.get("metadata") or {}):
            found.append(Fault("metadata.namespace", f"a `{self.kind}` is in no namespace"))
        # Rules take the form for granted; of what has another form they say nothing of use.
        return found or list(_rule_faults(self.schema, value, ""))

    @cached_property
    def _validator(self) -> Any:
        return library("jsonschema").Draft202012Validator(closed_schema(self.schema))


Definitions = Mapping[tuple[str, str], Definition]
"""By version of the API and kind."""


@cache
def shipped_definitions() -> Definitions:
    """Those that come with headway."""
    folder = files("headway.rollout") / "crds"
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.name.endswith(".json"):
            for one in json.loads(entry.read_text(encoding="utf-8")):
                made = Definition(
                    one["apiVersion"], one["kind"], one["schema"], one["scope"] == "Namespaced"
                )
                found[made.api_version, made.kind] = made
    return found


def read_definitions(folder: Path) -> Definitions:
    """All versions of all custom resource definitions in the YAML files of a folder.

    Raises:
        HeadwayError: there are none, or a file is not YAML.
    """
    found = {}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        for document in from_yaml(path.read_text(encoding="utf-8")):
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                for made in _versions(document["spec"]):
                    found[made.api_version, made.kind] = made
    if not found:
        raise HeadwayError(
            f"`{folder}` holds no custom resource definitions",
            hint="give a folder with the `.yaml` files that a project installs",
        )
    return found


def _versions(spec: Mapping[str, Any]) -> Iterator[Definition]:
    for version in spec["versions"]:
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema and version.get("served", True):
            yield Definition(
                f"{spec['group']}/{version['name']}",
                spec["names"]["kind"],
                schema,
                spec.get("scope") == "Namespaced",
            )


def closed_schema(node: Mapping[str, Any], *, is_root: bool = True) -> dict[str, Any]:
    """A JSON schema of the same that also refuses what is not named, as strict checking does."""
    if node.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    found: dict[str, Any] = {key: value for key, value in node.items() if key in _KEPT_KEYS}
    if "type" in node:
        found["type"] = [node["type"], "null"] if node.get("nullable") else node["type"]
        if node.get("nullable") and "enum" in found:
            found["enum"] = [*found["enum"], None]
    if "items" in node:
        found["items"] = closed_schema(node["items"], is_root=False)
    for key in ("allOf", "anyOf", "oneOf"):
        if key in node:  # these only narrow what stands beside them
            found[key] = [_narrowing(one) for one in node[key]]
    if "not" in node:
        found["not"] = _narrowing(node["not"])
    extra = node.get("additionalProperties")
    if isinstance(extra, Mapping):
        found["additionalProperties"] = closed_schema(extra, is_root=False)
    if "properties" in node:
        properties = {
            key: closed_schema(value, is_root=False) for key, value in node["properties"].items()
        }
        if is_root or node.get("x-kubernetes-embedded-resource"):
            properties = {**_ALWAYS, **properties}
        found["properties"] = properties
        if not node.get(_LOOSE) and extra is None:
            found["additionalProperties"] = False
    return found


def _narrowing(node: Mapping[str, Any]) -> dict[str, Any]:
    """A schema inside `anyOf` and the like, which names only a part of the properties."""
    found = closed_schema({**node, _LOOSE: True}, is_root=False)
    if "properties" in node:
        found["properties"] = {key: _narrowing(one) for key, one in node["properties"].items()}
    return found


def _completed(schema: Mapping[str, Any], value: Any) -> Any:
    """A value with its schema's defaults, which are there before anything is checked."""
    if isinstance(value, Mapping):
        found = dict(value)
        properties = schema.get("properties", {})
        extra = schema.get("additionalProperties")
        for key, inner in properties.items():
            if key not in found and "default" in inner:
                found[key] = inner["default"]
        for key, one in found.items():
            under = properties.get(key, extra if isinstance(extra, Mapping) else None)
            if under is not None:
                found[key] = _completed(under, one)
        return found
    if isinstance(value, list) and "items" in schema:
        return [_completed(schema["items"], one) for one in value]
    return value


def _rule_faults(schema: Mapping[str, Any], value: object, place: str) -> Iterator[Fault]:
    for rule in schema.get("x-kubernetes-validations", ()):
        text = rule["rule"]
        if "oldSelf" not in text and not _holds(text, value):
            yield Fault(place, rule.get("message") or f"breaks the rule `{text}`")
    if isinstance(value, Mapping):
        named = schema.get("properties", {})
        extra = schema.get("additionalProperties")
        for key, inner in value.items():
            under = named.get(key, extra if isinstance(extra, Mapping) else None)
            if under is not None:
                yield from _rule_faults(under, inner, f"{place}.{key}".removeprefix("."))
    elif isinstance(value, list) and "items" in schema:
        for index, inner in enumerate(value):
            yield from _rule_faults(schema["items"], inner, f"{place}[{index}]")


def _holds(rule: str, value: object) -> bool:
    """Whether a value keeps to a rule; one that cannot be evaluated does not hold, as there."""
    try:
        return bool(_compiled(rule).execute({"self": value}))
    except (ValueError, TypeError, RuntimeError, KeyError):
        return False


@cache
def _compiled(rule: str) -> Any:
    return library("cel").compile(rule)
