"""`headway plan validate`: files of the formats that plans are written in, checked offline."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import print_json, print_table
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.rollout import Checked

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway plan validate out/onprem"

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".sh", ".env", ".toml"})
_FILES_MAX: Final = 10_000
_EXIT_FAULTY: Final = 2


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="files, or folders whose files are all checked"
    )
    parser.add_argument(
        "--crds",
        metavar="FOLDER",
        help="custom resource definitions (.yaml) of your cluster, instead of those that come with "
        "headway",
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Check each file; exit 2 if any would be refused."""
    from headway.rollout import check_file, read_definitions, shipped_definitions

    definitions = read_definitions(Path(args.crds)) if args.crds else shipped_definitions()
    found = {
        str(path): check_file(path.name, _text(path), definitions) for path in _files(args.paths)
    }
    _print(args, found)
    return _EXIT_FAULTY if any(checked.faults for checked in found.values()) else 0


def _files(paths: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for text in paths:
        path = Path(text)
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(one for one in path.rglob("*") if one.is_file() and one.suffix in _SUFFIXES)
        if not inside or len(inside) > _FILES_MAX:
            raise HeadwayError(
                f"`{path}` holds {len(inside) or 'no'} files to check",
                hint=f"those that end in {', '.join(sorted(_SUFFIXES))} are, {_FILES_MAX} at most",
            )
        found += inside
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise HeadwayError(f"cannot read `{path}`: {reason}") from error


def _print(args: argparse.Namespace, found: "dict[str, Checked]") -> None:
    if args.format == "json":
        print_json(
            {
                path: {
                    "subjects": list(checked.subjects),
                    "faults": [fault._asdict() for fault in checked.faults],
                }
                for path, checked in found.items()
            }
        )
        return
    print_table(("file", "where", "what"), _rows(found))


def _rows(found: "dict[str, Checked]") -> Iterator[tuple[str, str, str]]:
    for path, checked in found.items():
        if not checked.faults:
            yield path, "", "valid"
        for fault in checked.faults:
            yield path, fault.place, fault.message
