"""`headway monitoring dashboards`: files that Grafana imports."""

import argparse
from pathlib import Path

from headway.cli.arguments import UsageError, VerbParser
from headway.cli.output import print_table, say
from headway.errors import HeadwayError

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway monitoring dashboards --name overview"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    from headway.monitoring import AlertSettings

    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", metavar="FOLDER", help="write them all there (only list them)")
    where.add_argument("--name", metavar="NAME", help="print this one")
    runbooks = AlertSettings().runbooks
    parser.add_argument(
        "--runbooks",
        default=runbooks,
        metavar="URL",
        help=f"where the runbook pages are kept; panels link to what a browser opens ({runbooks})",
    )


def run(args: argparse.Namespace) -> int:
    """List, print or write."""
    from headway.monitoring import dashboard_text, dashboards

    texts = {each.name: dashboard_text(each, args.runbooks) for each in dashboards()}
    if args.name is not None:
        if args.name not in texts:
            names = ", ".join(f"`{name}`" for name in texts)
            raise UsageError(f"there is no dashboard `{args.name}`", hint=f"valid: {names}")
        print(texts[args.name], end="")
    elif args.out is not None:
        _write(Path(args.out), texts)
    else:
        rows = [(each.name, len(each.panels), each.says) for each in dashboards()]
        print_table(("name", "panels", "what it shows"), rows)
    return 0


def _write(folder: Path, texts: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            path = folder / f"headway-{name}.json"
            path.write_text(text, encoding="utf-8")
            say(f"dashboard: {path}")
    except OSError as error:
        raise HeadwayError(f"cannot write `{error.filename}`: {error.strerror}") from error
