"""The error tree: what its docstring draws is what there is."""

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

from headway import errors
from headway.errors import ConfigError, HeadwayError, InvalidTransitionError, RejectedError

LINE = re.compile(r"^(?P<indent> +)(?P<names>[A-Z]\w+)(?:\((?P<args>[^)]*)\))? +(?P<code>[a-z_]+)$")


class Drawn(NamedTuple):
    """A class as the docstring draws it."""

    name: str
    parent: str
    code: str
    args: tuple[str, ...]


def drawn_tree() -> Iterator[Drawn]:
    """Read the tree off the module's docstring."""
    path: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        head = "HeadwayError(message, *, hint=None)"
        match = LINE.match(line.replace(head, "HeadwayError").replace("code", "headway"))
        if match is None:
            continue
        indent = len(match["indent"])
        path = [(at, name) for at, name in path if at < indent]
        args = tuple(arg.strip() for arg in (match["args"] or "").split(",") if arg.strip())
        parent = path[-1][1] if path else "Exception"
        yield Drawn(match["names"], parent, match["code"], args)
        path.append((indent, match["names"]))


def classes() -> dict[str, type[HeadwayError]]:
    """Every error class of the module."""
    return {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, HeadwayError)
    }


def test_docstring_draws_every_class_under_its_parent() -> None:
    """The tree in the docstring has the classes, parents and codes of the module, and no others."""
    drawn = {(entry.name, entry.parent, entry.code) for entry in drawn_tree()}
    actual = {(name, kind.__bases__[0].__name__, kind.code) for name, kind in classes().items()}
    assert actual == drawn


def test_docstring_names_arguments_that_exist() -> None:
    """What stands in parentheses after a class is an argument of it."""
    for entry in drawn_tree():
        assert set(entry.args) <= set(inspect.signature(classes()[entry.name]).parameters)


def test_every_class_is_exported_and_has_its_own_code() -> None:
    """No two errors share a code, and all can be imported by name."""
    assert sorted(errors.__all__) == sorted(classes())
    codes = [kind.code for kind in classes().values()]
    assert len(set(codes)) == len(codes)


def test_text_ends_with_the_hint() -> None:
    """An error prints what happened, then what to do about it, if anything."""
    assert str(HeadwayError("it broke")) == "it broke"
    assert str(HeadwayError("it broke", hint="mend it")) == "it broke (hint: mend it)"


def test_errors_carry_what_callers_need() -> None:
    """Details are attributes, not only words."""
    rejected = RejectedError("full", reason="model_queue_full", retry_after_ns=5)
    assert (rejected.reason, rejected.retry_after_ns) == ("model_queue_full", 5)
    wrong = ConfigError("bad port", path="server.port", value=70_000)
    assert (wrong.path, wrong.value) == ("server.port", 70_000)
    assert InvalidTransitionError("no", story=["a", "b"]).story == ("a", "b")
