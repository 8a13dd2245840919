"""`headway key`: makes a key for a tenant or for management, and the hash that is kept of it."""

import argparse
import sys

from headway.cli.arguments import UsageError, VerbParser, add_format
from headway.cli.output import print_json, say

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway key --format json"


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "--existing",
        action="store_true",
        help="read a key from standard input and print its hash, instead of making one",
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the key, which is kept nowhere, and its hash."""
    from headway.tenancy import hash_of, new_key

    key = sys.stdin.readline().strip() if args.existing else new_key()
    if not key:
        raise UsageError("there is no key on standard input", hint="headway key --existing < FILE")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UsageError("the key has characters that no header carries", hint="use ASCII")
    found = {"hash": hash_of(key)} if args.existing else {"key": key, "hash": hash_of(key)}
    if args.format == "json":
        print_json(found)
        return 0
    for name, value in found.items():
        print(f"{name}: {value}")
    if not args.existing:
        say("give the key to whoever is to use it: it is not kept, and is not shown again")
        say("write the hash under tenancy.tenants.NAME.keys, or server.admin.keys, of the server")
    return 0
