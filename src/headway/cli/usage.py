"""`headway usage`: what tenants have used, out of the ledger."""

import argparse
import csv
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError, VerbParser
from headway.cli.output import print_json, print_table

if TYPE_CHECKING:
    from headway.tenancy import UsageSum

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway usage sqlite:///headway-usage.db --by day,tenant --format csv"

_KEYS = ("tenant", "model", "hour", "day", "month")
_COLUMNS = (
    "requests",
    "completed",
    "refused",
    "expired",
    "failed",
    "cancelled",
    "violations",
    "rows",
    "tokens",
    "device_seconds",
    "bytes_in",
    "bytes_out",
)


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "ledger",
        metavar="LEDGER",
        help="configuration (.yaml) whose tenancy.ledger is read, or an SQLAlchemy URL",
    )
    parser.add_argument("--tenant", metavar="NAME", help="of this tenant alone")
    parser.add_argument(
        "--since", type=_instant, metavar="DATE", help="from this day or hour on, in UTC"
    )
    parser.add_argument(
        "--until", type=_instant, metavar="DATE", help="before this day or hour, in UTC"
    )
    parser.add_argument(
        "--by",
        type=_keys,
        default=("tenant", "model"),
        metavar="KEY,...",
        help=f"what a line is of, out of {', '.join(_KEYS)} (tenant,model)",
    )
    parser.add_argument(
        "--format",
        choices=("table", "json", "csv"),
        default="table",
        help="how data is printed (table)",
    )


def run(args: argparse.Namespace) -> int:
    """Print sums."""
    from headway.tenancy import open_ledger

    with open_ledger(_url_of(args.ledger), creates=False) as ledger:
        sums = ledger.sums(
            args.by, tenant=args.tenant, since_unix_s=args.since, until_unix_s=args.until
        )
    columns = (*args.by, *_COLUMNS)
    rows = [_cells(one) for one in sums]
    if args.format == "json":
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif args.format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        print_table(columns, rows)
    return 0


def _cells(one: "UsageSum") -> list[object]:
    usage = one.usage
    amounts = [
        round(usage.device_ns / 1e9, 3) if name == "device_seconds" else getattr(usage, name)
        for name in _COLUMNS
    ]
    return [*one.keys, *amounts]


def _url_of(text: str) -> str:
    if "://" in text:
        return text
    if Path(text).suffix not in {".yaml", ".yml"}:
        raise UsageError(
            f"`{text}` is neither a configuration nor a database",
            hint="give a `.yaml` file, or a URL such as `sqlite:///headway-usage.db`",
        )
    from headway.config import load_config

    tenancy = load_config(Path(text)).config.tenancy
    if tenancy is None or tenancy.ledger is None:
        raise UsageError(f"`{text}` keeps no ledger", hint="see tenancy.ledger")
    return tenancy.ledger


def _instant(text: str) -> int:
    """A day or an hour, of UTC unless it says another zone, in seconds since 1970."""
    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except ValueError:
        message = f"`{text}` is no day such as 2026-11-30, and no hour such as 2026-11-30T15:00"
        raise argparse.ArgumentTypeError(message) from None


def _keys(text: str) -> Sequence[str]:
    keys = text.split(",")
    wrong = next((key for key in keys if key not in _KEYS), None)
    if wrong is not None or len(set(keys)) < len(keys):
        raise argparse.ArgumentTypeError(f"`{text}` is not some of {', '.join(_KEYS)}, once each")
    return tuple(keys)
