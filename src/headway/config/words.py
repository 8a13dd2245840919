"""How a problem's hint is worded, and what a path may name; shared by all checks."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["choice_hint", "is_class_path"]


def choice_hint(wrong: object, choices: Iterable[str]) -> str:
    """Name the nearest choice, if one is near, and all of them."""
    valid = list(choices)
    listing = ", ".join(f"`{choice}`" for choice in valid)
    close = get_close_matches(str(wrong), valid, n=1)
    return f"did you mean `{close[0]}`? valid: {listing}" if close else f"valid: {listing}"


def is_class_path(path: str) -> bool:
    """Whether a path is `file.py:Class` or `module:Class`; a function is named likewise."""
    place, _, name = path.rpartition(":")
    return bool(place) and name.isidentifier()
