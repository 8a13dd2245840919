"""One thing that is wrong with a configuration: where, what, and how to mend it."""

from typing import NamedTuple

__all__ = ["Keys", "Problem"]

Keys = tuple[str | int, ...]
"""Where a setting stands: keys of mappings and indices of lists."""


class Problem(NamedTuple):
    """One thing that is wrong, where, and how to mend it."""

    keys: Keys
    value: object
    message: str
    hint: str | None
