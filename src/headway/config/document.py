"""A YAML file as plain values, with the line of each.

Knows YAML. Refuses to know what the values mean.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import yaml

from headway.config.checks import Keys, dotted
from headway.errors import ConfigError

__all__ = ["Document", "build_from_file", "parse_scalar", "read_document"]

T = TypeVar("T")

_STEP: Final = re.compile(r"\[(?P<index>\d+)\]|(?P<name>[^.\[\]]+)")


class Document(NamedTuple):
    """What a file says, and where."""

    data: dict[str, Any]
    lines: dict[Keys, int]
    """Line of each key and of each element of a list, counted from 1."""


def read_document(path: Path) -> Document:
    """Read a configuration file; an empty one says nothing.

    Raises:
        ConfigError: it cannot be read, is not YAML, is not a mapping, or has a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = "check the path, or see `headway config schema` for what such a file holds"
        raise ConfigError(f"there is no file `{path}`", value=str(path), hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{path}` cannot be read: {error}", value=str(path)) from error
    return parse_document(text, str(path))


def build_from_file(path: Path, build: Callable[[Mapping[str, Any]], T]) -> T:
    """Read a YAML file that is no configuration, and build from it what it describes.

    Args:
        path: the file.
        build: takes its values; a ConfigError of its gets the file and line of the value.

    Raises:
        ConfigError: the file cannot be read, or `build` refused what it says.
    """
    document = read_document(path)
    try:
        return build(document.data)
    except ConfigError as error:
        place = _place_of(error.path, path, document.lines)
        raise ConfigError(
            f"{place}: {error.message}", path=error.path, value=error.value, hint=error.hint
        ) from error


def _place_of(dotted_path: str, path: Path, lines: Mapping[Keys, int]) -> str:
    """The file, and the line of the value or of the nearest that stands around it."""
    keys: Keys = tuple(
        int(step["index"]) if step["index"] else step["name"]
        for step in _STEP.finditer(dotted_path)
    )
    while keys and keys not in lines:
        keys = keys[:-1]
    return f"{path}:{lines[keys]}" if keys else str(path)


def parse_document(text: str, name: str) -> Document:
    """Read the text of a configuration file; `name` is what errors call it."""
    try:
        loader = yaml.SafeLoader(text)
        walk = _Walk(loader, name)
        node = loader.get_single_node()
        data = {} if node is None else walk.value_of(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        message = f"{place}: this is not YAML: {error.problem or error.context}"
        hint = "look at the indentation, and put text with `: ` or `#` in quotes"
        raise ConfigError(message, hint=hint) from error
    except yaml.YAMLError as error:  # a character that no text has
        raise ConfigError(f"{name}: this is not YAML: {error}") from error
    if not isinstance(data, dict):
        hint = "write settings as `key: value`; the first level is server, models, tiers, ..."
        raise ConfigError(f"{name}:1: `{data}` is not a mapping of settings", value=data, hint=hint)
    return Document(data, walk.lines)


def parse_scalar(text: str) -> Any:
    """Read a value given outside a file as it would be read inside one; else take it as text."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


class _Walk:
    """Turns nodes into values and notes the lines on the way."""

    def __init__(self, loader: yaml.SafeLoader, name: str) -> None:
        self.lines: dict[Keys, int] = {}
        self._loader = loader
        self._name = name
        self._open: list[yaml.Node] = []

    def value_of(self, node: yaml.Node, keys: Keys) -> Any:
        """The value of a node that stands at `keys`."""
        if any(node is outer for outer in self._open):
            message = f"{self._place(node)}: an alias here contains itself"
            raise ConfigError(message, path=dotted(keys), hint="write the value out")
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, keys)
            if isinstance(node, yaml.SequenceNode):
                return self._sequence(node, keys)
            return self._loader.construct_object(node, deep=True)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, keys: Keys) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                raise ConfigError(
                    f"{self._place(key_node)}: a key must be one word",
                    path=dotted(keys),
                    hint="write `key: value`",
                )
            place: Keys = (*keys, key)
            if key in result:
                raise ConfigError(
                    f"{self._place(key_node)}: `{dotted(place)}` stands twice, first on line "
                    f"{self.lines[place]}",
                    path=dotted(place),
                    value=key,
                    hint="delete one of them",
                )
            self.lines[place] = key_node.start_mark.line + 1
            result[key] = self.value_of(value_node, place)
        return result

    def _sequence(self, node: yaml.SequenceNode, keys: Keys) -> list[Any]:
        result = []
        for index, element in enumerate(node.value):
            place: Keys = (*keys, index)
            self.lines[place] = element.start_mark.line + 1
            result.append(self.value_of(element, place))
        return result

    def _place(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"
