"""Make the custom resource definitions that come with headway of those that projects publish.

Usage: `python tools/trim_crds.py FOLDER`. FOLDER holds the published files (`*.yaml`) of KServe,
KEDA, Kueue and the KAI scheduler. Written are `src/headway/rollout/crds/*.json`, one a project: the
stored version of each kind that headway emits, without descriptions and status.
Large parts that headway never writes are left open, so that nothing in them is refused.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src/headway/rollout/crds"
OPEN_BYTES = 10_000
"""A part that headway does not write is left open above this size."""
OPEN = {"x-kubernetes-preserve-unknown-fields": True}

# kind -> project, and the parts that headway writes
KINDS: Mapping[str, tuple[str, Sequence[str]]] = {
    "ClusterServingRuntime": ("kserve", ("spec.containers",)),
    "InferenceService": ("kserve", ("spec.predictor.model", "spec.predictor.affinity")),
    "ScaledObject": ("keda", ("spec",)),
    "ClusterQueue": ("kueue", ("spec",)),
    "LocalQueue": ("kueue", ("spec",)),
    "ResourceFlavor": ("kueue", ("spec",)),
    "Topology": ("kueue", ("spec",)),
    "WorkloadPriorityClass": ("kueue", ("",)),
    "Queue": ("kai", ("spec",)),
}
GROUPS = frozenset({"serving.kserve.io", "keda.sh", "kueue.x-k8s.io", "scheduling.run.ai"})

PLAIN_KEYS = frozenset(
    "default enum exclusiveMaximum exclusiveMinimum maxItems maxLength maxProperties maximum "
    "minItems "
    "minLength minProperties minimum multipleOf nullable pattern required type uniqueItems "
    "x-kubernetes-embedded-resource x-kubernetes-int-or-string "
    "x-kubernetes-preserve-unknown-fields".split()
)


def main() -> int:
    """Write every project's file."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    projects: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(Path(sys.argv[1]).glob("*.yaml")):
        for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
            if document and document["spec"]["group"] in GROUPS:
                project, definition = trimmed(document["spec"])
                projects.setdefault(project, []).append(definition)
    for project, definitions in projects.items():
        text = json.dumps(definitions, separators=(",", ":"), sort_keys=True)
        # A line a definition: a change of one is seen as such.
        path = TARGET / f"{project}.json"
        path.write_text(text.replace('},{"apiVersion"', '},\n{"apiVersion"') + "\n")
        kinds = ", ".join(one["kind"] for one in definitions)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB, {kinds}")
    return 0


def trimmed(spec: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The project, and its definition as headway keeps it."""
    kind = spec["names"]["kind"]
    project, written = KINDS[kind]
    version = next(one for one in spec["versions"] if one["storage"])
    schema = plain(version["schema"]["openAPIV3Schema"])
    schema["properties"].pop("status", None)
    for key in ("apiVersion", "kind", "metadata"):
        schema["properties"].pop(key, None)
    definition = {
        "apiVersion": f"{spec['group']}/{version['name']}",
        "kind": kind,
        "scope": spec["scope"],
        "schema": opened(schema, "", written),
    }
    return project, definition


def plain(node: Mapping[str, Any]) -> dict[str, Any]:
    """What decides whether a value is valid, and no more."""
    found: dict[str, Any] = {key: value for key, value in node.items() if key in PLAIN_KEYS}
    if "properties" in node:
        found["properties"] = {key: plain(value) for key, value in node["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if key in node:
            found[key] = plain(node[key]) if isinstance(node[key], Mapping) else node[key]
    for key in ("allOf", "anyOf", "oneOf"):
        if key in node:
            found[key] = [plain(one) for one in node[key]]
    if "x-kubernetes-validations" in node:
        found["x-kubernetes-validations"] = [
            {key: rule[key] for key in ("rule", "message") if key in rule}
            for rule in node["x-kubernetes-validations"]
        ]
    return found


def opened(node: dict[str, Any], place: str, written: Sequence[str]) -> dict[str, Any]:
    """The same with large parts left open that no emitter writes."""
    for key, value in list(node.get("properties", {}).items()):
        inner = f"{place}.{key}".removeprefix(".")
        if any(is_within(inner, one) for one in written):
            continue
        if any(is_within(one, inner) for one in written):
            node["properties"][key] = opened(value, inner, written)
        elif len(json.dumps(value)) > OPEN_BYTES:
            node["properties"][key] = dict(OPEN)
    return node


def is_within(place: str, outer: str) -> bool:
    """Whether a dotted path is another, or below it."""
    return not outer or place == outer or place.startswith(f"{outer}.")


if __name__ == "__main__":
    sys.exit(main())
