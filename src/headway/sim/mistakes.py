"""Saying what is wrong in a file of words: the place, the value that stands there, a hint.

Knows msgspec's messages and `ConfigError`. Refuses to know what the words mean.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from headway.errors import ConfigError

__all__ = ["convert", "known", "refuse_twins", "wrong"]

T = TypeVar("T")
_PLACE: Final = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`$")
_STEP: Final = re.compile(r"\[(?P<index>\d+)\]|(?P<name>[^.\[\]]+)")
_HINTS: Final[Mapping[str, str]] = {
    "sharing": "sharing is `solo`, `lanes` or {kind: lanes, niced: true}",
    "slot_class": "slot classes are `high` and `low`",
    "layouts": "a layout's kind is colocated, disaggregated or offload",
    "requests": "requests are of kind trace or bursts",
}


def convert(
    data: object, kind: type[T], prefix: str, *, words: tuple[Callable[[object], object], ...]
) -> T:
    """Plain values as a structure.

    Args:
        data: plain values.
        kind: of the structure.
        prefix: the path at which they stand.
        words: types that are made of what is written, such as a length of time.

    Raises:
        ConfigError: with the path of the wrong value, the value and a hint.
    """

    def decode(wanted: type, value: object) -> object:
        for word in words:
            if wanted is word:
                return word(value)
        raise NotImplementedError(wanted)

    try:
        return msgspec.convert(data, kind, dec_hook=decode, str_keys=True)
    except msgspec.ValidationError as error:
        text = str(error)
        place = _PLACE.search(text)
        path = place["path"] if place else ""
        what = text[: place.start()] if place else text
        whole = ".".join(filter(None, (prefix, path)))
        value = _at(data, path)
        shown = f" (it is `{value}`)" if path and not isinstance(value, Mapping | list) else ""
        hint = _HINTS.get(re.split(r"[.\[]", whole)[0]) or _HINTS.get(path.rpartition(".")[2])
        raise ConfigError(
            f"`{whole or 'scenario'}`: {what}{shown}", path=whole, value=value, hint=hint
        ) from error


def wrong(path: str, value: object, what: str, hint: str) -> ConfigError:
    """A value that is of the right kind and cannot be."""
    return ConfigError(f"`{path}`: {what}", path=path, value=value, hint=hint)


def known(name: str, names: Sequence[str], what: str, path: str) -> None:
    """Demand that there is one of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in names:
        hint = f"{what}s here are {', '.join(f'`{each}`' for each in names)}"
        raise wrong(path, name, f"there is no {what} `{name}`", hint)


def refuse_twins(names: Sequence[str], path: str) -> None:
    """Demand that no name stands twice.

    Raises:
        ConfigError: one does.
    """
    for index, name in enumerate(names):
        if name in names[:index]:
            raise wrong(f"{path}[{index}].name", name, f"`{name}` stands twice", "rename one")


def _at(data: object, path: str) -> object:
    """The value that stands at a path, or None."""
    value: Any = data
    for step in _STEP.finditer(path):
        try:
            value = value[int(step["index"]) if step["index"] else step["name"]]
        except (KeyError, IndexError, TypeError):
            return None
    return value
