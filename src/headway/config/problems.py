"""What pydantic says of a wrong configuration, said so that it can be mended.

Knows pydantic's error types, the outline and where each value was written. Refuses to read.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headway.config.checks import CrossCheckError, Keys, Problem, dotted
from headway.config.outline import Outline, config_outline
from headway.config.words import choice_hint
from headway.errors import ConfigError
from headway.tenancy import KEY_FORM

__all__ = ["config_error", "problems_of"]

_VALUE_CHARS_MAX: Final = 60
_SECRET_PLACES: Final = frozenset({"keys", "ledger"})
"""Where people write a key or a password, in its place or not: errors go to logs."""
_HIDDEN: Final = "***"

_KINDS_OF_VALUE: Final[Mapping[str, str]] = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping of settings",
}


def config_error(
    error: ValidationError,
    data: Mapping[str, Any],
    place_of: Callable[[Keys], str],
    outline: Outline | None = None,
) -> ConfigError:
    """The first problem as an error to raise; the others are its notes.

    Args:
        error: what pydantic found.
        data: what it looked at.
        place_of: where a setting was written, such as `serve.yaml:7`.
        outline: of what was read, where that is no configuration.
    """
    first, *others = problems_of(error, data, outline)
    result = ConfigError(
        _sentence(first, place_of), path=dotted(first.keys), value=first.value, hint=first.hint
    )
    for other in others:
        hint = f" (hint: {other.hint})" if other.hint else ""
        result.add_note(_sentence(other, place_of) + hint)
    return result


def problems_of(
    error: ValidationError, data: Mapping[str, Any], outline: Outline | None = None
) -> list[Problem]:
    """Every problem once, in the order of the settings."""
    outline = outline or config_outline()
    found: dict[Keys, Problem] = {}
    for detail in error.errors(include_url=False):
        for problem in _problems(detail, data, outline):
            # Only a value of any plain type is tried as several, and fails as each.
            if problem.keys in found:
                message = f"`{_shown(problem.value)}` is not text, a number, true or false"
                found[problem.keys] = problem._replace(message=message)
            else:
                found[problem.keys] = problem
    return [found[keys] for keys in found if not _is_outer(keys, found)]


def _is_outer(keys: Keys, found: Mapping[Keys, Problem]) -> bool:
    """Whether a problem only follows from one inside it: a list is short of what was refused."""
    return any(len(other) > len(keys) and other[: len(keys)] == keys for other in found)


def _sentence(problem: Problem, place_of: Callable[[Keys], str]) -> str:
    place = place_of(problem.keys)
    return ": ".join(part for part in (place, dotted(problem.keys), problem.message) if part)


def _problems(detail: ErrorDetails, data: Mapping[str, Any], outline: Outline) -> Iterator[Problem]:
    raised = detail.get("ctx", {}).get("error")
    if isinstance(raised, CrossCheckError):
        yield from raised.problems
        return
    keys = _keys_in(detail["loc"], data, outline)
    value = _HIDDEN if _SECRET_PLACES.intersection(map(str, keys)) else detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            parent = dotted(keys[:-1])
            message = f"`{keys[-1]}` is not a setting" + (f" of {parent}" if parent else "")
            yield Problem(keys, value, message, choice_hint(keys[-1], outline.keys_at(keys[:-1])))
        case "missing":
            hint = f"add it: {outline.description_at(keys) or 'it has no default'}"
            yield Problem(keys, None, f"`{keys[-1]}` is missing", hint)
        case "union_tag_not_found":
            hint = choice_hint("", outline.kinds_at(keys))
            yield Problem((*keys, "kind"), None, "`kind` is missing", hint)
        case "union_tag_invalid":
            tag = value.get("kind") if isinstance(value, Mapping) else value
            message = f"`{_shown(tag)}` is not a kind of {dotted(keys)}"
            yield Problem((*keys, "kind"), tag, message, choice_hint(tag, outline.kinds_at(keys)))
        case "value_error":
            yield Problem(keys, value, str(raised), _hint_at(keys, outline))
        case "enum" | "literal_error":
            choices = [str(c) for node in outline.nodes_at(keys) for c in _choices_of(node)]
            message = f"`{_shown(value)}` is not a choice"
            yield Problem(keys, value, message, choice_hint(value, choices))
        case "string_pattern_mismatch":
            hint = "begin with a letter or digit; then letters, digits and `.`, `_`, `-` may follow"
            yield Problem(keys, value, f"`{_shown(value)}` cannot be a name", hint)
        case "too_short" | "string_too_short":
            yield Problem(keys, value, f"`{_shown(value)}` is empty", _hint_at(keys, outline))
        case kind:
            yield _problem_of_type(kind, keys, value, detail["msg"], outline)


def _problem_of_type(kind: str, keys: Keys, value: object, said: str, outline: Outline) -> Problem:
    """A value of the wrong type, or out of its range."""
    word = kind.partition("_")[0]
    is_type = kind.endswith(("_type", "_parsing", "_from_float"))
    if is_type and word in _KINDS_OF_VALUE:
        message = f"`{_shown(value)}` is not {_KINDS_OF_VALUE[word]}"
    else:
        said = said.replace("Input should", "must").replace("String should", "must")
        message = f"`{_shown(value)}` {said[0].lower() + said[1:]}"
    hint = _hint_at(keys, outline)
    if is_type and word == "tuple" and isinstance(value, str | int):
        hint = f"write a list: [{value}]"
    elif is_type and word == "model" and str(value) in outline.kinds_at(keys):
        hint = f"write `{{kind: {value}}}`"
    return Problem(keys, value, message, hint)


def _hint_at(keys: Keys, outline: Outline) -> str | None:
    text = outline.description_at(keys)
    return f"{keys[-1]}: {text}" if text else None


def _choices_of(node: Mapping[str, Any]) -> list[Any]:
    return [node["const"]] if "const" in node else node.get("enum", [])


def _keys_in(loc: tuple[int | str, ...], data: Any, outline: Outline) -> Keys:
    """Drop from pydantic's path what is not in the data: the names of a union's choices."""
    keys: list[int | str] = []
    for position, key in enumerate(loc):
        is_known = key in data if isinstance(data, Mapping) else _is_index(key, data)
        if is_known:
            keys.append(key)
            data = data[key]
        elif (
            position == len(loc) - 1
            and isinstance(data, Mapping)
            and key in outline.keys_at(tuple(keys))
        ):
            keys.append(key)
    return tuple(keys)


def _is_index(key: int | str, data: Any) -> bool:
    return isinstance(key, int) and isinstance(data, list | tuple) and key < len(data)


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = KEY_FORM.sub("hwk_***", text)
    return text if len(text) <= _VALUE_CHARS_MAX else text[: _VALUE_CHARS_MAX - 3] + "..."
