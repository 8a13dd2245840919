"""The environment: the only place of the product that reads it.

Knows names of variables. Every function also takes the environment as an argument, for tests.
"""

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["cache_folder", "environment", "setting_variables", "wants_colour"]

_PREFIX = "HEADWAY_"


def environment() -> Mapping[str, str]:
    """The process's environment."""
    return os.environ  # noqa: TID251 - this is the sole reader


def setting_variables(environ: Mapping[str, str], sections: frozenset[str]) -> dict[str, list[str]]:
    """Variables that set something, with the words of their path.

    Only names with a double underscore, or that are a section as a whole, are ours to judge: a
    cluster gives its pods variables such as `HEADWAY_PORT` and `HEADWAY_SERVICE_HOST` for a
    service that happens to be called headway. Empty ones count as not set.
    """
    found = {}
    for name in sorted(environ):
        words = name.removeprefix(_PREFIX).split("__")
        is_setting = len(words) > 1 or words[0].lower() in sections
        if name.startswith(_PREFIX) and is_setting and environ[name]:
            found[name] = words
    return found


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where downloads are kept: `HEADWAY_CACHE`, else headway's part of the user's cache."""
    values = environment() if environ is None else environ
    if values.get("HEADWAY_CACHE"):
        return Path(values["HEADWAY_CACHE"]).expanduser()
    shared = values.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path("~/.cache").expanduser()) / "headway"


def wants_colour(*, is_terminal: bool, environ: Mapping[str, str] | None = None) -> bool:
    """Colour only on a terminal that can show it, and never against `NO_COLOR`."""
    values = environment() if environ is None else environ
    return is_terminal and not values.get("NO_COLOR") and values.get("TERM") != "dumb"
