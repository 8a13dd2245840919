"""Values as YAML text and back, as people and their tools write it.

Knows YAML. Refuses to know what the values mean.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import yaml

from headway.errors import HeadwayError

__all__ = ["from_yaml", "to_yaml"]


# Ten times as fast; not in every build of the library.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Dumper(yaml.SafeDumper):
    """Blocks for text of several lines, lists indented below their key, no aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """A value that stands twice is written twice."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(documents: Iterable[object], *, comments: Sequence[str] = ()) -> str:
    """Several documents as one file, under its comments; keys keep their order."""
    head = "".join(f"# {' '.join(line.split())}".rstrip() + "\n" for line in comments)
    texts = [
        yaml.dump(one, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
        for one in documents
    ]
    return head + "---\n".join(texts)


def from_yaml(text: str) -> list[Any]:
    """Every document of a file; empty ones are left out.

    Raises:
        HeadwayError: it is not YAML.
    """
    try:
        return [one for one in yaml.load_all(text, Loader=_LOADER) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        raise HeadwayError(
            f"{place}this is not YAML: {getattr(error, 'problem', error)}"
        ) from error
