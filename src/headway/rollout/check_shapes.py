"""Our own schemas, of formats for which nobody publishes one, and how a value departs from one.

Knows JSON schema. The schemas are in `schemas/`, a file each.
"""

import importlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from headway.errors import HeadwayError

__all__ = ["Fault", "faults_by", "library", "shape_faults"]

_FAULTS_MAX: Final = 20
"""Of one value: who mends these sees the rest."""


_ALTERNATIVES_MAX: Final = 4


class Fault(NamedTuple):
    """Something that whoever reads the file will refuse."""

    place: str
    """`spec.triggers[0].metadata`; empty for the whole."""
    message: str

    def within(self, place: str) -> "Fault":
        """The same, seen from further out."""
        inner = self.place
        joint = "" if not inner or inner.startswith("[") or not place else "."
        return Fault(f"{place}{joint}{inner}", self.message)


def shape_faults(name: str, value: object) -> list[Fault]:
    """How a value departs from a schema of ours."""
    return faults_by(_validator(name), value)


def faults_by(validator: Any, value: object) -> list[Fault]:
    """What a validator has against a value, the shallowest first."""
    errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.path)))
    return [Fault(_place(error.path), _words(error)) for error in errors[:_FAULTS_MAX]]


def library(name: str) -> Any:
    """A library of the extra `plan`, imported when it is first needed.

    Raises:
        HeadwayError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise HeadwayError(
            f"`{name}` is not installed, which checks files", hint="pip install headway[plan]"
        ) from error


@cache
def _validator(name: str) -> Any:
    text = (files("headway.rollout") / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    return library("jsonschema").Draft202012Validator(json.loads(text))


def _words(error: Any) -> str:
    """What is wrong; of alternatives, what is wrong with the one that fits best, or with each."""
    if not error.context:
        return str(error.message)
    best = library("jsonschema.exceptions").best_match([error])
    if best is not error:
        return str(best.message)
    messages = dict.fromkeys(str(one.message) for one in error.context)
    return "; or ".join(list(messages)[:_ALTERNATIVES_MAX])


def _place(path: Iterable[object]) -> str:
    return "".join(_steps(path)).removeprefix(".")


def _steps(path: Iterable[object]) -> Iterator[str]:
    for step in path:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"
