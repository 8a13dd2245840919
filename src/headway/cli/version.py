"""`headway version`: what runs here, found without importing any of it."""

import argparse
import platform
from importlib import metadata

from headway import __version__
from headway.cli.arguments import VerbParser, add_format
from headway.cli.output import print_json, print_table

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway version --format json"

_DISTRIBUTIONS = {
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "torch": ("torch",),
}
"""Library -> the names under which it is published."""


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the versions."""
    found: dict[str, str | None] = {
        "headway": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for library, names in _DISTRIBUTIONS.items():
        found[library] = _version_of(names)
    if args.format == "json":
        print_json(found)
    else:
        print_table(("what", "version"), [(k, v or "not installed") for k, v in found.items()])
    return 0


def _version_of(names: tuple[str, ...]) -> str | None:
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None
