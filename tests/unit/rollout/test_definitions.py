"""Definitions of custom resources as Kubernetes reads them: schemas, defaults, and rules in CEL."""

import sys
from typing import Any

import pytest

from headway.errors import HeadwayError
from headway.rollout import Definition, shipped_definitions

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "port": {"x-kubernetes-int-or-string": True},
                "mode": {"type": "string", "enum": ["a", "b"], "nullable": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "either": {
                    "type": "object",
                    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                    "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
                    "not": {"properties": {"x": {"enum": [13]}}, "required": ["x"]},
                },
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
                "steps": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "weight": {"default": 1}},
                        "x-kubernetes-validations": [{"rule": "self.weight > 0"}],
                    },
                },
            },
        }
    },
}
THING = Definition("example.org/v1", "Thing", SCHEMA, is_namespaced=True)


def faults(**spec: Any) -> list[str]:
    value = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}}
    return [f"{one.place}: {one.message}" for one in THING.faults({**value, "spec": spec})]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"port": 80},
        {"port": "http"},
        {"mode": None},
        {"labels": {"any": "name"}},
        {"anything": {"at": {"all": []}}},
        {"either": {"x": 1}},
        {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}},
        {"steps": [{"name": "a"}, {"weight": 2}]},
    ],
)
def test_what_the_schema_allows_is_valid(spec: dict[str, Any]) -> None:
    """Also where Kubernetes' schemas mean something else than JSON's."""
    assert faults(**spec) == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"port": 8.5}, "spec.port: 8.5 is not of type"),
        ({"mode": "c"}, "spec.mode: 'c' is not one of"),
        ({"labels": {"any": 1}}, "spec.labels.any: 1 is not of type 'string'"),
        ({"either": {}}, "spec.either: 'x' is a required property"),
        ({"either": {"x": 1, "y": 2}}, "spec.either: "),
        ({"either": {"x": 13}}, "spec.either: "),
        ({"either": {"x": 1, "z": 2}}, "spec.either: Additional properties are not allowed"),
        ({"template": {"spec": {}, "sepc": {}}}, "'sepc' was unexpected"),
        ({"steps": [{}, {}, {}]}, "spec.steps: "),
        ({"steps": [{"weight": 0}]}, "spec.steps[0]: breaks the rule `self.weight > 0`"),
        ({"steps": [{"weight": "x"}]}, "spec.steps[0]: breaks the rule"),
    ],
)
def test_what_it_does_not_is_told_with_its_place(spec: dict[str, Any], words: str) -> None:
    """Rules that cannot be evaluated do not hold, as in an API server."""
    (found,) = faults(**spec)
    assert found.startswith(words) or words in found


def test_library_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is needed for these checks alone."""
    monkeypatch.setitem(sys.modules, "cel", None)
    schema = {"properties": {}, "x-kubernetes-validations": [{"rule": "size(self.kind) > 1 + 1"}]}
    with pytest.raises(HeadwayError, match="`cel` is not installed") as caught:
        Definition("example.org/v1", "Other", schema, is_namespaced=True).faults({"kind": "Other"})
    assert caught.value.hint == "pip install headway[plan]"


def test_every_kind_that_is_emitted_has_its_definition() -> None:
    """With the rules of those that have any, all of which can be compiled."""
    found = shipped_definitions()
    assert {kind for _, kind in found} == {
        *("ClusterServingRuntime", "InferenceService", "ScaledObject", "Queue"),
        *("ClusterQueue", "LocalQueue", "ResourceFlavor", "Topology", "WorkloadPriorityClass"),
    }
    import cel

    rules = [rule for one in found.values() for rule in rules_of(one.schema)]
    assert len(rules) > 10
    for rule in rules:
        cel.compile(rule)


def rules_of(node: Any) -> list[str]:
    """Every rule of a schema."""
    if isinstance(node, list):
        return [rule for one in node for rule in rules_of(one)]
    if not isinstance(node, dict):
        return []
    own = [one["rule"] for one in node.get("x-kubernetes-validations", ())]
    return own + [rule for one in node.values() for rule in rules_of(one)]
