"""The JSON Schema of a file, and what it says about one place of it.

Knows schemas only, so that hints, environment names and reference pages cannot disagree with them.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from headway.config.checks import Keys
from headway.config.schema import Config

__all__ = ["Outline", "config_outline", "config_schema", "schema_of"]

Node = Mapping[str, Any]


@cache
def config_schema() -> dict[str, Any]:
    """JSON Schema of a configuration file."""
    return schema_of(Config, "headway configuration")


@cache
def config_outline() -> "Outline":
    """What may stand where in a configuration file."""
    return Outline(config_schema())


def schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    """JSON Schema of a file that is read into a model."""
    # As serialised: defaults then read "30s", as people write them, and not in nanoseconds.
    schema = model.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_without_titles(schema),
        "title": title,
    }


class Outline:
    """What may stand where in a file."""

    def __init__(self, schema: Node) -> None:
        self._schema = schema

    def nodes_at(self, keys: Keys) -> list[Node]:
        """What may stand at a place: one node a choice, none where nothing may stand."""
        nodes: list[Node] = [self._schema]
        for key in keys:
            nodes = [inner for node in nodes for inner in self._inside(node, key)]
        return nodes

    def keys_at(self, keys: Keys) -> list[str]:
        """Settings that may be written at a place, in the order of the reference page."""
        found = (name for node in self.nodes_at(keys) for name in node.get("properties", {}))
        return list(dict.fromkeys(found))

    def kinds_at(self, keys: Keys) -> list[str]:
        """Values of `kind` where a place is a choice between several."""
        return [
            node["properties"]["kind"]["const"]
            for node in self.nodes_at(keys)
            if "const" in node.get("properties", {}).get("kind", {})
        ]

    def description_at(self, keys: Keys) -> str | None:
        """The documentation of a setting, on one line."""
        if not keys:
            return None
        for node in self.nodes_at(keys[:-1]):
            inner = node.get("properties", {}).get(str(keys[-1]), {})
            # A section whose field says just what its class says has the text there only.
            for described in (inner, *self._choices(inner)):
                if described.get("description"):
                    return " ".join(str(described["description"]).split())
        return None

    def _inside(self, node: Node, key: str | int) -> Iterator[Node]:
        inner = node.get("properties", {}).get(str(key))
        if inner is None:
            # A map of names, or a list; `false` says that nothing else may stand there.
            patterns = node.get("patternProperties", {}).values()
            inner = (
                next(iter(patterns), None) or node.get("additionalProperties") or node.get("items")
            )
        if isinstance(inner, dict):
            yield from self._choices(inner)

    def _choices(self, node: Node) -> Iterator[Node]:
        """Follow references and unions down to what can be written."""
        if "$ref" in node:
            name = str(node["$ref"]).rpartition("/")[2]
            yield from self._choices(self._schema["$defs"][name])
            return
        options = [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]
        if not options:
            yield node
        for option in options:
            yield from self._choices(option)


def _without_titles(node: Any) -> Any:
    """Titles only repeat the names of fields; a field may itself be called `title`."""
    if isinstance(node, dict):
        return {
            key: _without_titles(value)
            for key, value in node.items()
            if key != "title" or not isinstance(value, str)
        }
    return [_without_titles(value) for value in node] if isinstance(node, list) else node
